"""Where a run is broken, and with what: plain data with a text form, so it can be printed and replayed.

kill@17/after_act                             a fault at one point
kill@17/after_act+kill@recovery/after_load    and another while it recovers
kill@17/after_act#3                           the same with the random choices of run 3: a case
kill@7/fsync                                  before the 7th fsync or fdatasync below the durable zone is executed
kill@3/model_call                             while the model endpoint has the 3rd request and has not answered it
kill@3/after_act+kill@recovery/1/effect       and when the recovery has had its first effect, the reply not yet sent
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from chaos.errors import ScenarioError, did_you_mean

STEP_PHASES = ("before_think", "before_act", "after_act", "during_commit", "after_commit")
"""The phases of one step, in order. After `after_act` the effect has happened and nothing recorded it yet."""

PROCESS_PHASES = ("before_load", "after_load", "finished")
"""The phases of one incarnation: before and after it read its store, and when all its work is done."""

PHASES = (*STEP_PHASES, *PROCESS_PHASES)

SYSCALLS = ("write", "fsync", "rename")
"""System calls on files of the durable zone: points of agents that announce none.

Their "step" is their number, counted over the whole process tree from 1 in each incarnation. Each stands for all calls
of its kind (`sandbox/syscalls.py`).
"""

CHECKPOINT_WRITE = "checkpoint_write"
"""An fsync or a rename on a file of the durable zone: the two calls by which what was written becomes durable.

They are counted together. Nothing else is certain from outside: which writes belong to one checkpoint, only the agent
knows. A store that does neither (SQLite between two checkpoints of its log, a server) has no such point.
"""

CHECKPOINT_CALLS = frozenset({"fsync", "rename"})

OPERATIONS = ("model_call", "model_reply", "service_call", "effect")
"""What an agent asks of the world, held there (`world/holds.py`): points of agents that announce none.

Their "step" is their number, counted from 1 in each incarnation.

model_call     a request to the model endpoint has come in whole; it is neither billed nor answered. Each try is one
model_reply    the model's answer is journalled and billed, and not yet sent
service_call   a request to a service has come in; nothing has happened yet
effect         it has changed the outside world and is in the ledger, the reply is not yet sent: where exactly-once is
               won or lost. One that the service recognised by its key, and ignored, is none
"""

COUNTED = (*OPERATIONS, CHECKPOINT_WRITE, *SYSCALLS)
"""All points that have a number of their own instead of a step."""


@dataclass(frozen=True, order=True)
class Point:
    """A named place in a run.

    *step* counts from 0; None means any step. *recovery* asks for an incarnation after the first.
    """

    step: int | None
    phase: str
    recovery: bool = False

    def matches(self, step: int, phase: str, attempt: int) -> bool:
        """Tell whether the agent, in its *attempt*-th incarnation, stands at this point."""
        return self.phase == phase and self.step in (None, step) and (attempt > 1 if self.recovery else True)

    def __str__(self) -> str:
        where = [] if self.step is None else [str(self.step)]
        return "/".join([*(["recovery"] if self.recovery else []), *where, self.phase])


@dataclass(frozen=True)
class PlannedFault:
    """The fault called *fault* (its label in the scenario) hits at *point*, once."""

    fault: str
    point: Point

    def __str__(self) -> str:
        return f"{self.fault}@{self.point}"


@dataclass(frozen=True)
class Plan:
    """The faults of one run, hit in this order. The empty plan is the reference run."""

    faults: tuple[PlannedFault, ...] = ()

    @property
    def syscalls(self) -> frozenset[str]:
        """The system calls that have to be held for the faults."""
        return syscalls_of(self._phases)

    @property
    def operations(self) -> frozenset[str]:
        """The operations on the world that have to be held for the faults."""
        return self._phases & frozenset(OPERATIONS)

    @property
    def _phases(self) -> frozenset[str]:
        return frozenset(planned.point.phase for planned in self.faults)

    def __str__(self) -> str:
        return "+".join(map(str, self.faults)) or "no fault"


def syscalls_of(phases: frozenset[str]) -> frozenset[str]:
    """Return the system calls that have to be held for points of *phases*."""
    calls = phases & frozenset(SYSCALLS)
    return calls | CHECKPOINT_CALLS if CHECKPOINT_WRITE in phases else calls


_ONE = re.compile(r"(?P<fault>[A-Za-z0-9_.:=,-]+)@(?P<recovery>recovery/)?(?:(?P<step>\d+)/)?(?P<phase>[a-z_]+)")


def parse_plan(text: str) -> Plan:
    """Return the plan that *text* prints as; raise ScenarioError with the form that is right."""
    if text == "no fault":
        return Plan()
    faults = []
    for part in text.split("+"):
        found = _ONE.fullmatch(part)
        if found is None:
            raise ScenarioError(f"not a planned fault: {part!r}; write FAULT@STEP/PHASE, as in 'kill@17/after_act'")
        known = (*PHASES, *COUNTED)
        if found["phase"] not in known:
            raise ScenarioError(f"no phase {found['phase']!r} in {part!r}; {did_you_mean(found['phase'], known)}")
        step = int(found["step"]) if found["step"] else None
        faults.append(PlannedFault(found["fault"], Point(step, found["phase"], bool(found["recovery"]))))
    return Plan(tuple(faults))


@dataclass(frozen=True)
class Case:
    """One run to replay: *plan*, and the number of the *run* whose randomness it uses. Text form `PLAN#RUN`."""

    plan: Plan
    run: int = 0

    def __str__(self) -> str:
        return f"{self.plan}#{self.run}"


def parse_case(text: str) -> Case:
    """Return the case that *text* prints as; raise ScenarioError with the form that is right."""
    plan, _, run = text.partition("#")
    if run and not (run.isascii() and run.isdigit()):
        raise ScenarioError(f"not a case: {text!r}; write PLAN#RUN, as in 'kill@17/after_act#2'")
    return Case(parse_plan(plan), int(run or 0))
