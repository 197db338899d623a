"""From records to verdicts: of a run against its reference, of two references, of a cell against what is expected."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from chaos import registry
from chaos.checks import Terms, effects, environment, files, processes, state
from chaos.checks._diff import Difference, limited
from chaos.checks.finishes import refused
from chaos.verdict import CellVerdict, Outcome, Verdict, unknown

if TYPE_CHECKING:
    from collections.abc import Mapping, Set

    from chaos.checks import Check
    from chaos.record import Record
    from chaos.results import RunResult
    from chaos.scenario import ExpectedFailure
    from chaos.targets import Facts

MAX_DISAGREEMENTS = 5
"""Differences told of each kind: if two crash-free runs differ in more places, the first five show the pattern."""

_PROVES_NOTHING = (CellVerdict.NOT_EXERCISED, CellVerdict.HARNESS_ERROR, CellVerdict.UNKNOWN)
_STOPPED = (CellVerdict.REFUSED, CellVerdict.STUCK)


class Decision(NamedTuple):
    """Whether a cell is as the scenario wants it; *expected*: it passed, and something broke; *why* in a sentence."""

    passed: bool
    expected: bool
    why: str


def judge(run: Record, reference: Record, checks: Sequence[str], terms: Terms, facts: Facts) -> dict[str, Verdict]:
    """Return the verdict of each of *checks*, by name; a check that raises is UNKNOWN and says what it raised.

    Of an agent that announces no end nothing is seen alive at its end. Where all checks are asked, because nobody named
    any, those that look at the living are left out then: they would find nothing wrong with nothing.
    """
    if not reference.came_to_end and set(checks) == set(registry.names("checks")):
        checks = [name for name in checks if not _looks_at_the_living(name)]
    return {name: _judge(name, run, reference, terms, facts) for name in checks}


def _looks_at_the_living(name: str) -> bool:
    return bool(getattr(registry.load("checks", name), "looks_at_the_living", False))


def _judge(name: str, run: Record, reference: Record, terms: Terms, facts: Facts) -> Verdict:
    try:
        check: Check = registry.load("checks", name)()
        return check.check(run, reference, terms, facts)
    except Exception as error:  # a broken check must cost its own verdict only, and must not pass
        return unknown(f"the check raised {type(error).__name__}: {error}")


def run_verdict(verdicts: Mapping[str, Verdict], run: Record, planned: int, landed: int) -> CellVerdict:
    """Return what a run amounts to, given how many faults were planned for it and how many landed.

    An open question outweighs a mere loss: a run is not said to have recovered while a check could not judge.
    """
    failed = {name for name, verdict in verdicts.items() if verdict.outcome is Outcome.FAIL}
    if planned > landed:
        return CellVerdict.NOT_EXERCISED
    if run.ended not in ("", "finished"):
        return CellVerdict.REFUSED if refused(run) else CellVerdict.STUCK
    if failed - {"recovery"}:
        return CellVerdict.DIVERGED
    if not verdicts or not run.ended or any(verdict.outcome is Outcome.UNKNOWN for verdict in verdicts.values()):
        return CellVerdict.UNKNOWN
    return CellVerdict.RECOVERED_WITH_LOSS if failed else CellVerdict.RECOVERED


def disagreements(first: Record, second: Record) -> tuple[str, ...]:
    """Return what differs between two crash-free runs: where it is not empty, equality with either proves nothing."""
    kinds: dict[str, Iterable[Difference]] = {
        "state": state.final_differences(second, first),
        "prompts": chain(state.prompt_differences(second, first), state.turns_left_out(second, first)),
        "effects": effects.differences(second, first, Terms()),
    }
    one, other = first.final_observation, second.final_observation
    if one is not None and other is not None:
        kinds["files"] = files.differences(other, one)
        kinds["processes"] = processes.differences(other, one)
        kinds["environment"] = environment.differences(other, one)
    lines = [
        line
        for kind, found in kinds.items()
        for line in limited((f"{kind}: {each.finding}" for each in found), MAX_DISAGREEMENTS)
    ]
    return (*_one_sided(first, second), *lines)


def _one_sided(first: Record, second: Record) -> list[str]:
    """Return what one run has and the other lacks; comparisons leave such things out."""
    pairs = {
        "how it ended": (first.finished, second.finished),
        "final observation": (first.final_observation is not None, second.final_observation is not None),
        "final state": (first.final_state is not None, second.final_state is not None),
        "state read back": (first.reloaded_state is not None, second.reloaded_state is not None),
    }
    return [f"{what}: in one run only" for what, (one, other) in pairs.items() if one != other]


def unexpected(run: RunResult) -> frozenset[str]:
    """Return the promises that *run* broke and its scenario does not expect to be broken; UNKNOWN is no break."""
    return frozenset(_broken(run)) - frozenset(run.expected)


def cell_verdict(runs: Sequence[RunResult], expected: Sequence[ExpectedFailure], *, strict: bool = True) -> Decision:
    """Return whether the *runs* of one cell are as the scenario wants them.

    A run that ended early where `finishes` may break is not asked for what its other checks could not see.

    Args:
        expected: the expected failures that speak of this cell.
        strict: whether what is said to break must have broken; not so where single runs are replayed.
    """
    if why := _objection(runs, expected, strict):
        return Decision(False, False, why)
    broken = {name for run in runs for name in _broken(run)}
    if not broken:
        return Decision(True, False, f"all {len(runs)} runs recovered" if len(runs) > 1 else "the run recovered")
    because = dict.fromkeys(one.because for one in expected if one.because and broken & {*one.breaks, *one.may_break})
    why = f"broke as expected: {', '.join(sorted(broken))}"
    return Decision(True, True, f"{why} ({'; '.join(because)})" if because else why)


def _objection(runs: Sequence[RunResult], expected: Sequence[ExpectedFailure], strict: bool) -> str:
    """Return why the cell does not pass, the agent's failures before the harness's; "" if it does."""
    if not runs:
        return "nothing ran"
    breaks = {name for one in expected for name in one.breaks}
    allowed = breaks | {name for one in expected for name in one.may_break}
    broken = Counter(name for run in runs for name in _broken(run))
    blind = Counter(name for run in runs if run.verdict not in _STOPPED for name in _named(run, Outcome.UNKNOWN))
    void = Counter(_nothing(run) for run in runs if run.verdict in _PROVES_NOTHING)
    error = next((f", one by: {run.error}" for run in runs if run.error), "")
    total = f"of {len(runs)} runs"
    reasons = [
        *(f"{name} broke in {count} {total}" for name, count in sorted(broken.items()) if name not in allowed),
        *(f"{name} could not judge {count} {total}" for name, count in sorted(blind.items())),
        *(
            f"{count} {total} ended as: {what}{error if what == CellVerdict.HARNESS_ERROR else ''}"
            for what, count in sorted(void.items())
        ),
    ]
    if not reasons and strict and (kept := sorted(breaks - broken.keys())):
        return f"unexpectedly kept: {', '.join(kept)}; remove it from expected_failures"
    return "; ".join(reasons)


def _nothing(run: RunResult) -> str:
    """Return why *run* proves nothing."""
    return f"{run.verdict} ({'; '.join(run.missed)})" if run.missed else str(run.verdict)


def _broken(run: RunResult) -> Set[str]:
    """Return the promises that *run* broke; to end early is one, whether or not somebody asked for it."""
    failed = _named(run, Outcome.FAIL)
    if run.verdict in _STOPPED:
        return failed | {"finishes"}
    if failed or run.verdict is CellVerdict.RECOVERED or run.verdict in _PROVES_NOTHING:
        return failed
    return {str(run.verdict)}  # a verdict without a check behind it must not pass for want of a name


def _named(run: RunResult, outcome: Outcome) -> set[str]:
    return {name for name, verdict in run.checks.items() if verdict.outcome is outcome}
