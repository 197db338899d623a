"""Faults: what breaks. One file each; its name is the YAML name, its fields are the YAML keys.

Where, how often and with which probability belong to the plan, never to the fault.
"""

from __future__ import annotations

import random
import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Literal, Protocol, TypeVar

from chaos.errors import HarnessError
from chaos.events.done import DiskWiped, HostRenamed, Signalled
from chaos.journal import AnyEvent, Journal
from chaos.outfit import Outfit
from chaos.results import Landed
from chaos.sandbox import Able, Sandbox, Survival
from chaos.stretch import every

if TYPE_CHECKING:
    from chaos.clock import Clock
    from chaos.copies import Copies
    from chaos.durable import Durable
    from chaos.sandbox.disk import Disk as DiskImage
    from chaos.sandbox.syscalls import Calls
    from chaos.servers import Running
    from chaos.stores import Store
    from chaos.targets import Strategy
    from chaos.toxiproxy.links import Links
    from chaos.world.server import World


KILL_SECONDS = 10.0
"""How long a killed process tree may take to be gone: the kernel needs milliseconds, a swamped CI machine more."""

FIRST_HOST = "chaos-node-1"

Loading = Literal["before_load", "after_load"]
"""The two points of coming up."""

Disk = Literal["own", "shared"]
"""What a second worker works on: another node's empty disk, or the first one's workspace and tmp."""

Wakes = Literal["resumed", "finished"]
"""What a second worker must have done before the first one, which was taken for dead, goes on."""


def next_host(hostname: str) -> str:
    """Return the name of another node than *hostname*."""
    return f"chaos-node-{int(hostname.rpartition('-')[2]) + 1}"


class Hold(Protocol):
    """The gate while the agent is held at a point."""

    def serve_until_exit(self, timeout: float) -> bool:
        """Leave the held point unanswered, let everything announced from now on pass; tell if the agent ended."""
        ...

    def once_ended(self, undo: Callable[[], None], *, run: bool = False) -> None:
        """Call *undo* once, when the present incarnation (or the whole run) has ended, the latest call's first."""
        ...

    def kill_again(self, phase: Loading, times: int) -> None:
        """SIGKILL the next *times* incarnations too, each when it announces *phase*."""
        ...

    def presume_dead(self, disk: Disk, wakes: Wakes) -> None:
        """Take the agent for dead and leave it alive, held where it is; the next incarnation starts beside it.

        Args:
            disk: what the next one works on. The durable zone and the leases are the same for both in any case.
            wakes: when the agent goes on: the next one has announced `after_load`, or it has announced `finished`.
        """
        ...


@dataclass(frozen=True)
class Scene:
    """What a fault can reach while the agent is held at its point. *rng* is the run's own."""

    sandbox: Sandbox
    world: World
    journal: Journal
    gate: Hold
    rng: random.Random
    store: Store | None
    durable: Durable
    clock: Clock | None = None  # for faults whose outfit has it
    deploy: Callable[[str], None] | None = None
    disk: DiskImage | None = None  # likewise
    calls: Calls | None = None  # likewise, and in runs with faults at system calls
    links: Links | None = None  # for faults whose outfit has some
    servers: Mapping[str, Running] = field(default_factory=dict)  # behind the leases, by name
    copies: Copies | None = None  # for faults whose outfit has some

    def signal(self, number: int) -> None:
        """Send a signal to the agent's first process, and note it."""
        self.journal.add(Signalled, pid=self.sandbox.pid, signal=int(number))
        self.sandbox.signal(number)

    def end_by_kill(self) -> None:
        """SIGKILL the whole process tree, note it, and wait until nothing of it is left."""
        self.journal.add(Signalled, pid=self.sandbox.pid, signal=int(signal.SIGKILL))
        self.sandbox.kill()
        if self.sandbox.wait(KILL_SECONDS) is None:
            raise HarnessError(f"the sandbox did not end within {KILL_SECONDS:g} s of SIGKILL (uninterruptible I/O?)")

    def lose(self, survival: Survival) -> None:
        """Take away what *survival* says of disk and host; the agent is gone."""
        if survival in (Survival.CONTAINER, Survival.NODE):
            entries = self.sandbox.wipe()
            self.journal.add(DiskWiped, zones=("workspace", "tmp"), files=entries)
        if survival is Survival.NODE:
            old = self.sandbox.hostname
            new = next_host(old)
            self.sandbox.rename_host(new)
            self.journal.add(HostRenamed, old=old, new=new)


class Plain:
    """What most faults have in common: they need nothing of the machine, and suit every strategy and every run."""

    outfit: ClassVar[Outfit] = Outfit()
    dies: ClassVar[bool] = False

    def missing(self, able: Able) -> str:
        return ""

    def unsuited(self, store: Store | None, strategy: Strategy) -> str:
        return ""


class Fault(Protocol):
    """A frozen dataclass with defaults for every field. Its docstring says what a correct agent must survive."""

    @property
    def survival(self) -> Survival:
        """What the fault takes away."""
        ...

    def missing(self, able: Able) -> str:
        """Return what this machine lacks for the fault, and the remedy; "" if nothing."""
        ...

    def unsuited(self, store: Store | None, strategy: Strategy) -> str:
        """Return why the fault makes no sense for *strategy*, which stores its deltas as *store*; "" if it does."""
        ...

    @property
    def dies(self) -> bool:
        """Whether all that it does to the agent is SIGKILL, where it stands: then a captured agent can stand for it."""
        ...

    @property
    def outfit(self) -> Outfit:
        """What a run needs from its start so that the fault can hit."""
        ...

    def inject(self, scene: Scene) -> None:
        """Break it for real, and write what was done into the journal."""
        ...

    def landed(self, at: str, after: Sequence[AnyEvent]) -> Landed | None:
        """Return the proof that the fault hit at the point *at*, from the events since then; None if it missed."""
        ...


_Kind = TypeVar("_Kind")


def off_the_disk(strategy: Strategy) -> str:
    """Return why *strategy* has nothing on a disk under its zones, or a part elsewhere; "" if all is on it."""
    if strategy.needs:
        return f"the strategy keeps its state on servers ({', '.join(strategy.needs)}), whose disks are their own"
    return "the strategy's half outside puts file systems of its own under the zones" if strategy.outside else ""


def first(events: Sequence[AnyEvent], kind: type[_Kind]) -> _Kind | None:
    """Return the first of *events* of that *kind*."""
    return next(every(events, kind), None)


def hit(fault: str, at: str, how: str, **evidence: str | int | float) -> Landed:
    """Return the proof that *fault* landed."""
    return Landed(fault=fault, at=at, how=how, evidence=evidence)
