"""A world and a sandbox at hand: for tests that start the agent themselves, and kill it where they like."""

from __future__ import annotations

import os
import select
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from chaos import leftovers
from chaos.errors import HarnessError, did_you_mean
from chaos.events.seen import Asked, Effected, FileEntry
from chaos.faults import FIRST_HOST, KILL_SECONDS
from chaos.journal import Journal
from chaos.plan import OPERATIONS
from chaos.plugins.api import Ledger
from chaos.sandbox import Watch
from chaos.sandbox.process import ProcessSandbox
from chaos.scenario import Limits
from chaos.targets import zone_env
from chaos.world import Brain
from chaos.world.holds import Operation, Operations
from chaos.world.server import World

SECONDS = 30.0
"""How long is waited for an agent that a test started, unless it says otherwise: as long as a run waits for a sign."""

INHERITED = ("PATH", "LANG", "LC_ALL", "VIRTUAL_ENV")
"""What an agent finds of this process's environment, as in a run: nothing of ours leaks in."""


def _folder(kind: str) -> Path:
    """Return a new folder, those of dead harnesses being removed: no campaign need ever come that does it."""
    leftovers.sweep()
    return leftovers.folder(kind)


class ChaosWorld:
    """A world at hand, for agents that the test starts itself: the scripted model and the services, on a free port.

    An agent can be made to stand still at what it asks of the world, as in a run (`chaos.plan.OPERATIONS`):

        chaos_world.hold("effect", 2)
        ...                            # start the agent
        chaos_world.standing()         # the second effect has happened, and the reply is not sent
        ...                            # kill it, look at it
        chaos_world.release()          # or let it go on
    """

    def __init__(self, brain: Brain) -> None:
        self._folder = _folder("world-")
        self._journal = Journal(self._folder / "journal.jsonl")
        self._world = World(brain, self._journal)
        self._held: Operations | None = None
        self._standing: list[Operation] = []
        self._number = 0
        self._world.start()

    @property
    def env(self) -> dict[str, str]:
        """The variables by which an agent, its SDKs and its tools find it (OPENAI_BASE_URL, CHAOS_SERVICES_URL, …)."""
        return self._world.env()

    @property
    def ledger(self) -> Ledger:
        """The effects until now."""
        return Ledger.of([event for event in list(self._journal.events) if isinstance(event, Effected)])

    @property
    def requests(self) -> tuple[Asked, ...]:
        """The requests to the model until now."""
        return tuple(event for event in list(self._journal.events) if isinstance(event, Asked))

    def hold(self, operation: str, n: int = 1) -> None:
        """Have the *n*-th *operation* from now on be held, as "effect"; those before it go on in `standing`."""
        if operation not in OPERATIONS:
            raise ValueError(f"there is no operation {operation!r}; {did_you_mean(operation, OPERATIONS)}")
        if n < 1:
            raise ValueError(f"operations are counted from 1 (got {n})")
        self.release()
        self._number = n
        self._journal.attempt += 1
        self._held = self._world.holds.begin(self._journal.attempt)
        self._world.holds.phases = frozenset({operation})

    def standing(self, seconds: float = SECONDS) -> None:
        """Wait until the agent stands at the operation of `hold`; TimeoutError if it does not come there."""
        if self._held is None:
            raise ValueError("nothing is held; call hold() before the agent is started")
        until, came = time.monotonic() + seconds, 0
        while came < self._number:
            left = max(until - time.monotonic(), 0.0)
            if not select.select([self._held], [], [], left)[0]:
                raise TimeoutError(f"{came} of {self._number} operations came within {seconds:g} s")
            if (operation := self._held.receive()) is None:
                continue
            came = operation.number
            if came < self._number:
                operation.go()
            else:
                self._standing.append(operation)

    def release(self) -> None:
        """Let all that is held go on, and hold nothing more."""
        self._world.holds.phases = frozenset()
        while self._held is not None and (operation := self._held.receive()):
            operation.go()
        while self._standing:
            self._standing.pop().go()

    def close(self) -> None:
        """Cut all connections; HarnessError if the world itself failed."""
        try:
            self._world.close()
            self._journal.close()
        finally:
            leftovers.remove(self._folder)
        if self._world.failure:
            raise HarnessError(f"the world failed: {self._world.failure}") from self._world.failure


class ChaosSandbox:
    """A sandbox at hand: the test starts a process in it, kills it for real, and looks at what it left.

    The process starts in `workspace`, with the folders of a run in its environment (CHAOS_DURABLE, …) and with *env*.
    """

    def __init__(self, env: Mapping[str, str]) -> None:
        self._folder = _folder("sandbox-")
        try:
            self._sandbox = ProcessSandbox(self._folder / "sandbox", Limits().memory_bytes, FIRST_HOST)
        except BaseException:
            leftovers.remove(self._folder)
            raise
        kept = {name: os.environ[name] for name in INHERITED if name in os.environ}
        home = {"HOME": str(self._sandbox.zones.tmp), "GIT_CEILING_DIRECTORIES": str(self._sandbox.zones.root)}
        self.env: dict[str, str] = {**kept, **home, **zone_env(self._sandbox.zones.root, ()), **env}

    @property
    def durable(self) -> Path:
        """What outlives the container."""
        return self._sandbox.zones.durable

    @property
    def workspace(self) -> Path:
        """The agent's files, on the container's disk."""
        return self._sandbox.zones.workspace

    @property
    def pid(self) -> int:
        """The number of the process on this machine; 0 before the first start."""
        return self._sandbox.pid

    def start(self, command: Sequence[str | Path], env: Mapping[str, str] | None = None) -> None:
        """Start *command*, for the first time or again, with the variables *env* besides; the former one has ended."""
        self._sandbox.start([str(word) for word in command], {**self.env, **(env or {})})

    def wait(self, seconds: float = SECONDS) -> int:
        """Return the exit code, or minus the signal, when no process is left; TimeoutError if some are.

        Args:
            seconds: how long that may take.
        """
        status = self._sandbox.wait(seconds)
        if status is None:
            raise TimeoutError(f"it has not ended within {seconds:g} s; it printed:\n{self.log}")
        return status

    def kill(self) -> int:
        """SIGKILL the whole tree, and return how its first process ended: -9, if it was still there."""
        self._sandbox.kill()
        return self.wait(KILL_SECONDS)

    def evict(self) -> int:
        """Take the container's disk away, the process being gone; return how many entries were lost."""
        return self._sandbox.wipe()

    @property
    def files(self) -> Mapping[str, FileEntry]:
        """The files on the container's disk, by path ("workspace/trip.md"), as a run records them."""
        return {entry.path: entry for entry in self._sandbox.observe(Watch()).files}

    @property
    def log(self) -> str:
        """The last lines that were printed."""
        return self._sandbox.log()

    def close(self) -> None:
        """End whatever is alive, and remove the folders."""
        try:
            self._sandbox.close()
        finally:
            leftovers.remove(self._folder)
