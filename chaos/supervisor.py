"""The supervisor of one run: start the agent, break it where the plan says, restart it until it is done.

It keeps Kubernetes' rules for a Job with `restartPolicy: OnFailure`: any exit but 0 starts the agent again, at most
`backoffLimit` times, with a delay that doubles; the new incarnation finds its THREAD_ID in the environment.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

from chaos import durable, second, sqlite_log
from chaos.audit import noting
from chaos.durable import Durable
from chaos.errors import HarnessError
from chaos.events import NULL
from chaos.events.done import Audited, HeartbeatMissed, Injecting, PresumedDead, Released
from chaos.events.seen import Asked, Ended, Exited, Measured, Observed, Reached, Reloaded, Started
from chaos.faults import Disk, Loading, Scene, Wakes
from chaos.gate import Gate, Held
from chaos.plan import Plan
from chaos.probe import GATE
from chaos.reading import left, read_back
from chaos.rig import THREAD_ID, Onlooker, Rig, Setup, agent_environment, size_of
from chaos.sandbox import Sandbox, Survival
from chaos.targets import RELEASE, Launch
from chaos.worker import Worker

POLL_SECONDS = 0.02  # an agent without a gate ends unnoticed for at most this long
EXIT_SECONDS = 0.05  # one of its processes closed its connection: most likely the agent ends, else it goes on


class Supervisor:
    """The state of one run while it lasts."""

    def __init__(self, setup: Setup, plan: Plan, rig: Rig) -> None:
        self.setup, self.plan, self.rig = setup, plan, rig
        self.journal, self.world = rig.journal, rig.world
        self.leases, self.host = rig.leases, rig.host
        self.worker = Worker(rig.sandbox, rig.gate, rig.world.door, rig.watch)
        self.durable = Durable(rig.sandbox.zones.durable, rig.leases.parts)
        self.scene = Scene(
            rig.sandbox, rig.world, rig.journal, self, rig.rng, setup.store, self.durable, rig.clock, self._deploy,
            disk=rig.disk, calls=rig.calls, links=rig.links, servers=rig.leases.running, copies=rig.copies,
        )  # fmt: skip
        self.endings: list[Callable[[], None]] = []  # called when the incarnation has ended
        self.finals: list[Callable[[], None]] = []  # called when the run has
        self.release = ""
        self.injected = 0
        self.written = 0
        self.first = 1  # the incarnation from which on restarts are counted
        self.deadline = time.monotonic() + setup.limits.deadline_seconds
        self.doomed: tuple[Loading, int] = ("before_load", 0)
        self.successor: tuple[Worker, Wakes] | None = None
        self.stopped = False  # the onlooker has seen enough
        self.presumed = second.Presumed(self.journal, setup.limits.heartbeat_seconds, self.deadline, self._exited)

    def look(self, onlooker: Onlooker) -> None:
        """Have *onlooker* see the agent from now on."""
        self.rig = replace(self.rig, onlooker=onlooker)

    def begin_anew(self) -> None:
        """Count restarts and time as if the present incarnation were the first: the agent has got over all before."""
        self.first, self.deadline = self.journal.attempt, time.monotonic() + self.setup.limits.deadline_seconds

    @property
    def sandbox(self) -> Sandbox:
        """The sandbox of the worker that the supervisor believes in."""
        return self.worker.sandbox

    @property
    def gate(self) -> Gate:
        """Its gate."""
        return self.worker.gate

    def supervise(self) -> None:
        """Start, watch, restart; then measure what is left."""
        limits = self.setup.limits
        how = "gave up"
        while (restarts := self.journal.attempt + 1 - self.first) <= limits.backoff_limit:
            attempt = self.journal.attempt + 1
            if restarts > 0 and limits.backoff_seconds:
                delay = limits.backoff_seconds * 2 ** (restarts - 1)
                time.sleep(max(0.0, min(delay, self.deadline - time.monotonic())))
            self.journal.attempt = attempt
            status = self._captured() if attempt == 1 and self.rig.captured else self._incarnation()
            if status == 0 or self.stopped:
                how = "finished"
                break
            if time.monotonic() >= self.deadline:
                how = "deadline"
                break
        self.presumed.see_out()
        self.undo()
        if not self.stopped:
            self.journal.add(Ended, how=how)
        if self.world.failure is not None:
            raise HarnessError(f"the world failed: {self.world.failure!r}; its brain must answer or raise ValueError")
        if not self.stopped:
            self._measure()

    def _incarnation(self) -> int | None:
        """Start the agent once and return its exit status; all that it announced has been answered or cut off.

        None: it was taken for dead and lives on.
        """
        if self.successor is not None:
            (self.worker, _), self.successor = self.successor, None
            self.scene = replace(self.scene, sandbox=self.worker.sandbox)
        if self.host is not None:
            self.sandbox.make_zones()
            self.host.starting(self.journal.attempt)
        launch = self.setup.target.launch(self.setup.strategy, self.setup.seed, self.sandbox.zones.root)
        self.written = 0
        env = {**self._environment(launch), GATE: self.gate.address}
        if self.rig.clock is not None:
            env = self.rig.clock.environment(env)
        if self.rig.links is not None:
            env = self.rig.links.lead(env)
        if self.world.holds.phases:
            self.gate.attend(self.world.holds.begin(self.journal.attempt))
        command = launch.resume if launch.resume and self.journal.attempt > 1 else launch.command
        pid = self.sandbox.start(command, env, launch.warm if self.setup.warm else ())
        self.worker.begin(self.journal.attempt)
        self.journal.add(Started, pid=pid, hostname=self.sandbox.hostname, thread_id=THREAD_ID)
        if self.rig.calls is not None and self.sandbox is self.rig.sandbox:  # a second worker's are not held
            self.gate.attend(self.rig.calls)
        status = self._watch()
        if status is not None:
            self.gate.drop()
            if not self.stopped:
                if status == 0 and self.journal.last(Reached) is None:  # it announces nothing: what it left is its end
                    self._observe(0, "finished")
                self._exited(self.worker, status)
            _call(self.endings)
        return status

    def _captured(self) -> int:
        """Break the agent that stands where it was captured: what is done to it there ends it."""
        self.worker.begin(1)
        self._inject()
        status = self.sandbox.wait(0.0)
        if status is None:
            raise HarnessError(f"{self.plan.faults[0].fault} leaves a captured agent alive; use --chaos-speed real")
        self._exited(self.worker, status)
        _call(self.endings)
        return status

    def _exited(self, worker: Worker, status: int) -> None:
        if self.rig.clock is not None:
            self.rig.clock.tell(self.journal)
        with self.journal.acting(worker.attempt):
            self.journal.add(
                Exited,
                status=status,
                oom_kill=worker.sandbox.oom_kills(),
                written_bytes=self.written if worker is self.worker else 0,
                stored_bytes=self._stored(),
                log_bytes=sqlite_log.surplus(self.durable.folder),
                elsewhere_bytes=self.leases.written_bytes() + (self.host.written_bytes() if self.host else 0),
                log=worker.sandbox.log() if status else "",
            )

    def _watch(self) -> int | None:
        """Serve the agent until it ends, and return its status; None if it was taken for dead and lives on."""
        while True:
            left = self.deadline - time.monotonic()
            if left <= 0:
                self.scene.end_by_kill()
            elif held := self.gate.next(min(left, POLL_SECONDS)):
                self._pass(held)
                if self.successor is not None:
                    return None
                continue
            elif (silent := self.worker.silent()) > self.setup.limits.heartbeat_seconds:
                self.journal.add(HeartbeatMissed, pid=self.sandbox.pid, seconds=round(silent, 3))
                self.scene.end_by_kill()
            elif self.presumed and silent > second.TURN_SECONDS:
                self.presumed.stir()
            status = self.sandbox.wait(min(left, EXIT_SECONDS) if self.gate.hung_up else 0.0)
            if status is not None:
                return status

    def _pass(self, held: Held) -> None:
        """Note the point, break what is planned there, and let the agent go if it still can."""
        said = held.said
        self._note(held)
        if self.host is not None and held.call is None:
            self.host.standing(said.point, said.step)
        if said.point == "finished":
            self.presumed.see_out()  # what those taken for dead still do belongs to what is there in the end
        if said.point == "finished" or (said.point == "after_load" and self.journal.attempt > 1):
            self._observe(said.step, said.point)
        if said.point == "after_commit" and self.rig.copies is not None:
            self.rig.copies.take()
        if self.rig.onlooker is not None and self.rig.onlooker.standing(said, self.sandbox, settled=self._settled()):
            self.stopped = True
            self.sandbox.kill()
            return
        for step, phase in held.places:
            self._break(step, phase)
        if self.successor is not None:
            self.presumed.add(self.worker, held, self.successor[1])
        elif self.sandbox.wait(0.0) is None:
            self.presumed.beside(self.worker, said.point)
            self.worker.go(held)

    def _note(self, held: Held) -> None:
        if self.rig.clock is not None:
            self.rig.clock.tell(self.journal)
        self.worker.note(held, self.journal)

    def _observe(self, step: int, phase: str) -> None:
        self.written = self.sandbox.written_bytes()
        seen = self.sandbox.observe(self.worker.watch)
        seen = seen if phase == "finished" else seen.without_texts()
        self.journal.add(Observed, step=step, phase=phase, seen=seen)

    def _break(self, step: int, phase: str) -> None:
        """Break the agent, if that is due at this point.

        What a dead process had announced may still come in: it cannot be broken a second time.
        """
        doom, times = self.doomed
        if self.sandbox.wait(0.0) is not None:
            return
        if times and phase == doom:
            self.doomed = doom, times - 1
            self.scene.end_by_kill()
        elif not times and self._due(step, phase):
            self._inject()

    def _settled(self) -> bool:
        """Tell whether nothing is planned any more, and nobody else is about."""
        return self.injected == len(self.plan.faults) and not (self.doomed[1] or self.successor or self.presumed)

    def _due(self, step: int, phase: str) -> bool:
        if self.injected >= len(self.plan.faults):
            return False
        return self.plan.faults[self.injected].point.matches(step, phase, self.journal.attempt)

    def _inject(self) -> None:
        planned = self.plan.faults[self.injected]
        self.written = self.sandbox.written_bytes()
        self.journal.add(Injecting, index=self.injected, fault=planned.fault, point=str(planned.point))
        self.injected += 1
        fault = self.setup.faults[planned.fault]
        if fault.survival in (Survival.STORE, Survival.POWER):
            self.presumed.end()  # what is stored, or what it is stored on, is worked on by us alone
        if fault.survival is Survival.STORE:
            self.leases.await_back()  # it works on what is stored, itself
        fault.inject(self.scene)
        if fault.survival is Survival.STORE and self.sandbox.wait(0.0) is not None:
            self._audit("crashed")

    def serve_until_exit(self, timeout: float) -> bool:
        """Leave the held point unanswered and let what is announced from now on pass (see `Hold`)."""
        end = min(time.monotonic() + timeout, self.deadline)
        while time.monotonic() < end:
            left = max(0.0, end - time.monotonic())
            if held := self.gate.next(min(POLL_SECONDS, left)):
                self._note(held)
                self.worker.go(held)
            elif self.sandbox.wait(min(EXIT_SECONDS, left) if self.gate.hung_up else 0.0) is not None:
                return True
        return self.sandbox.wait(0.0) is not None

    def once_ended(self, undo: Callable[[], None], *, run: bool = False) -> None:
        """Call *undo* once, when the present incarnation (or the whole run) has ended (see `Hold`)."""
        (self.finals if run else self.endings).append(undo)

    def undo(self) -> None:
        """Call what is to be called at the end of the run. May be called twice."""
        _call(self.endings)
        _call(self.finals)

    def kill_again(self, phase: Loading, times: int) -> None:
        """SIGKILL the next *times* incarnations too, each when it announces *phase* (see `Hold`)."""
        self.doomed = phase, times

    def presume_dead(self, disk: Disk, wakes: Wakes) -> None:
        """Take the agent for dead: it stays held, and the next incarnation starts beside it (see `Hold`)."""
        self.journal.add(PresumedDead, pid=self.sandbox.pid, disk=disk, wakes=wakes)
        rig, limits, root = self.rig, self.setup.limits, self.rig.root / f"beside-{self.journal.attempt}"
        backend = self.setup.backend
        made = second.beside(self.worker, disk, backend, limits.memory_bytes, root, rig.world, rig.stack)
        self.successor = made, wakes

    def _measure(self) -> None:
        zones = self.sandbox.zones
        if self.setup.strategy.durable:
            launch = self.setup.target.reload(self.setup.strategy, self.setup.seed, zones.root)
            state, error = read_back(self.sandbox, launch, self._environment(launch), warm=self.setup.warm)
            live = left(zones.root / launch.live) if launch.live else NULL
            self.journal.add(Reloaded, state=state, error=error, live=live)
        self.journal.add(Measured, stored_bytes=self._stored())
        self._audit("end")

    def stores_the_same(self, state: str | None) -> bool:
        """Tell whether a new process, after the run, reads the state of that digest from a store without damage."""
        if not self.setup.strategy.durable:
            return True
        launch = self.setup.target.reload(self.setup.strategy, self.setup.seed, self.sandbox.zones.root)
        read, error = read_back(self.sandbox, launch, self._environment(launch), warm=self.setup.warm)
        if error or state is None or self.setup.target.digest(bytes(read)) != state:
            return False
        known = len(self.journal.own)
        self._audit("end")
        return not any(event.findings for event in self.journal.own[known:] if isinstance(event, Audited))

    def _audit(self, when: str) -> None:
        """Look for structural damage in what is stored, unless that is too much to look at."""
        if self.setup.store is not None and self._stored() <= noting.AUDIT_BYTES:
            noting.note(self.journal, self.setup.store.thread(self.durable), when)

    def _stored(self) -> int:
        """Return what stays in the durable zone: files, and what the run has on servers."""
        told = self.host.stored_bytes() if self.host else None
        return self.leases.stored_bytes() + (size_of(self.durable.folder) if told is None else told)

    def _deploy(self, release: str) -> None:
        """Have every process that is started from now on be *release* of the target."""
        self.release = release
        last = self.journal.last(Asked)
        self.journal.add(
            Released,
            release=release,
            system=last.beginning if last else "",
            tools=last.tools if last else "",
            changes=self.setup.target.releases.get(release, ()),
        )

    def _environment(self, launch: Launch) -> dict[str, str]:
        leases = durable.environment(self.leases.parts)
        zones, watch, door = self.sandbox.zones, self.worker.watch, self.worker.door
        release = {RELEASE: self.release} if self.release else {}
        return {**agent_environment(zones.root, launch, self.world, watch, door), **leases, **release}


def _call(undone: list[Callable[[], None]]) -> None:
    while undone:
        undone.pop()()
