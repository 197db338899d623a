"""`pytest-chaos replay`: a failure of a campaign once more, by the command that the results hold."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from chaos.plugins.commands import BROKEN, OK, RESULTS, WRONG_INPUT, add_results

if TYPE_CHECKING:
    from chaos.results import Campaign, CellResult

HELP = "replay a failure of a campaign: the worst one, or the one that is named"
EPILOG = """The smallest case is replayed where the failure was shrunk. The command is shown before it is run.
exit codes are pytest's: 0 it does not fail any more, 1 it fails again; 2 nothing to replay"""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    add_results(parser)
    which = parser.add_mutually_exclusive_group()
    cell = which.add_argument("--cell", metavar="NAME", help="a cell: STRATEGY-FAULT, or 'STRATEGY x FAULT'")
    cell.completer = _complete  # type: ignore[attr-defined]  # argcomplete's, which finds it by this name
    which.add_argument("--failure", type=int, metavar="N", help="the N-th failure of --list; default: 1, the worst")
    which.add_argument("--list", action="store_true", help="list the failures, the worst first, and replay nothing")


def _complete(prefix: str, parsed_args: argparse.Namespace, **_: object) -> Iterable[str]:
    from chaos import results
    from chaos.errors import ChaosError

    try:
        return [f"{cell.strategy}-{cell.fault}" for cell in results.read(parsed_args.results).cells if _command(cell)]
    except ChaosError:
        return []


def run(options: argparse.Namespace) -> int:
    """Replay what is asked for, and say whether it fails again."""
    from chaos import results

    folder: Path = options.results
    campaign = results.read(folder)
    failures = failures_of(campaign)
    if options.list:
        for number, cell in enumerate(failures, 1):
            print(f"{number}  {_title(cell)}\n   {_command(cell)}")
        return OK
    if not (failures or options.cell):
        print("nothing failed that was not expected; --cell NAME replays an expected failure")
        return WRONG_INPUT
    return _replay(_chosen(campaign, failures, options), folder)


def failures_of(campaign: Campaign) -> list[CellResult]:
    """Return the cells that failed and can be replayed, the worst first."""
    found = [cell for cell in campaign.cells if not cell.passed and not cell.skipped and _command(cell)]
    return sorted(found, key=_rank)


def _rank(cell: CellResult) -> tuple[bool, int, int]:
    """Return the place of *cell* among failures: what proves nothing comes last, silent damage first."""
    from chaos.causes import ORDER
    from chaos.verdict import CellVerdict

    places = [ORDER.index(name) for name in cell.findings if name in ORDER]
    return not cell.findings, -list(CellVerdict).index(cell.verdict), min(places, default=len(ORDER))


def _chosen(campaign: Campaign, failures: Sequence[CellResult], options: argparse.Namespace) -> CellResult:
    from chaos.errors import UnknownName, did_you_mean

    if not options.cell:
        number = 1 if options.failure is None else options.failure
        if not 1 <= number <= len(failures):
            raise UnknownName(f"--failure: there are {len(failures)} failures, not {number}; --list shows them")
        return failures[number - 1]
    names = {f"{cell.strategy} x {cell.fault}": cell for cell in campaign.cells}
    wanted = options.cell.rpartition("[")[2].rstrip("]")  # the id of a test is fine as well
    for name, cell in names.items():
        if wanted in (name, name.replace(" x ", "-")):
            if not _command(cell):
                raise UnknownName(f"--cell: {name} has no run to replay: {cell.skipped or cell.why}")
            return cell
    raise UnknownName(f"--cell: no cell {wanted!r}; {did_you_mean(wanted, names)}")


def _command(cell: CellResult) -> str:
    return cell.minimal[0].replay if cell.minimal else cell.replay


def _title(cell: CellResult) -> str:
    what = cell.minimal[0].sentence if cell.minimal else "; ".join(map(": ".join, cell.findings.items())) or cell.why
    return f"{cell.strategy} x {cell.fault} ({cell.scenario}): {cell.verdict}: {what}"


def _replay(cell: CellResult, folder: Path) -> int:
    """Run pytest with the arguments of *cell*'s replay command, where the campaign was run."""
    import shlex
    import subprocess
    import sys

    from chaos.errors import HarnessError

    command = _command(cell)
    program, *words = shlex.split(command)
    if program != "pytest":
        raise HarnessError(f"the results hold no command of pytest: {command}; run it yourself")
    where = _where(words, folder)
    print(f"{_title(cell)}\n{f'cd {where}; ' if where != Path.cwd() else ''}{command}", flush=True)
    code = subprocess.run([sys.executable, "-m", "pytest", *words], cwd=where, check=False).returncode
    print(f"replayed: {_said(cell, code, where / RESULTS / 'replay')}")
    return code


def _said(cell: CellResult, code: int, folder: Path) -> str:
    """Return what pytest's exit *code*, and the results of the replay in *folder*, say of the failure of *cell*."""
    from chaos import results

    if code == OK:
        return "it does not fail any more, or only as the scenario expects"
    if code != BROKEN:
        return f"pytest could not run it (exit code {code}); it says above why"
    runs = results.read(folder).runs if (folder / results.CAMPAIGN).exists() else ()
    before = {cell.minimal[0].check} if cell.minimal else set(cell.findings)
    now = {name for run in runs for name in run.broke}
    if not runs or before <= now or (cell.verdict in {run.verdict for run in runs} and not before):
        return "it fails again"
    return f"it fails, and in another way: {', '.join(sorted(now)) or runs[0].verdict} instead of {', '.join(before)}"


def _where(words: Sequence[str], folder: Path) -> Path:
    """Return the folder that the scenario's path in *words* is meant from: that of the results, ours, or one above."""
    from chaos.errors import HarnessError

    scenario = Path(words[words.index("--chaos") + 1]) if "--chaos" in words[:-1] else Path()
    top = folder.resolve()
    for where in (*([top.parent] if top.name == RESULTS else []), Path.cwd(), *top.parents):
        if (where / scenario).is_file():
            return where
    raise HarnessError(f"{scenario}: not below {Path.cwd()}, nor a folder of {top}; go to where the campaign was run")
