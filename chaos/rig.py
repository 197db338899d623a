"""What the runs of a cell have in common, what is made for one run, and what its agents find in their environment."""

from __future__ import annotations

import os
import random
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from chaos.clock import Clock
from chaos.copies import Copies
from chaos.faults import Fault
from chaos.gate import Announcement, Gate
from chaos.host import Host
from chaos.journal import Journal
from chaos.pool import Leases, Pool
from chaos.sandbox import Backend, Sandbox, Watch
from chaos.sandbox.backends import ProcessBackend
from chaos.sandbox.disk import Disk as DiskImage
from chaos.sandbox.syscalls import Calls
from chaos.scenario import Limits
from chaos.stores import Store
from chaos.targets import Launch, Strategy, Target, zone_env
from chaos.toxiproxy.links import Links
from chaos.world import Brain
from chaos.world.door import Door
from chaos.world.server import World

THREAD_ID = "chaos-thread"
"""The same in every run: idempotency keys are derived from it, and the run must equal its reference."""


@dataclass(frozen=True)
class Setup:
    """What the runs of one cell have in common. *faults* maps labels to faults."""

    target: Target
    strategy: Strategy
    seed: int
    brain: Brain
    watch: Watch
    limits: Limits
    faults: Mapping[str, Fault]
    store: Store | None
    volatile: tuple[str, ...] = ()  # paths of the state that may differ between equal runs
    pool: Pool = field(default_factory=Pool)
    warm: bool = True  # agents are forked from a process that has their imports done
    backend: Backend = field(default_factory=ProcessBackend)
    toxiproxy: str = ""  # address of a Toxiproxy server's API; "" for one of our own
    syscalls: frozenset[str] = frozenset()  # that are held and counted in every run, the reference too (plan.SYSCALLS)
    operations: frozenset[str] = frozenset()  # likewise, on the world (plan.OPERATIONS)


class Onlooker(Protocol):
    """Sees the agent stand at each of its points, before anything is broken there."""

    def standing(self, said: Announcement, sandbox: Sandbox, *, settled: bool) -> bool:
        """Look at the agent, which announced *said* and stands still in *sandbox*.

        Args:
            settled: no fault is planned any more, and no other worker is about.

        Returns:
            whether the run may end here: nothing more is to be seen. The agent is then killed, unjournalled.
        """
        ...


@dataclass(frozen=True)
class Rig:
    """What was made for one run, and is undone after it."""

    journal: Journal
    world: World
    gate: Gate
    sandbox: Sandbox
    watch: Watch
    rng: random.Random
    leases: Leases
    host: Host | None = None
    clock: Clock | None = None
    stack: ExitStack = field(default_factory=ExitStack)  # undone at the end of the run: what is made while it lasts
    root: Path = field(default_factory=Path)  # of all that the run has on disk
    disk: DiskImage | None = None
    calls: Calls | None = None
    links: Links | None = None
    copies: Copies | None = None
    onlooker: Onlooker | None = None
    captured: bool = False  # the first incarnation is not started: it stands at a point, as it was captured there


def agent_environment(
    root: Path, launch: Launch, world: World, watch: Watch, door: Door | None = None
) -> dict[str, str]:
    """Return the whole environment of an agent: nothing of ours leaks in but the search path and the language."""
    found = world.env(door)
    kept = {name: os.environ[name] for name in ("PATH", "LANG", "LC_ALL", "VIRTUAL_ENV") if name in os.environ}
    return {
        **kept,
        "HOME": str(root / "tmp"),
        "THREAD_ID": THREAD_ID,
        # An agent that lost its repository must not find the one that the campaign runs in.
        "GIT_CEILING_DIRECTORIES": str(root),
        **zone_env(root, watch.ports),
        **found,
        **{name: text.replace("{services}", found["CHAOS_SERVICES_URL"]) for name, text in launch.env.items()},
    }


def size_of(folder: Path) -> int:
    """Return the bytes of all files below *folder*."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
