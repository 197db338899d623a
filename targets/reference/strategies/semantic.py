"""Snapshots of only those turns that changed something, taken from outside: the idea of Crab (arXiv 2604.28138)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal, get_args

from chaos.durable import Durable
from chaos.errors import ScenarioError
from chaos.targets import InProcess
from chaos.targets.reference.agent import State, done, turns
from chaos.targets.reference.incarnation import Agent

if TYPE_CHECKING:
    from chaos.host import Host, Report
    from chaos.sandbox import Sandbox
    from chaos.targets.reference.semantic.steps import Line

Processes = Literal["auto", "criu", "manifest"]


@dataclass(frozen=True)
class Semantic(InProcess):
    """While the model thinks, files and processes are stored if the turn changed them; every turn gets a manifest.

    A resume goes on from the newest manifest: files, processes and messages of one turn. A step whose manifest was not
    there yet is done again, in a sandbox without it; an effect that knows no idempotency key is then repeated. That is
    a kill from `after_act` of a step on until the model is asked for the next one. What runs in the background goes on
    while a snapshot is taken.

    Args:
        processes: bring them back with their memory by CRIU ("criu"; a run in which that fails is no result), start
            them again ("manifest"), or what this machine can do ("auto").
        audit: judge every decision by a full diff of the turn.
    """

    claims: ClassVar[frozenset[str]] = frozenset({"messages", "files", "environment", "processes"})
    store: ClassVar[str] = "jsonl"
    durable: ClassVar[bool] = True
    outside: ClassVar[bool] = True

    processes: Processes = "auto"
    audit: bool = False

    def __post_init__(self) -> None:
        check(self.processes)

    def missing(self) -> str:
        return lacks(self.processes)

    def host(self, sandbox: Sandbox, report: Report) -> Host | None:
        return half(sandbox, report, self.processes, audit=self.audit)

    def run(self, agent: Agent) -> None:
        """Begin, or go on from the newest manifest, and drive the agent to its end."""
        from chaos.targets.reference.semantic.steps import Steps, state_of

        agent.loading()
        kept = _kept(agent.durable)
        log = Steps(agent.durable.folder, kept)
        state = agent.loaded(state_of(kept))
        if not kept:
            log.append(state, 0)
        while not done(state):
            step, before = turns(state), len(state["messages"])
            state = agent.turn(state)
            log.append(state, before, lambda step=step: agent.committing(step))  # type: ignore[misc]
            agent.committed(step)
        agent.finished(state)

    def load(self, durable: Durable) -> State | None:
        """Return the state of the newest manifest; raise CorruptStore if what is stored is damaged."""
        from chaos.targets.reference.semantic.steps import state_of

        return state_of(_kept(durable))


def _kept(durable: Durable) -> list[Line]:
    """Return the lines of the log that belong to the newest manifest."""
    from chaos.targets.reference.semantic import manifest, steps
    from chaos.targets.reference.snapshot import CorruptStore

    newest = manifest.newest(durable.folder)
    if newest is not None:
        return steps.read(durable.folder, newest.turns + 1)
    log = steps.read(durable.folder)
    if len(log) > 1:  # the first answer of the model came after the first manifest
        raise CorruptStore(f"the log has {len(log)} lines but there is no manifest")
    return log


def check(processes: str) -> None:
    """Raise ScenarioError if the option `processes` has no such value."""
    if processes not in get_args(Processes):
        raise ScenarioError(f"processes must be auto, criu or manifest (got {processes!r})")


def lacks(processes: Processes) -> str:
    """Return what this machine lacks for *processes*, and the remedy; "" if nothing."""
    from chaos.targets.reference.semantic import criu

    return criu.trouble(criu.named()) if processes == "criu" else ""


def half(sandbox: Sandbox, report: Report, processes: Processes, *, audit: bool) -> Host:
    """Return the half outside of *sandbox*."""
    from chaos.targets.reference.semantic.criu import Criu, named, trouble
    from chaos.targets.reference.semantic.host import TurnSnapshots

    program = named()
    usable = processes == "criu" or (processes == "auto" and not trouble(program))
    memory = Criu(program) if usable else None
    return TurnSnapshots(sandbox, report, memory, demanded=processes == "criu", audit=audit)
