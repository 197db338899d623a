"""The sandbox that needs nothing but Linux: namespaces and a memory cgroup where the machine allows.

    harness ── launcher (launcher.py) ── agent, pid 1 of its own PID namespace ── its children
       │           └ reports the wait status over a socket pair; kills the agent when the harness dies
       └ a thread for each incarnation takes in that report and the agent's output

Without PID namespaces the launcher is the subreaper of the tree and kills it process by process. An agent that is
forked with its imports done may have its fork server for a launcher (forkserver.py).
"""

from __future__ import annotations

import contextlib
import functools
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from chaos import clock
from chaos.errors import HarnessError
from chaos.events.seen import Observation
from chaos.sandbox import Able, Watch, Zones, cgroup, disk, hierarchy, strace, syscalls
from chaos.sandbox import warm as warmth
from chaos.sandbox.incarnation import START_SECONDS, Incarnation, order
from chaos.sandbox.observe import observe
from chaos.sandbox.syscalls import Calls

OOM_SECONDS = 10.0  # from the kernel's kill to the end of the tree; the report to the log is the slow part
KILL_SECONDS = 30.0  # from SIGKILL to the end of the tree, for a tree with much memory to give back
DEEP = 8  # levels after which a folder is moved up before it is emptied: 8 names of 255 bytes stay below PATH_MAX
FIRST_CHOICE_FOR_OOM = 1000  # the highest oom_score_adj: this one before all others


def able() -> Able:
    """Say what this machine can do. Each power is tried once, for real."""
    return _able(os.environ.get(hierarchy.VARIABLE, ""))


@functools.cache
def _able(named: str) -> Able:
    mode, features, refusal = _namespaces()
    parent = hierarchy.find_parent()
    remedy = (
        "run as root, or allow user namespaces (sysctl user.max_user_namespaces > 0, "
        "kernel.apparmor_restrict_unprivileged_userns=0; in a container: --security-opt seccomp=unconfined)"
    )
    return Able(
        process_tree="" if mode != "none" else f"no PID namespace, {refusal}: trees are killed one by one; {remedy}",
        memory_limit=parent.missing,
        hostname="" if "uts" in features else f"no UTS namespace: the hostname cannot change; {remedy}",
        memory_controller=parent.controller,
        clock=clock.missing(),
        disk_image=disk.missing,
        ptrace=strace.missing(),
        syscalls=syscalls.missing(),
    )


@functools.cache
def _namespaces() -> tuple[str, frozenset[str], str]:
    """Return the launcher's best mode here, the namespaces that it makes, and why not better ones."""
    refusals = []
    for mode in ("direct", "user"):
        try:
            trial = Incarnation(order(mode, "trial", (), (), {}), Path("/"))
        except HarnessError as error:
            refusals.append(str(error))
            continue
        trial.wait(START_SECONDS)
        return mode, trial.features, ""
    return "none", frozenset(), "; ".join(refusals)


