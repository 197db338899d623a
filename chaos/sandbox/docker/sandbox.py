"""The sandbox that is a container: its own disk, hostname, process tree and memory limit, by the machine's engine.

    durable/             a named volume (bound to our folder, so that stores can be measured and damaged)
    workspace/, tmp/     in the container's own layer: gone with the container
    assets/              bound read-only, like programs, libraries and packages (see exposed.py)

A process fault starts the same container again, the loss of a container or a node makes a new one. The network is the
machine's: gate, world and servers are at the addresses that they have for any agent.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from chaos.errors import HarnessError
from chaos.events.seen import Observation
from chaos.sandbox import Watch, Zones
from chaos.sandbox.docker import container, engine, exposed, memory, witness
from chaos.sandbox.docker.life import Caller, Life, Order
from chaos.sandbox.docker.output import Output
from chaos.sandbox.observe import GIT_SECONDS, observe
from chaos.sandbox.process import KILL_SECONDS, OOM_SECONDS, _empty, written_bytes
from chaos.sandbox.processes import descendants

LOOKS = 3  # at a sandbox whose background processes make and remove files while we look


class DockerSandbox:
    """Zones in a container and its volume; see the module.

    Args:
        root: of the zones, the same path inside and outside; made here, removed by `close`.
        memory_bytes: the agent's limit; 0: none.
        hostname: of the first container.
        first: another sandbox, whose durable zone and assets are this one's too.
    """

    def __init__(self, root: Path, memory_bytes: int, hostname: str, first: DockerSandbox | None = None) -> None:
        self.zones = Zones(Path(os.path.realpath(root)))
        self.hostname = hostname
        self._first = first
        self.volume: str = first.volume if first else engine.new_name()
        self._memory_bytes = memory_bytes
        self.container = ""  # its name, empty while there is none
        self._named = ""  # the hostname that it has
        self._limit = 0  # that it has, bytes
        self._agent: Life | None = None
        self._log: Output | None = None
        self._oom_kills = 0  # counted in earlier lives
        self.make_zones()
        self._caller = Caller()

    @property
    def pid(self) -> int:
        """The host's number of the agent's first process; 0 before the first start."""
        return self._agent.pid if self._agent else 0

    @property
    def cgroups(self) -> tuple[Path, ...]:
        """None: a container's cgroups are the engine's business."""
        return ()

    def make_zones(self) -> None:
        """Make what the zones have outside of the container."""
        self.zones.root.mkdir(parents=True, exist_ok=True)
        for zone in ("durable", "assets"):
            here = self.zones.root / zone
            if self._first is None:
                here.mkdir(exist_ok=True)
            elif not here.is_symlink():
                here.symlink_to(self._first.zones.root / zone)

    def start(self, command: Sequence[str], env: Mapping[str, str], warm: Sequence[str] = ()) -> int:
        """Start *command* in `workspace/` with exactly the environment *env*, plus TMPDIR and HOSTNAME if not in it.

        Args:
            warm: ignored: a container has no process that could have its imports done.
        """
        if self._agent and self._agent.alive:
            raise HarnessError(f"the sandbox {self.zones.root} still holds a live agent; wait for its end first")
        if not command:
            raise HarnessError("the agent's command is empty; name a program")
        env = {"TMPDIR": str(self.zones.tmp), "HOSTNAME": self.hostname, **env}
        self._oom_kills, self._agent, self._log = self.oom_kills(), None, Output()
        self._agent = self._live(command, env, self.zones.workspace, (self._log, self._log))
        return self._agent.pid

    def wait(self, timeout: float | None) -> int | None:
        """Return the agent's status once its whole tree is gone; None after *timeout* seconds."""
        agent = self._agent
        if agent is None:
            raise HarnessError(f"the sandbox {self.zones.root} holds no agent to wait for; start one first")
        return agent.status if agent.wait(timeout) else None

    def signal(self, number: int) -> None:
        """Signal the agent alone. As pid 1 it gets only what it handles, as in any container, and SIGKILL."""
        if self._agent:
            self._agent.signal(number)

    def stop(self) -> tuple[int, ...]:
        """SIGSTOP the whole process tree, the first process first, until none is left that could fork another."""
        agent, stopped = self._agent, list[int]()
        if agent is None or not agent.alive:
            return ()
        agent.signal(signal.SIGSTOP)
        while new := {agent.pid, *descendants(agent.pid)} - set(stopped):
            for pid in sorted(new):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGSTOP)
                stopped.append(pid)
        return tuple(stopped)

    def resume(self) -> None:
        """SIGCONT what was stopped."""
        agent = self._agent
        for pid in (agent.pid, *descendants(agent.pid)) if agent and agent.alive else ():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)

    def kill(self) -> None:
        """SIGKILL the whole process tree, at once: it dies with pid 1."""
        if self._agent:
            self._agent.signal(signal.SIGKILL)

    def oom_kill(self, limit_bytes: int | None) -> tuple[int, int, int, int]:
        """Have the kernel's OOM killer end the agent, whatever it is doing; see the protocol for what is returned.

        It counts only if all agree: the engine's `OOMKilled`, exit code 137, and the kernel's counter where this user
        can read it.
        """
        agent = self._agent
        if agent is None or not agent.alive:
            raise HarnessError(f"the sandbox {self.zones.root} holds no live agent to be OOM-killed")
        before, usage = self.oom_kills(), memory.usage(self.container, agent.group)
        self._limit = -1  # unknown from here on
        with memory.FirstChoice(agent.pid):
            limit, killed = memory.squeeze(self.container, agent.group, limit_bytes)
            dead = agent.wait(OOM_SECONDS if killed else 0.0)
        after = self.oom_kills()
        if not dead:
            if after > before:
                raise HarnessError("the kernel's OOM killer ended another process of the container than the agent")
            self._set_limit()
        elif (after > before) != agent.oom_killed or (agent.oom_killed and agent.status != -signal.SIGKILL):
            told = f"OOMKilled {agent.oom_killed}, status {agent.status}, {after - before} kills counted by the kernel"
            raise HarnessError(f"the witnesses of an OOM kill differ: {told}")
        return limit, usage, before, after

    def oom_kills(self) -> int:
        """Return how many processes of this sandbox the kernel's OOM killer has ended."""
        return self._oom_kills + (self._agent.oom_kills() if self._agent else 0)

    def written_bytes(self) -> int:
        """Return the bytes that the agent's first process caused to be written so far; 0 if it is gone."""
        return written_bytes(self._agent.pid) if self._agent and self._agent.alive else 0

    def wipe(self) -> int:
        """Remove the container, the agent being gone; return how many entries of `workspace/` and `tmp/` that lost."""
        if self._agent and self._agent.alive:
            raise HarnessError(f"the disk of {self.zones.root} cannot be lost under a live agent; end it first")
        if not self.container:
            return 0
        lost = witness.below(container.diff(self.container), self.zones)
        engine.remove_container(self.container)
        self.container = ""
        return len(lost)

    def rename_host(self, hostname: str) -> None:
        """Give the next container another hostname: a container keeps its own as long as its disk."""
        if self.container and hostname != self._named:
            raise HarnessError(f"the container {self.container} keeps its hostname with its disk; wipe it first")
        self.hostname = hostname

    def observe(self, watch: Watch) -> Observation:
        """Look at files, repositories and processes from outside, and see that the engine knows of the same files.

        The caller holds the agent still; its background processes may be at work.
        """
        agent = self._agent
        if agent is None or not agent.alive:
            raise HarnessError(f"the sandbox {self.zones.root} holds no live agent, and its disk is seen through one")
        top = Path(f"/proc/{agent.pid}/root")
        zones = Zones(top.joinpath(*self.zones.root.parts[1:]))
        for _ in range(LOOKS):
            pids = descendants(agent.pid)
            seen = observe(zones, watch, pids, agent.pid, self.zones.root, self._execute)
            if not (differ := witness.differences(container.diff(self.container), seen, self.zones, watch)):
                return seen
        raise HarnessError(f"files that we saw and `docker diff` of {self.container} differ: {', '.join(differ[:5])}")

    def run(
        self, command: Sequence[str], env: Mapping[str, str], warm: Sequence[str], timeout: float
    ) -> tuple[int, bytes, bytes]:
        """Run *command* in the zones to its end, the agent being gone; return status, output and errors."""
        outputs = Output(keep_bytes=None), Output(keep_bytes=None)
        life = self._live(command, env, self.zones.root, outputs)
        try:
            if not life.wait(timeout):
                raise subprocess.TimeoutExpired(list(command), timeout)
        finally:
            life.signal(signal.SIGKILL)
            life.wait(KILL_SECONDS)
        assert life.status is not None
        return life.status, outputs[0].content(), outputs[1].content()

    def log(self) -> str:
        """Return the last lines that the agent printed in its present incarnation."""
        return self._log.lines() if self._log else ""

    def close(self) -> None:
        """Remove the container with all that is alive in it, the volume, the folders. May be called twice."""
        self._caller.close()
        if self.container:
            engine.remove_container(self.container)
            self.container = ""
        if self._first is None:
            engine.remove_volume(self.volume)
        if self.zones.root.is_dir():
            _empty(self.zones.root)
            self.zones.root.rmdir()

    # -- the container

    def _live(self, command: Sequence[str], env: Mapping[str, str], cwd: Path, outputs: tuple[Output, Output]) -> Life:
        """Have one incarnation, in the container that is there or in a new one."""
        umask = next(line.split()[1] for line in Path("/proc/self/status").read_text().splitlines() if "Umask" in line)
        folders = str(self.zones.workspace), str(self.zones.tmp)
        order = Order(tuple(command), dict(env), str(cwd), folders, int(umask, 8))
        try:
            if not self.container:
                self._create(command, env)
            self._set_limit()
            return Life(self.container, self._caller, order, outputs)
        except HarnessError as error:
            raise HarnessError(f"cannot start {command[0]!r} in {self.zones.workspace}: {error}") from error

    def _create(self, command: Sequence[str], env: Mapping[str, str]) -> None:
        """Make a container that can hold *command*, and the zones on its disk."""
        self.make_zones()
        if self._first is None:
            container.make_volume(self.volume, self.zones.durable)
        # The name first: what an interrupt leaves half made, `close` removes.
        self.container, self._named = engine.new_name(), self.hostname
        visible = exposed.folders(self.zones.root, command, env)
        made = container.Made(self.container, self.hostname, self.volume, self._memory_bytes, self._caller.name)
        container.create(made, self.zones, visible)
        self._limit = self._memory_bytes

    def _set_limit(self) -> None:
        """Put the limit of this sandbox in force, if another one is."""
        if self._limit != self._memory_bytes:
            memory.set_limit(self.container, self._memory_bytes)
            self._limit = self._memory_bytes

    def _execute(self, folder: str, command: Sequence[str], env: Mapping[str, str]) -> tuple[int, bytes]:
        """Run *command* in the container, in *folder*, which is named as we see it (see `observe.Execute`)."""
        inside = "/" + os.fspath(Path(folder).relative_to(f"/proc/{self.pid}/root"))
        env = {**env, "GIT_CEILING_DIRECTORIES": os.path.dirname(inside)}
        return container.execute(self.container, inside, command, env, GIT_SECONDS)
