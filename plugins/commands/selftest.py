"""`pytest-chaos selftest`: agents with one planted bug each, and correct ones, on this machine.

The JSON format, version 1: `v`, `seconds`, `counts` (caught, missed, false_alarms, not_tried); `bugs`, each with
`name`, `does`, `case`, `check`, `verdict`, `why`, `sibling` and `sibling_why`; `correct`, each with `name`, `does`,
`case`, `verdict` and `why`. Readers ignore fields that they do not know.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from chaos.plugins.commands import BROKEN, OK

if TYPE_CHECKING:
    from chaos.plugins.selftest import Row

HELP = "test the tester: every planted bug must be caught by its check, and no correct agent accused"
EPILOG = """A bug's correct sibling goes through the same case and must pass everything.
--format json prints one object: {"v": 1, "seconds", "counts": {"caught", "missed", "false_alarms", "not_tried"},
"bugs": [{"name", "does", "case", "check", "verdict", "why", "sibling", "sibling_why"}], "correct": [...]}.
exit codes: 0 all that was tried was caught, and nobody accused; 1 not so, or nothing could be tried; 2 wrong input"""

VERSION = 1  # of the JSON format
GAP = "  "


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("--only", default="", metavar="NAME[,NAME]", help="only these bugs or correct agents")
    parser.add_argument(
        "--without", default="", metavar="CHECK", help="switch a check off: what only it can catch must be missed"
    )
    parser.add_argument(
        "--jobs", type=int, default=0, metavar="N", help="processes at a time; default: as many as cores"
    )
    parser.add_argument("--format", choices=("text", "json"), default="text", help="default: text")


def run(options: argparse.Namespace) -> int:
    """Try every agent, print what came of it; 0 if all is as it should be."""
    import os
    import shutil
    import time

    from chaos.errors import HarnessError
    from chaos.plugins.selftest import Verdict, tried_in

    names, checks = _chosen(options.only), _checks(options.without)
    began = time.monotonic()
    jobs = options.jobs if options.jobs > 0 else len(os.sched_getaffinity(0))
    try:
        found = tried_in(min(jobs, len(names)), names, checks)
    except HarnessError as error:
        print(error, file=sys.stderr)
        return BROKEN
    rows = sorted(found, key=lambda row: names.index(row.name))
    seconds = time.monotonic() - began
    if options.format == "json":
        print(_json(rows, seconds))
    else:
        for line in lines(rows, seconds, shutil.get_terminal_size().columns):
            print(line)
    counts = counted(rows)
    good = counts["missed"] == counts["false_alarms"] == 0
    return OK if good and any(row.verdict is not Verdict.NOT_TRIED for row in rows) else BROKEN


def _chosen(only: str) -> list[str]:
    from chaos.errors import UnknownName, did_you_mean
    from chaos.plugins.selftest import known

    every = known()
    wanted = [name.strip() for name in only.split(",") if name.strip()]
    for name in wanted:
        if name not in every:
            raise UnknownName(f"--only: no agent {name!r}; {did_you_mean(name, every)}")
    return [name for name in every if name in wanted or not wanted]


def _checks(without: str) -> tuple[str, ...]:
    """Return the checks that judge: none named means all."""
    from chaos import registry
    from chaos.errors import UnknownName, did_you_mean

    every = registry.names("checks")
    if without and without not in every:
        raise UnknownName(f"--without: no check {without!r}; {did_you_mean(without, every)}")
    return tuple(name for name in every if name != without) if without else ()


def counted(rows: Sequence[Row]) -> dict[str, int]:
    """Return how many bugs were caught and missed, how many false alarms there were, what could not be tried."""
    from chaos.plugins.selftest import Verdict

    verdicts = [row.verdict for row in rows]
    alarms = [*verdicts, *(row.sibling for row in rows)].count(Verdict.FALSE_ALARM)
    return {
        "caught": verdicts.count(Verdict.CAUGHT),
        "missed": verdicts.count(Verdict.MISSED),
        "false_alarms": alarms,
        "not_tried": verdicts.count(Verdict.NOT_TRIED),
    }


def lines(rows: Sequence[Row], seconds: float, columns: int) -> Iterator[str]:
    """Yield the tables for a screen of so many *columns*, the reasons for what is not as it should be, and the sum."""
    bugs = [row for row in rows if row.check]
    correct = [row for row in rows if not row.check]
    if bugs:
        table = [("bug", "check", "verdict", "sibling", "case", "what it does")]
        yield from _table([*table, *((r.name, r.check, r.verdict, r.sibling, r.case, r.does) for r in bugs)], columns)
        yield ""
    if correct:
        table_ = [("correct agent", "verdict", "faults", "what it does")]
        yield from _table([*table_, *((r.name, r.verdict, r.case, r.does) for r in correct)], columns)
        yield ""
    for row in rows:
        if row.why:
            yield f"{row.name}: {row.verdict}: {row.why}"
        if row.sibling_why and row.sibling_why != row.why:
            yield f"{row.name}'s sibling: {row.sibling}: {row.sibling_why}"
    sums = counted(rows)
    yield (
        f"{sums['caught']} of {len(bugs)} bugs caught, {sums['missed']} missed; {sums['false_alarms']} false alarms "
        f"(correct agents: {len(correct)}, siblings: {len(bugs)}); {sums['not_tried']} not tried; {seconds:.0f} s"
    )


def _table(rows: Sequence[tuple[str, ...]], columns: int) -> Iterator[str]:
    """Yield the lines of a table; its last column stands below the others where there is no room beside them."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    beside = sum(widths) + len(GAP) * len(widths) <= columns
    for *fields, last in rows:
        line = GAP.join(text.ljust(width) for text, width in zip(fields, widths[:-1], strict=True))
        yield f"{line}{GAP}{last}" if beside else f"{line.rstrip()}\n{GAP * 2}{last}"


def _json(rows: Sequence[Row], seconds: float) -> str:
    import json

    whole = {
        "v": VERSION,
        "seconds": round(seconds, 1),
        "counts": counted(rows),
        "bugs": [row._asdict() for row in rows if row.check],
        "correct": [
            {name: value for name, value in row._asdict().items() if name not in ("check", "sibling", "sibling_why")}
            for row in rows
            if not row.check
        ],
    }
    return json.dumps(whole, indent=2)
