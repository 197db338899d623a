"""From `at:` to an explorer."""

from __future__ import annotations

from collections.abc import Iterator

from chaos.explorers import Explorer
from chaos.explorers.every import Every
from chaos.explorers.fixed import Fixed
from chaos.explorers.recovery import RECOVERY_PHASES, Recovery
from chaos.explorers.sampled import Sampled
from chaos.explorers.syscall import Syscall
from chaos.plan import PROCESS_PHASES, STEP_PHASES, SYSCALLS
from chaos.scenario.schema import At


def explorer(at: At) -> Explorer:
    """Return the explorer that *at* asks for; `problems` must have found none."""
    steps = at.step if isinstance(at.step, tuple) else ()
    if at.syscall:
        return Syscall(at.syscall, at.n if isinstance(at.n, tuple) else (), at.n == "every", at.during is not None)
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
    if at.syscall or "n" in given:
        yield from _of_syscall(at, given, first)
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


def _of_syscall(at: At, given: set[str], first: bool) -> Iterator[tuple[str, str]]:
    if not at.syscall:
        yield "n", f"'n' counts system calls; say which: `syscall: {'`, `'.join(SYSCALLS)}`"
        return
    for key in ("step", "phase", "after", "before"):
        if key in given:
            yield key, f"{key!r} is of points that the agent announces, 'syscall' of the kernel's; keep one of them"
    if at.during and first:
        yield "during", "nothing has failed yet; put a fault during recovery under the `then:` of another one"
    if at.during and not isinstance(at.n, tuple):
        yield "n", "how many calls a recovery makes is not known before; give the number of one, as in `n: 1`"


def _beyond(at: At, steps: int, given: set[str]) -> Iterator[tuple[str, str]]:
    named = at.step if isinstance(at.step, tuple) else ()
    beyond = [("step", step) for step in named]
    beyond += [(key, getattr(at, key)) for key in ("after", "before") if key in given]
    for key, step in beyond:
        if step >= steps:
            yield key, f"the target has no step {step}; it runs {steps}, from 0 to {steps - 1}"


def _listed(phases: tuple[str, ...], among: tuple[str, ...]) -> str:
    return ", ".join(repr(phase) for phase in phases if phase in among)
