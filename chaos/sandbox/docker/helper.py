"""Root by way of the engine: tools that must be root's, run for a user who is not, in our own mount namespace.

Who may use the engine's socket is root on this machine in all but name. One container per harness does nothing but
wait for the harness's end; a tool is run in it, and enters our mount namespace first, so that what it mounts is there
for us and ours. The container is not privileged: it has the capabilities and devices that mounting and tracing need.
"""

from __future__ import annotations

import functools
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Sequence
from typing import Any

from chaos.errors import HarnessError
from chaos.sandbox.docker import engine, reachable
from chaos.sandbox.docker.exposed import SYSTEM
from chaos.sandbox.mounts import COMMAND_SECONDS, ENVIRONMENT, SEARCH

# To mount and shut down; to enter our namespace and attach strace; to reach and give away what is the user's.
CAPABILITIES = ("SYS_ADMIN", "SYS_CHROOT", "SYS_PTRACE", "DAC_OVERRIDE", "CHOWN", "FOWNER", "KILL")
LOOP_DEVICES = ("b 7:* rwm", "c 10:237 rwm")  # linux/Documentation/admin-guide/devices.txt
UNCONFINED = ("apparmor=unconfined", "seccomp=unconfined", "label=disable")  # the profiles forbid mounts
WAIT = 'while [ -e "/proc/$0" ]; do sleep 1; done'  # for the harness's end, killed or not; the engine removes it then
POLL_SECONDS = 0.01
GONE = (404, 409)  # the engine's answers: no such container; it does not run


def missing() -> str:
    """Return what keeps us from running a tool as root through Docker, and the remedy; "" if nothing."""
    if not reachable():
        return "no Docker here; install docker.io and add the user to the group docker"
    if reason := engine.unreachable():
        return reason
    try:
        command("true")
    except HarnessError as error:
        return str(error)
    return ""


def command(*words: str | os.PathLike[str]) -> str:
    """Run a tool as root and return what it printed.

    Raises:
        HarnessError: the engine cannot, or the tool failed; with what it said.
    """
    text = " ".join(os.fspath(word) for word in words)
    with engine.asking(f"run {text}"):
        api, made = engine.client().api, _prepared(words)
        try:
            output = api.exec_start(made)
        except BaseException:  # an interrupt, say: what is being mounted must be there before it can be unmounted
            _await_end(made, COMMAND_SECONDS)
            raise
        status = api.exec_inspect(made)["ExitCode"]
    said = output.decode(errors="replace")
    if status:
        raise HarnessError(f"{text} failed: {said.strip()}")
    return str(said)


class Program:
    """A tool that runs as root until it is ended, with the names of a Popen; *said*: descriptor for its errors."""

    def __init__(self, words: Sequence[str], said: int) -> None:
        target = f"/proc/{os.getpid()}/fd/{said}"
        with engine.asking(f"run {words[0]}"):
            self._made = _prepared(("sh", "-c", 'exec "$@" 2>"$0"', target, *words))
            engine.client().api.exec_start(self._made, detach=True)
            self._pid = int(engine.client().api.exec_inspect(self._made)["Pid"])

    def poll(self) -> int | None:
        """Return its status once it ended."""
        with engine.asking("tell about a program"):
            state: dict[str, Any] = engine.client().api.exec_inspect(self._made)
        return None if state["Running"] else int(state["ExitCode"] or 0)

    def send_signal(self, number: int) -> None:
        """Signal it, unless it ended."""
        if self.poll() is None:
            command("kill", f"-{number}", str(self._pid))

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def wait(self, timeout: float = COMMAND_SECONDS) -> int:
        """Return its status.

        Raises:
            TimeoutExpired: it did not end within *timeout* s.
        """
        if not _await_end(self._made, timeout):
            raise subprocess.TimeoutExpired("a program in a container", timeout)
        return self.poll() or 0


def _await_end(made: str, seconds: float) -> bool:
    """Wait until the program *made* does not run, for *seconds* at most, and tell whether it does not."""
    deadline = time.monotonic() + seconds
    while engine.client().api.exec_inspect(made)["Running"]:
        if time.monotonic() > deadline:
            return False
        time.sleep(POLL_SECONDS)
    return True


def _prepared(words: Sequence[str | os.PathLike[str]]) -> str:
    """Return the engine's number of an execution of *words*; the container is made if it is not there (any more)."""
    from docker.errors import APIError

    pid = os.getpid()
    entered = [_nsenter(), "--target", str(pid), "--mount", "--", *(os.fspath(word) for word in words)]
    try:
        return _execution(_container(pid), entered)
    except APIError as error:
        if error.status_code not in GONE:
            raise
        _container.cache_clear()
        return _execution(_container(pid), entered)


def _execution(name: str, words: Sequence[str]) -> str:
    return str(engine.client().api.exec_create(name, words, environment=ENVIRONMENT)["Id"])


def _nsenter() -> str:
    if found := shutil.which("nsenter", path=SEARCH):
        return os.path.realpath(found)
    raise HarnessError("no nsenter on the PATH: apt-get install util-linux")


@functools.cache
def _container(pid: int) -> str:
    """Return the name of the container that waits for the end of process *pid*, ours; it is started here.

    Raises:
        HarnessError: its processes are not those of our machine: *pid* would be somebody else there.
    """
    from docker.types import Mount

    name = engine.new_name()
    made = engine.client().containers.create(
        engine.image(),
        ["sh", "-c", WAIT, str(pid)],
        name=name,
        user="0:0",
        labels={engine.LABEL: engine.owner()},
        mounts=[Mount(path, path, "bind", read_only=True) for path in SYSTEM if os.path.exists(path)],
        environment=ENVIRONMENT,
        pid_mode="host",
        network_mode="none",
        userns_mode="host",
        cap_drop=["ALL"],
        cap_add=list(CAPABILITIES),
        device_cgroup_rules=list(LOOP_DEVICES),
        security_opt=list(UNCONFINED),
        log_config={"type": "none"},
        auto_remove=True,
    )
    made.start()
    api = engine.client().api
    theirs = api.exec_start(_execution(name, ["readlink", f"/proc/{pid}/ns/mnt"])).decode(errors="replace").strip()
    if theirs != os.readlink("/proc/self/ns/mnt"):
        engine.remove_container(name)
        raise HarnessError(
            f"root in a container of this engine does not see this process (but {theirs}): rootless, on another "
            "machine, or we are in a container ourselves"
        )
    return name
