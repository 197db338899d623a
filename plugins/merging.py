"""`pytest-chaos merge`: the results folders of several machines become one, with one report.

It ends as the campaign would have on one machine: 0 all as promised; 1 something failed, or is missing, or nothing was
proved. 2 is for folders that do not belong together, and nothing is written then.
"""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path

from chaos import results
from chaos.merge.folder import read
from chaos.merge.keep import merged
from chaos.merge.write import write
from chaos.reports import html, matrix, terminal

REPORT = "report.html"
OK, BROKEN = 0, 1


def run(options: argparse.Namespace) -> int:
    """Merge the results in *options*.folders into *options*.output; HarnessError if they do not belong together."""
    out: Path = options.output
    folders: list[Path] = options.folders
    write(
        merged([read(folder) for folder in folders]), out, ["pytest-chaos", "merge", *map(str, folders), "-o", str(out)]
    )
    campaign = results.read(out)
    (out / REPORT).write_text(html.render(campaign, out), encoding="utf-8")
    for line in terminal.render(campaign, str(out / REPORT), shutil.get_terminal_size().columns):
        print(line)
    for note in campaign.info.notes:
        print(note)
    found = matrix.of(campaign)
    return OK if found.judged and not found.bad and not campaign.unjudged else BROKEN
