"""A cell that is not as promised, in plain text: what broke, the smallest case, promises, what differs, the replay."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from chaos import causes, codes
from chaos.reports.cells import Cell
from chaos.reports.text import clip, mask, plural
from chaos.results import CellResult, Minimal, RunResult
from chaos.verdict import CellVerdict, Outcome

DIFF_LINES = 20
"""Lines of differences: a page of a terminal with the rest; the report has all."""

_WORDS = {Outcome.PASS: "kept", Outcome.UNKNOWN: "not judged", Outcome.FAIL: "BROKEN"}
_PROVES_NOTHING = (CellVerdict.NOT_EXERCISED, CellVerdict.UNKNOWN, CellVerdict.HARNESS_ERROR)


def codes_of(verdict: CellVerdict, broke: Iterable[str]) -> tuple[str, ...]:
    """Return the codes of a cell, the worst first: of its broken checks, and of its verdict if that says more."""
    broke = list(broke)
    first = causes.first_broken(broke, verdict)
    found = [codes.of_check(name) for name in sorted(broke, key=lambda name: name != first)]
    stopped = verdict in (*_PROVES_NOTHING, CellVerdict.REFUSED, CellVerdict.STUCK)
    return (*found, *([codes.of_verdict(verdict)] if stopped or not found else []))


def codes_of_cell(cell: Cell) -> tuple[str, ...]:
    """Return the codes of *cell*; one that was not finished is not exercised, unless something broke."""
    run = cell.first_interesting
    return codes_of(cell.verdict if cell.finished else CellVerdict.NOT_EXERCISED, run.broke if run else ())


def explain(found: Sequence[str]) -> str:
    """Return how to read more about the codes that were *found*; "" without one."""
    return f"`pytest-chaos explain {found[0]}` says what it means and what to do" if found else ""


def failure(cell: CellResult, runs: Sequence[RunResult], report: str) -> list[str]:
    """Return the lines about *cell*, which is not as promised.

    Args:
        runs: its own.
        report: where the page is going to be; "" for none.
    """
    run = shown(cell, runs)
    found = codes_of(cell.verdict, cell.findings)
    lines = [f"{cell.strategy} x {cell.fault}: {cell.verdict}", f"  {cell.why}"]
    lines += [f"  {check}: {finding} [{codes.of_check(check)}]" for check, finding in cell.findings.items()]
    if not cell.findings:
        lines[0] += f" [{codes.of_verdict(cell.verdict)}]"
    if run and run.missed:
        lines += [f"  missed: {missed}" for missed in run.missed]
    for minimal in cell.minimal:
        lines += _minimal(minimal, cell)
    if run:
        lines += [*_promises(run), *_differences(run)]
    lines += [f"  replay: {cell.replay}"] if cell.replay else []
    lines += [f"  report: {report}"] if report else []
    lines.append(f"  {explain(found)}")
    return [mask(_printable(line)) for line in lines]


def shown(cell: CellResult, runs: Sequence[RunResult]) -> RunResult | None:
    """Return the one of *runs* that stands for *cell*: the first with its verdict."""
    return next((run for run in runs if run.verdict is cell.verdict), None)


def _minimal(minimal: Minimal, cell: CellResult) -> list[str]:
    lines = [f"  smallest: {minimal.sentence}", f"    {minimal.check}: {minimal.finding}"]
    lines += [f"    replay: {minimal.replay}"] if minimal.replay not in ("", cell.replay) else []
    return lines + ([f"    test and journals: {minimal.bundle} among the results"] if minimal.bundle else [])


def _promises(run: RunResult) -> list[str]:
    """Return the table of promises of *run*, broken ones first."""
    if not run.checks:
        return []
    broken = [name for name, verdict in run.checks.items() if verdict.outcome is Outcome.FAIL]
    open_ = [name for name, verdict in run.checks.items() if verdict.outcome is Outcome.UNKNOWN]
    kept = [name for name, verdict in run.checks.items() if verdict.outcome is Outcome.PASS]
    width = max(map(len, run.checks))
    lines = [f"  promises, in run {run.run} ({run.plan}):"]
    for name in (*broken, *open_):
        word = f"{_WORDS[run.checks[name].outcome]}{', as expected' if name in broken and name in run.expected else ''}"
        lines.append(f"    {name.ljust(width)}  {word}: {clip(run.checks[name].finding)}")
    return lines + ([f"    {_WORDS[Outcome.PASS]}: {', '.join(kept)}"] if kept else [])


def _differences(run: RunResult) -> list[str]:
    """Return the first lines of what differs from the run without a crash, check by check, each with its share."""
    details = {name: run.checks[name].details for name in run.broke if name in run.checks and run.checks[name].details}
    if not details:
        return []
    share = max(1, DIFF_LINES // len(details))
    lines = ["  what differs from the run without a crash:"]
    for name, found in details.items():
        lines += [f"    {name}: {clip(line)}" for line in found[:share]]
        lines += [f"    {name}: and {plural(len(found) - share, 'line')} more, see the report"] if found[share:] else []
    return lines


def _printable(line: str) -> str:
    """Return *line* without control characters: a finding quotes what an agent wrote."""
    return "".join(char if char.isprintable() else "�" for char in line)
