"""The supervisor of one run: start the agent, break it where the plan says, restart it until it is done.

It keeps Kubernetes' rules for a Job with `restartPolicy: OnFailure`: any exit but 0 starts the agent again, at most
`backoffLimit` times, with a delay that doubles; the new incarnation finds its THREAD_ID in the environment.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from chaos import durable, sqlite_log
from chaos.durable import Durable
from chaos.errors import HarnessError
from chaos.faults import Fault, Scene
from chaos.gate import Gate, Held
from chaos.host import Host
from chaos.journal import Ended, Exited, Injecting, Journal, Measured, Observed, Reached, Reloaded, Started
from chaos.plan import Plan
from chaos.pool import Leases, Pool
from chaos.probe import GATE
from chaos.reading import read_back
from chaos.sandbox import Backend, Sandbox, Watch
from chaos.sandbox.backends import ProcessBackend
from chaos.scenario import Limits
from chaos.stores import Store
from chaos.targets import Launch, Strategy, Target, zone_env
from chaos.world import Brain
from chaos.world.server import World

THREAD_ID = "chaos-thread"
"""The same in every run: idempotency keys are derived from it, and the run must equal its reference."""

POLL_SECONDS = 0.02  # an agent without a gate ends unnoticed for at most this long
EXIT_SECONDS = 0.05  # one of its processes closed its connection: most likely the agent ends, else it goes on


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


class Supervisor:
    """The state of one run while it lasts."""

    def __init__(self, setup: Setup, plan: Plan, rig: Rig) -> None:
        self.setup, self.plan, self.rig = setup, plan, rig
        self.journal, self.world, self.gate, self.sandbox = rig.journal, rig.world, rig.gate, rig.sandbox
        self.leases, self.host, self.watch = rig.leases, rig.host, rig.watch
        self.durable = Durable(rig.sandbox.zones.durable, rig.leases.parts)
        self.scene = Scene(rig.sandbox, rig.world, rig.journal, self, rig.rng, setup.store, self.durable)
        self.injected = 0
        self.written = 0
        self.deadline = time.monotonic() + setup.limits.deadline_seconds

    def supervise(self) -> None:
        """Start, watch, restart; then measure what is left."""
        limits = self.setup.limits
        how = "gave up"
        for attempt in range(1, limits.backoff_limit + 2):
            if attempt > 1 and limits.backoff_seconds:
                delay = limits.backoff_seconds * 2 ** (attempt - 2)
                time.sleep(max(0.0, min(delay, self.deadline - time.monotonic())))
            self.journal.attempt = attempt
            status = self._incarnation()
            if status == 0:
                how = "finished"
                break
            if time.monotonic() >= self.deadline:
                how = "deadline"
                break
        self.journal.add(Ended, how=how)
        if self.world.failure is not None:
            raise HarnessError(f"the world failed: {self.world.failure!r}; its brain must answer or raise ValueError")
        self._measure()

    def _incarnation(self) -> int:
        """Start the agent once and return its exit status; all that it announced has been answered or cut off."""
        if self.host is not None:
            self.sandbox.make_zones()
            self.host.starting(self.journal.attempt)
        launch = self.setup.target.launch(self.setup.strategy, self.setup.seed, self.sandbox.zones.root)
        self.written = 0
        env = {**self._environment(launch), GATE: self.gate.address}
        pid = self.sandbox.start(launch.command, env, launch.warm if self.setup.warm else ())
        self.journal.add(Started, pid=pid, hostname=self.sandbox.hostname, thread_id=THREAD_ID)
        status = self._watch()
        self.gate.drop()
        log = self.sandbox.log() if status else ""
        self.journal.add(
            Exited,
            status=status,
            oom_kill=self.sandbox.oom_kills(),
            written_bytes=self.written,
            stored_bytes=self._stored(),
            log_bytes=sqlite_log.surplus(self.durable.folder),
            elsewhere_bytes=self.leases.written_bytes() + (self.host.written_bytes() if self.host else 0),
            log=log,
        )
        return status

    def _watch(self) -> int:
        while True:
            left = self.deadline - time.monotonic()
            if left <= 0:
                self.scene.end_by_kill()
            elif held := self.gate.next(min(left, POLL_SECONDS)):
                self._pass(held)
                continue
            status = self.sandbox.wait(min(left, EXIT_SECONDS) if self.gate.hung_up else 0.0)
            if status is not None:
                return status

    def _pass(self, held: Held) -> None:
        """Note the point, break what is planned there, and let the agent go if it still can."""
        said = held.said
        self._note(held)
        if self.host is not None:
            self.host.standing(said.point, said.step)
        if said.point == "finished" or (said.point == "after_load" and self.journal.attempt > 1):
            self._observe(said.step, said.point)
        # What a dead process had announced may still come in: it cannot be broken a second time.
        if self._due(said.step, said.point) and self.sandbox.wait(0.0) is None:
            self._inject()
            if self.sandbox.wait(0.0) is not None:
                return
        self.gate.go(held)

    def _note(self, held: Held) -> None:
        said = held.said
        self.journal.add(
            Reached, step=said.step, phase=said.point, key=said.key, state=said.state, snapshot=said.snapshot
        )

    def _observe(self, step: int, phase: str) -> None:
        self.written = self.sandbox.written_bytes()
        self.journal.add(Observed, step=step, phase=phase, seen=self.sandbox.observe(self.watch))

    def _due(self, step: int, phase: str) -> bool:
        if self.injected >= len(self.plan.faults):
            return False
        return self.plan.faults[self.injected].point.matches(step, phase, self.journal.attempt)

    def _inject(self) -> None:
        planned = self.plan.faults[self.injected]
        self.written = self.sandbox.written_bytes()
        self.journal.add(Injecting, index=self.injected, fault=planned.fault, point=str(planned.point))
        self.injected += 1
        self.setup.faults[planned.fault].inject(self.scene)

    def serve_until_exit(self, timeout: float) -> bool:
        """Leave the held point unanswered and let what is announced from now on pass (see `Hold`)."""
        end = min(time.monotonic() + timeout, self.deadline)
        while time.monotonic() < end:
            left = max(0.0, end - time.monotonic())
            if held := self.gate.next(min(POLL_SECONDS, left)):
                self._note(held)
                self.gate.go(held)
            elif self.sandbox.wait(min(EXIT_SECONDS, left) if self.gate.hung_up else 0.0) is not None:
                return True
        return self.sandbox.wait(0.0) is not None

    def _measure(self) -> None:
        zones = self.sandbox.zones
        if self.setup.strategy.durable:
            launch = self.setup.target.reload(self.setup.strategy, self.setup.seed, zones.root)
            state, error = read_back(self.sandbox, launch, self._environment(launch), warm=self.setup.warm)
            self.journal.add(Reloaded, state=state, error=error)
        self.journal.add(Measured, stored_bytes=self._stored())

    def _stored(self) -> int:
        """Return what stays in the durable zone: files, and what the run has on servers."""
        told = self.host.stored_bytes() if self.host else None
        return self.leases.stored_bytes() + (_size(self.durable.folder) if told is None else told)

    def _environment(self, launch: Launch) -> dict[str, str]:
        leases = durable.environment(self.leases.parts)
        return {**agent_environment(self.sandbox.zones.root, launch, self.world, self.watch), **leases}


def agent_environment(root: Path, launch: Launch, world: World, watch: Watch) -> dict[str, str]:
    """Return the whole environment of an agent: nothing of ours leaks in but the search path and the language."""
    kept = {name: os.environ[name] for name in ("PATH", "LANG", "LC_ALL", "VIRTUAL_ENV") if name in os.environ}
    return {
        **kept,
        "HOME": str(root / "tmp"),
        "THREAD_ID": THREAD_ID,
        # An agent that lost its repository must not find the one that the campaign runs in.
        "GIT_CEILING_DIRECTORIES": str(root),
        **zone_env(root, watch.ports),
        **world.env(),
        **launch.env,
    }


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
