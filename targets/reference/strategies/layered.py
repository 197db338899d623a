"""Delta messages, snapshots of the sandbox and a log of the steps, restored to one step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, cast

from chaos.durable import Durable
from chaos.errors import ScenarioError
from chaos.targets import InProcess
from chaos.targets.reference import databases
from chaos.targets.reference.agent import State
from chaos.targets.reference.incarnation import Agent
from chaos.targets.reference.strategies import semantic

if TYPE_CHECKING:
    from chaos.host import Host, Report
    from chaos.sandbox import Sandbox


@dataclass(frozen=True)
class Layered(InProcess):
    """LangGraph's DeltaChannel for the messages, the snapshots of `semantic`, and a checksummed log of every step.

    The log has the model's reply and the results of a step as soon as it is done. A resume puts the newest snapshot
    back, does in the sandbox what the log has beyond it (a step at most), and lets the thread replay what it lacks:
    nothing is lost that the log has, and no effect outside is repeated but one whose record a kill prevented
    (`after_act`). A thread that differs from the log is made anew from it, so damaged deltas are healed; a damaged log
    is refused. Redoing trusts that a call in the sandbox does the same again; where its result differs, that is kept.

    Args:
        every: as for `delta`.
        processes: as for `semantic`.
        audit: as for `semantic`.
    """

    claims: ClassVar[frozenset[str]] = frozenset({"messages", "files", "environment", "processes"})
    store: ClassVar[str] = "langgraph_sqlite"
    durable: ClassVar[bool] = True
    outside: ClassVar[bool] = True
    imports: ClassVar[tuple[str, ...]] = ("chaos.targets.reference.graph",)

    every: int = 20
    processes: semantic.Processes = "auto"
    audit: bool = False

    def __post_init__(self) -> None:
        if self.every < 1:
            raise ScenarioError(f"every must be at least 1 (got {self.every})")
        semantic.check(self.processes)

    def missing(self) -> str:
        return databases.missing("sqlite") or semantic.lacks(self.processes)

    def host(self, sandbox: Sandbox, report: Report) -> Host | None:
        return semantic.half(sandbox, report, self.processes, audit=self.audit)

    def run(self, agent: Agent) -> None:
        """Begin, or go on from the last step of the log, and drive the agent to its end."""
        from chaos.targets.reference import graph, savers
        from chaos.targets.reference.semantic.layers import Layers

        def thread() -> State | None:
            return graph.stored(agent.durable, "sqlite", self.every)

        def forget() -> None:
            with savers.opened(agent.durable, "sqlite") as saver:
                saver.delete_thread(agent.thread)

        layers = cast(Agent, Layers(agent, thread, forget))
        with graph.saver(layers, "sqlite", "sync") as saver:
            graph.drive(layers, saver, every=self.every, durability="sync")

    def load(self, durable: Durable) -> State | None:
        """Return the state of the log's last step; raise CorruptStore if the layers do not fit together."""
        from chaos.targets.reference.semantic import layers, steps

        log, _ = layers.read(durable.folder)
        return steps.state_of(log)