class ProcessSandbox:
    """Zones on the local disk, a process tree of our own, a memory cgroup.

    Args:
        root: folder of the zones; made here, removed by `close`.
        memory_bytes: the agent's limit; 0: none. Without a usable memory cgroup (see `able`) there is no limit.
        hostname: of the first incarnation.
        namespaces: False: do as on a machine without namespaces.
        shares: zones of another sandbox: its durable zone and its assets are this one's too, and with the same root
            the whole disk, which then outlives this sandbox.
    """

    def __init__(
        self, root: Path, memory_bytes: int, hostname: str, *, namespaces: bool = True, shares: Zones | None = None
    ) -> None:
        # The agent sees resolved paths (getcwd), so masking needs them too.
        self.zones = Zones(Path(os.path.realpath(root)))
        self.hostname = hostname
        self._mode = _namespaces()[0] if namespaces else "none"
        self._memory_bytes = memory_bytes
        self._agent: Incarnation | None = None
        self._calls: Calls | None = None
        self._owns_disk = shares is None or shares.root != self.zones.root
        if shares is not None and self._owns_disk:
            self.zones.root.mkdir(parents=True)
            self.zones.durable.symlink_to(shares.durable)
            self.zones.assets.symlink_to(shares.assets)
        self.make_zones()
        parent = hierarchy.find_parent()
        self._cgroup = hierarchy.create(parent, memory_bytes) if parent.memory else None

    @property
    def pid(self) -> int:
        """The host's number of the agent's first process; 0 before the first start."""
        return self._agent.pid if self._agent else 0

    @property
    def cgroups(self) -> tuple[Path, ...]:
        """The files by which a process joins the agent's limits, writing "0" to them; none without a cgroup."""
        return self._cgroup.joins if self._cgroup else ()

    def start(self, command: Sequence[str], env: Mapping[str, str], warm: Sequence[str] = ()) -> int:
        """Start *command* in `workspace/` with exactly the environment *env*, plus TMPDIR and HOSTNAME if not in it.

        Args:
            warm: modules that it may find imported already, if it is `python -m MODULE ARGUMENT...`.
        """
        if self._agent and self._agent.alive:
            raise HarnessError(f"the sandbox {self.zones.root} still holds a live agent; wait for its end first")
        if not command:
            raise HarnessError("the agent's command is empty; name a program")
        self.make_zones()  # the last incarnation may have removed one; a container runtime makes the folder anew
        if self._cgroup:
            self._cgroup.set_limit(self._memory_bytes)
        env = {"TMPDIR": str(self.zones.tmp), "HOSTNAME": self.hostname, **env}
        cgroups = self._cgroup.joins if self._cgroup else ()
        try:
            held = self._calls.program if self._calls else b""
            ordered = order(self._mode, self.hostname, cgroups, command, env, held)
            self._agent = Incarnation(ordered, self.zones.workspace, warm, env)
        except HarnessError as error:
            raise HarnessError(f"cannot start {command[0]!r} in {self.zones.workspace}: {error}") from error
        if self._calls:
            self._calls.listen(self._agent.listener)
        return self._agent.pid

    def hold(self, calls: Calls) -> None:
        """Start every incarnation from now on with its system calls held (see `chaos.sandbox.syscalls`)."""
        self._calls = calls

    def wait(self, timeout: float | None) -> int | None:
        """Return the agent's status once its whole tree is gone; None after *timeout* seconds."""
        agent = self._agent
        if agent is None:
            raise HarnessError(f"the sandbox {self.zones.root} holds no agent to wait for; start one first")
        if not agent.wait(timeout):
            return None
        if agent.status is None:
            raise HarnessError("the sandbox's launcher was killed, so how the agent ended is not known; run it again")
        return agent.status

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
        while new := agent.pids - set(stopped):
            for pid in sorted(new):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGSTOP)
                stopped.append(pid)
        return tuple(stopped)

    def resume(self) -> None:
        """SIGCONT what was stopped."""
        agent = self._agent
        for pid in agent.pids if agent and agent.alive else ():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)

    def kill(self) -> None:
        """SIGKILL the whole process tree, at once."""
        agent = self._agent
        if agent is None or not agent.alive:
            return
        agent.signal(signal.SIGKILL)
        if self._mode == "none":
            for pid in agent.pids:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)

    def oom_kill(self, limit_bytes: int | None) -> tuple[int, int, int, int]:
        """Have the kernel's OOM killer end the agent, whatever it is doing; see the protocol for what is returned."""
        agent, group = self._agent, self._cgroup
        if group is None:
            raise HarnessError(f"no OOM kill is possible: {able().memory_limit}")
        if agent is None or not agent.alive:
            raise HarnessError(f"the sandbox {self.zones.root} holds no live agent to be OOM-killed")
        score = Path(f"/proc/{agent.pid}/oom_score_adj")
        before, usage = group.oom_kills(), group.usage()
        try:
            former = score.read_text()
            cgroup.put(score, FIRST_CHOICE_FOR_OOM)
        except OSError:
            former = ""  # it is ending on its own right now
        try:
            limit = group.squeeze(limit_bytes)
            after = group.oom_kills()
            if after > before and not agent.wait(OOM_SECONDS):
                raise HarnessError("the kernel's OOM killer ended another process of the sandbox than the agent")
        finally:
            group.set_limit(self._memory_bytes)
            if former and agent.alive:
                _try_put(score, former)
        return limit, usage, before, after

    def oom_kills(self) -> int:
        """Return the kernel's counter of OOM kills in this sandbox; 0 without a memory cgroup."""
        return self._cgroup.oom_kills() if self._cgroup else 0

    def written_bytes(self) -> int:
        """Return the bytes that the agent's first process caused to be written so far; 0 if it is gone."""
        return written_bytes(self._agent.pid) if self._agent and self._agent.alive else 0

    def wipe(self) -> int:
        """Empty `workspace/` and `tmp/`, the agent being gone; return how many entries were lost."""
        if self._agent and self._agent.alive:
            raise HarnessError(f"the disk of {self.zones.root} cannot be lost under a live agent; end it first")
        lost = 0
        for zone in (self.zones.workspace, self.zones.tmp):
            if zone.is_symlink() or zone.is_file():  # an agent may do anything; we must not empty another folder
                zone.unlink()
            zone.mkdir(exist_ok=True)
            lost += _empty(zone)
        return lost

    def rename_host(self, hostname: str) -> None:
        """Give the next incarnation another hostname."""
        self.hostname = hostname

    def observe(self, watch: Watch) -> Observation:
        """Look at files, repositories and processes from outside. The caller holds the agent still."""
        agent = self._agent
        pids = agent.pids if agent and agent.alive else set[int]()
        return observe(self.zones, watch, pids, agent.pid if agent else 0)

    def run(
        self, command: Sequence[str], env: Mapping[str, str], warm: Sequence[str], timeout: float
    ) -> tuple[int, bytes, bytes]:
        """Run *command* in the zones to its end, the agent being gone; return status, output and errors."""
        if warm:
            return warmth.run(warm, order("none", "", (), command, env), self.zones.root, timeout)
        done = subprocess.run(command, cwd=self.zones.root, env=env, capture_output=True, timeout=timeout, check=False)
        return done.returncode, done.stdout, done.stderr

    def log(self) -> str:
        """Return the last lines that the agent printed in its present incarnation."""
        return self._agent.log() if self._agent else ""

    def close(self) -> None:
        """End whatever is alive and remove every trace: processes, cgroup, folders. May be called twice."""
        self.kill()
        if self._agent and not self._agent.wait(KILL_SECONDS):
            raise HarnessError(f"process {self._agent.pid} outlives SIGKILL by {KILL_SECONDS:g} s; see its /proc stack")
        if self._cgroup:
            self._cgroup.remove()
            self._cgroup = None
        if self._owns_disk and self.zones.root.is_dir():
            _empty(self.zones.root)
            self.zones.root.rmdir()

    def make_zones(self) -> None:
        """Make the zones that are not there yet."""
        for zone in (self.zones.durable, self.zones.workspace, self.zones.tmp, self.zones.assets):
            zone.mkdir(parents=True, exist_ok=True)


def written_bytes(pid: int) -> int:
    """Return the bytes that the process caused to be written so far; 0 if it is gone."""
    try:
        lines = Path(f"/proc/{pid}/io").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("write_bytes:")), 0)


def _try_put(path: Path, text: str) -> None:
    """Write to a file of a process that may be gone meanwhile."""
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        cgroup.put(path, text)


def _empty(top: Path) -> int:
    """Remove everything in *top*, whatever its modes and however deep; return how many entries that were."""
    lost = 0
    while entries := list(os.scandir(top)):  # again for what was moved up
        lost += sum(_remove(entry, top, depth=1) for entry in entries)
    return lost


def _remove(entry: os.DirEntry[str], top: Path, depth: int) -> int:
    if not entry.is_dir(follow_symlinks=False):
        os.unlink(entry.path)
        return 1
    if not os.access(entry.path, os.R_OK | os.W_OK | os.X_OK):
        os.chmod(entry.path, 0o700)
    if depth > DEEP:
        os.rename(entry.path, top / f".deep-{entry.inode()}")
        return 0
    lost = sum(_remove(below, top, depth + 1) for below in list(os.scandir(entry.path)))
    os.rmdir(entry.path)
    return lost + 1
