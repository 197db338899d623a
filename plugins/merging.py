"""`pytest-chaos merge`: the results folders of several machines become one, with one report.

It ends as the campaign would have on one machine: 0 all as promised; 1 something failed, or is missing, or nothing was
proved. 2 is for folders that do not belong together, and nothing is written then.
"""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path

from chaos import results, thresholds
from chaos.merge.folder import read
from chaos.merge.keep import merged
from chaos.merge.write import write
from chaos.plugins import gates, github
from chaos.plugins.settings import Settings
from chaos.reports import html, matrix, terminal
from chaos.results import Campaign

REPORT = "report.html"
OK, BROKEN = 0, 1


def run(options: argparse.Namespace) -> int:
    """Merge the results in *options*.folders into *options*.output; HarnessError if they do not belong together."""
    out: Path = options.output
    folders: list[Path] = options.folders
    for text in options.fail_on:
        thresholds.parse(text)  # what is wrong is said before anything is written
    write(
        merged([read(folder) for folder in folders]), out, ["pytest-chaos", "merge", *map(str, folders), "-o", str(out)]
    )
    campaign = results.read(out)
    closing = gates.close(campaign, _settings(campaign, options), seconds=0.0, processes=1, ended=True)
    html.write(campaign, out, out / REPORT)
    report, width = str(out / REPORT), shutil.get_terminal_size().columns
    for line in terminal.render(campaign, report, width, closing.lines):
        print(line)
    github.tell(campaign, closing.lines, report, print)
    for note in campaign.info.notes:
        print(note)
    found = matrix.of(campaign)
    return OK if found.judged and not found.bad and not campaign.unjudged and not closing.failed else BROKEN


def _settings(campaign: Campaign, options: argparse.Namespace) -> Settings:
    """Return what the gates need to know; the known failures are in the results already."""
    info, history, wanted = campaign.info, str(options.history or ""), tuple(options.fail_on)
    return Settings(info.seed, True, info.campaign, str(options.output), "", None, "", history=history, fail_on=wanted)
