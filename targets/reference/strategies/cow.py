"""The conversation and the files of every step, together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal, get_args

from chaos.durable import Durable
from chaos.errors import HarnessError, ScenarioError
from chaos.targets import InProcess
from chaos.targets.reference import media
from chaos.targets.reference.agent import State, done, turns
from chaos.targets.reference.history import Log
from chaos.targets.reference.incarnation import Agent
from chaos.targets.reference.manifest import GENESIS, append, folder, publish, read
from chaos.targets.reference.media.content import Content
from chaos.targets.reference.media.outside import Outside, taken

if TYPE_CHECKING:
    from chaos.host import Host, Report
    from chaos.sandbox import Sandbox

Kept = Literal["content", "reflink", "overlay", "btrfs", "zfs"]


@dataclass(frozen=True)
class Cow(InProcess):
    """Takes a copy-on-write snapshot of workspace and tmp with every step and aligns it with the messages.

    A step counts when its manifest is in place: messages, snapshot and manifest are durable before that. A resume
    makes the folders exactly what they were, before the shell starts; checksums tell damage, which is refused.

    `snapshots` is what they are kept on: `content` is a store of file contents, written by the agent itself; the
    others are file systems, whose snapshots are taken from outside while the agent stands still. `keep` bounds for how
    many complete steps there is one; 0: for all.
    """

    claims: ClassVar[frozenset[str]] = frozenset({"messages", "files", "environment", "processes"})
    store: ClassVar[str] = "jsonl"
    durable: ClassVar[bool] = True

    snapshots: Kept = "content"
    keep: int = 0

    def __post_init__(self) -> None:
        if self.snapshots not in get_args(Kept):
            raise ScenarioError(f"snapshots must be one of {', '.join(get_args(Kept))} (got {self.snapshots!r})")
        if self.keep < 0:
            raise ScenarioError(f"keep must not be negative (got {self.keep}); 0 keeps the snapshots of all steps")

    @property
    def outside(self) -> bool:  # type: ignore[override]  # a constant for all others
        """Whether somebody else takes the snapshots than the agent itself."""
        return self.snapshots != "content"

    def missing(self) -> str:
        """Return what the medium lacks here, and the remedy."""
        return "" if self.snapshots == "content" else media.missing(self.snapshots)

    def host(self, sandbox: Sandbox, report: Report) -> Host | None:
        """Return the half that takes the snapshots; None if the agent does it itself."""
        if self.snapshots == "content":
            return None
        return Outside(media.kind(self.snapshots)(sandbox.zones), sandbox, report, self.keep)

    def run(self, agent: Agent) -> None:
        """Begin, or go on from the newest manifest, and drive the agent to its end."""
        agent.loading()
        place = agent.durable.folder
        stored = read(place)
        own = self._restored(agent, stored.step if stored else None)
        log = Log(place, stored.lines if stored else 0)
        state = agent.loaded(stored.state if stored else None)
        lines, chain = (stored.lines, stored.chain) if stored else (0, GENESIS)
        if stored is None:
            lines, chain = 1, append(log, chain, state["messages"])
        while not done(state):
            step, before = turns(state), len(state["messages"])
            state = agent.turn(state)
            if own:
                own.take(step)
                media.bound(own, self.keep)
            lines, chain = lines + 1, append(log, chain, state["messages"][before:])
            publish(place, step, lines, chain, state, lambda step=step: self._committing(agent, step))  # type: ignore[misc]
            agent.committed(step)
        agent.finished(state)

    def load(self, durable: Durable) -> State | None:
        """Return the state of the newest manifest; raise CorruptStore if it is damaged."""
        stored = read(durable.folder)
        return stored.state if stored else None

    def _restored(self, agent: Agent, step: int | None) -> Content | None:
        """Return the content store with the folders as they were at *step*; None if they are another's business."""
        if self.snapshots != "content":
            return None
        zones = agent.zones
        store = Content(folder(zones.durable), {"workspace": zones.workspace, "tmp": zones.tmp})
        if step is None and media.START not in store.steps():
            store.take(media.START)
        else:
            store.restore(media.START if step is None else step)
        return store

    def _committing(self, agent: Agent, step: int) -> None:
        """Announce that *step* is all but complete; it cannot be if nobody outside took its snapshot meanwhile."""
        agent.committing(step)
        if self.snapshots != "content" and taken(agent.durable.folder) != step:
            missing = f"nobody took the {self.snapshots} snapshot of step {step}"
            raise HarnessError(f"{missing}: run it in the harness, or use snapshots: content")
