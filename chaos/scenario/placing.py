"""From `at:` to an explorer."""

from __future__ import annotations

from collections.abc import Iterator

from chaos.explorers import Explorer
from chaos.explorers.arrivals import Arrivals, Process
from chaos.explorers.every import Every
from chaos.explorers.fixed import Fixed
from chaos.explorers.operation import Operation
from chaos.explorers.pairs import Pairs
from chaos.explorers.recovery import RECOVERY_PHASES, Recovery
from chaos.explorers.repeat import Repeat
from chaos.explorers.sampled import Sampled
from chaos.explorers.search import Search
from chaos.explorers.syscall import Syscall
from chaos.explorers.until_none import UntilNone
from chaos.plan import CHECKPOINT_WRITE, OPERATIONS, PROCESS_PHASES, STEP_PHASES, SYSCALLS
from chaos.scenario.schema import At


def explorer(at: At, first: bool = True) -> Explorer:
    """Return the explorer that *at* asks for; `problems` must have found none. *first*: no fault comes before it."""
    if at.repeat is not None:
        return Repeat(explorer(at.model_copy(update={"repeat": None}), first), at.repeat)
    if at.explore:
        return _whole(at)
    steps = at.step if isinstance(at.step, tuple) else ()
    if counted := at.operation or at.syscall:
        if at.n == "until_none" or (at.n == "every" and not first):
            return UntilNone(counted, at.during is not None)
        kind = Operation if at.operation else Syscall
        return kind(counted, at.n if isinstance(at.n, tuple) else (), at.n == "every", at.during is not None)
    if at.during:
        phases, draw = _phases(at, RECOVERY_PHASES, "random")
        return Recovery(phases, steps or (None,), draw)
    if _of_process(at):
        return Fixed((None,), _phases(at, (), "")[0])
    if steps:
        return Fixed(steps, *_phases(at, STEP_PHASES, "after_act"))
    if at.step == "every":
        phases, draw = _phases(at, STEP_PHASES, "every")
        return Every(phases, at.after, at.before, draw)
    return Sampled(_phases(at, STEP_PHASES, "random")[0], at.after, at.before)


def _whole(at: At) -> Explorer:
    """Return the explorer of whole plans."""
    phases = _phases(at, STEP_PHASES, "every")[0]
    if at.explore == "search":
        return Search(at.faults, phases, at.after, at.before)
    if at.explore == "pairs":
        return Pairs(at.strength, phases, at.after, at.before)
    process: Process = "poisson" if at.explore == "poisson" else "bernoulli"
    return Arrivals(process, at.rate or Arrivals().rate, at.faults, phases, at.after, at.before)


def _phases(at: At, every: tuple[str, ...], default: str) -> tuple[tuple[str, ...], bool]:
    """Return the phases, and whether one of them is to be drawn."""
    phase = at.phase or default
    if isinstance(phase, tuple):
        return phase, False
    return (every, phase == "random") if phase in ("random", "every") else ((phase,), False)


def _of_process(at: At) -> bool:
    return isinstance(at.phase, tuple) and not at.during and any(phase in PROCESS_PHASES for phase in at.phase)


def problems(at: At, steps: int | None, first: bool) -> Iterator[tuple[str, str]]:
    """Yield (key, message) for what makes no sense in *at*.

    Args:
        at: of one fault.
        steps: how many steps the target runs, if that is known.
        first: whether no fault comes before this one.
    """
    given = at.model_fields_set
    yield from _of_plans(at, given, first)
    if at.explore:
        if steps is not None:
            yield from _beyond(at, steps, given)
        return
    if at.operation or at.syscall or "n" in given:
        yield from _of_counted(at, given, first)
        return
    ranged = at.step in (None, "random", "every") and not at.during and not _of_process(at)
    if at.during and first:
        yield "during", "nothing has failed yet; put a fault during recovery under the `then:` of another one"
    if at.during and at.step in ("random", "every"):
        yield "step", f"{at.step!r} is not for a recovery; leave out `step` to hit the step it comes back to"
    if _of_process(at) and isinstance(at.phase, tuple):
        if at.step is not None:
            yield "phase", f"{_listed(at.phase, PROCESS_PHASES)} belongs to no step; leave out `step`"
        elif set(at.phase) - set(PROCESS_PHASES):
            yield "phase", "phases of a step and of the process cannot stand together; make it two faults"
    for key in ("after", "before"):
        if key in given and not ranged:
            yield key, f"{key!r} goes with `step: random` or `step: every` only"
    if ranged and at.before is not None and at.after > at.before:
        yield "before", f"no step is after {at.after} and before {at.before}; both ends are included"
    if steps is not None:
        yield from _beyond(at, steps, given)


