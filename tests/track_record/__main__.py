"""Re-finds public recovery bugs: `python -m tests.track_record lg-8039 [--version newest] [--keep]`, or `--all`.

Each is a program written with the framework at an exact version, and a scenario that any user could have written: the
target `command`, faults and checks, nothing that knows of the bug.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.track_record.cases import SIDES, Bug, Found, bugs, look_for

HEAD = """\
| bug | in | version | found by | minimal plan | newest | command |
|---|---|---|---|---|---|---|"""


def main(arguments: Sequence[str]) -> int:
    """Look for what is asked for; return 0, or 2 where something could not be judged."""
    known = {bug.id: bug for bug in bugs()}
    parser = argparse.ArgumentParser("python -m tests.track_record", description=__doc__)
    parser.add_argument("id", nargs="*", choices=[*known, []], help="of the bug")
    parser.add_argument("--all", action="store_true", help="print the table of all of them (or of those named)")
    parser.add_argument("--version", choices=SIDES, default="affected", help="which of its two sets of versions")
    parser.add_argument("--keep", action="store_true", help="keep the results, and say where")
    given = parser.parse_args(arguments)
    chosen = [known[id] for id in given.id] or list(known.values())
    if given.all:
        return _table(chosen)
    if not given.id:
        parser.error(f"name a bug ({', '.join(known)}), or --all")
    judged = True
    for bug in chosen:
        kept = Path(tempfile.mkdtemp(prefix=f"track-record-{bug.id}-")) if given.keep else None
        one = _looked(bug, given.version, kept)
        judged &= not one.unclear
        print(one, f"\n  {kept}/report.html" if kept else "", flush=True)
    return 0 if judged else 2


def _table(chosen: Sequence[Bug]) -> int:
    """Print the table as Markdown, a row as soon as both versions of a bug were looked at."""
    print(HEAD)
    judged = True
    for bug in chosen:
        affected, newest = (_looked(bug, side) for side in SIDES)
        judged &= not (affected.unclear or newest.unclear)
        print(row(affected, newest), flush=True)
    return 0 if judged else 2


def _looked(bug: Bug, side: str, keep: Path | None = None) -> Found:
    try:
        return look_for(bug, side, keep)
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
        return Found(bug, side, bug.pins(side)[0], unclear=str(error))


def row(affected: Found, newest: Found) -> str:
    """Return the row of one bug."""
    bug = affected.bug
    by = ", ".join(f"`{check}`" for check in affected.checks) or affected.unclear or "not found"
    now = newest.unclear or ("still there" if newest.checks else "fixed")
    plan = f"`{affected.plan}`" if affected.plan else ""
    cells = (f"[{bug.id}]({bug.report})", bug.title, affected.version, by, plan, f"{now} in {newest.version}")
    return f"| {' | '.join(cells)} | `{affected.command}` |"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