def _of_counted(at: At, given: set[str], first: bool) -> Iterator[tuple[str, str]]:
    if not (at.operation or at.syscall):
        calls, operations = ("`, `".join(names) for names in (SYSCALLS, (*OPERATIONS, CHECKPOINT_WRITE)))
        yield "n", f"'n' counts system calls; say which: `syscall: {calls}`; or operations: `operation: {operations}`"
        return
    if at.operation and at.syscall:
        yield "syscall", "'operation' names what is counted already, system calls too; keep one of them"
    of_whom = "'operation' of the world's" if at.operation else "'syscall' of the kernel's"
    for key in ("step", "phase", "after", "before"):
        if key in given:
            yield key, f"{key!r} is of points that the agent announces, {of_whom}; keep one of them"
    if at.during and first:
        yield "during", "nothing has failed yet; put a fault during recovery under the `then:` of another one"
    if at.during and at.n in (None, "random"):
        what, either = "operations" if at.operation else "calls", "give the number of one, as in `n: 1`"
        yield "n", f"how many {what} a recovery makes is not known before; {either}, or hit them all: `n: until_none`"


OF_PLANS = {
    "faults": ("search", "bernoulli", "poisson"),
    "strength": ("pairs",),
    "rate": ("bernoulli", "poisson"),
}
"""Keys that go with some of what `explore` can be, and with nothing else."""

ELSEWHERE = ("step", "syscall", "operation", "n", "during")
"""Keys that say where one fault hits."""


def _of_plans(at: At, given: set[str], first: bool) -> Iterator[tuple[str, str]]:
    """Yield what is wrong with the keys of whole plans."""
    for key, kinds in OF_PLANS.items():
        if key in given and at.explore not in kinds:
            yield key, f"{key!r} goes with `explore: {'`, `'.join(kinds)}` only"
    if at.repeat is not None and not first:
        yield "repeat", "whole plans are repeated; put it on the first fault"
    if at.repeat is not None and (at.explore in ("search", "pairs") or at.n == "until_none"):
        yield "repeat", "plans that depend on what became of others are not repeated; name the places"
    if not at.explore:
        return
    for key in ELSEWHERE:
        if key in given:
            yield key, f"{key!r} is one place, `explore: {at.explore}` looks for many; keep one of them"
    if at.explore in ("search", "pairs") and not first:
        yield "explore", f"{at.explore!r} is of whole plans; put it on the first fault, with the others under `then:`"
    if at.explore == "bernoulli" and (at.rate or 0) > 1:
        yield "rate", f"the rate of `bernoulli` is a probability: at most 1, not {at.rate:g}"
    if isinstance(at.phase, tuple) and (loading := _listed(at.phase, PROCESS_PHASES)):
        yield "phase", f"{loading} belongs to no step; a recovery is hit there in any case"
    if at.before is not None and at.after > at.before:
        yield "before", f"no step is after {at.after} and before {at.before}; both ends are included"


def _beyond(at: At, steps: int, given: set[str]) -> Iterator[tuple[str, str]]:
    named = at.step if isinstance(at.step, tuple) else ()
    beyond = [("step", step) for step in named]
    beyond += [(key, getattr(at, key)) for key in ("after", "before") if key in given]
    for key, step in beyond:
        if step >= steps:
            yield key, f"the target has no step {step}; it runs {steps}, from 0 to {steps - 1}"


def _listed(phases: tuple[str, ...], among: tuple[str, ...]) -> str:
    return ", ".join(repr(phase) for phase in phases if phase in among)
