"""A sandbox whose first incarnation was captured: it stands at its point until it is killed; the next one is real."""

from __future__ import annotations

import signal
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from chaos.errors import HarnessError
from chaos.events.seen import Observation
from chaos.sandbox import Sandbox, Watch
from chaos.sandbox.syscalls import Calls, Holder


class Captured:
    """*sandbox* with an agent that stands there only as a capture: nothing but SIGKILL can be done to it.

    Args:
        pid: the number that the captured agent had.
        written_bytes: what it had written when it was captured.
        look: observes the sandbox of a live agent.
    """

    def __init__(
        self, sandbox: Sandbox, pid: int, written_bytes: int, look: Callable[[Sandbox, Watch], Observation]
    ) -> None:
        self.zones = sandbox.zones
        self._sandbox, self._pid, self._written, self._look = sandbox, pid, written_bytes, look
        self._began = False
        self._status: int | None = None

    @property
    def hostname(self) -> str:
        return self._sandbox.hostname

    @hostname.setter
    def hostname(self, name: str) -> None:
        self._sandbox.hostname = name

    @property
    def pid(self) -> int:
        return self._sandbox.pid if self._began else self._pid

    @property
    def cgroups(self) -> tuple[Path, ...]:
        return self._sandbox.cgroups

    def make_zones(self) -> None:
        self._sandbox.make_zones()

    def start(self, command: Sequence[str], env: Mapping[str, str], warm: Sequence[str] = ()) -> int:
        if not self._began and self._status is None:
            raise HarnessError("the captured agent has not been ended")
        self._began = True
        return self._sandbox.start(command, env, warm)

    def hold(self, calls: Calls) -> None:
        """Hold the system calls of the incarnations that follow."""
        if not isinstance(self._sandbox, Holder):
            raise HarnessError(f"a {type(self._sandbox).__name__} does not hold system calls")
        self._sandbox.hold(calls)

    def wait(self, timeout: float | None) -> int | None:
        return self._sandbox.wait(timeout) if self._began else self._status

    def signal(self, number: int) -> None:
        if self._began:
            self._sandbox.signal(number)
        elif number == signal.SIGKILL:
            self.kill()
        else:
            raise HarnessError(f"a captured agent cannot be sent signal {number}: it has no memory to answer with")

    def stop(self) -> tuple[int, ...]:
        return self._sandbox.stop() if self._began else self._alive()

    def resume(self) -> None:
        if self._began:
            self._sandbox.resume()
        else:
            self._alive()

    def kill(self) -> None:
        if self._began:
            self._sandbox.kill()
        else:
            self._status = -signal.SIGKILL

    def oom_kill(self, limit_bytes: int | None) -> tuple[int, int, int, int]:
        if not self._began:
            self._alive()
        return self._sandbox.oom_kill(limit_bytes)

    def oom_kills(self) -> int:
        return self._sandbox.oom_kills()

    def written_bytes(self) -> int:
        return self._sandbox.written_bytes() if self._began else self._written

    def wipe(self) -> int:
        return self._sandbox.wipe()

    def rename_host(self, hostname: str) -> None:
        self._sandbox.rename_host(hostname)

    def observe(self, watch: Watch) -> Observation:
        return self._look(self._sandbox, watch)

    def run(
        self, command: Sequence[str], env: Mapping[str, str], warm: Sequence[str], timeout: float
    ) -> tuple[int, bytes, bytes]:
        return self._sandbox.run(command, env, warm, timeout)

    def log(self) -> str:
        return self._sandbox.log() if self._began else ""

    def close(self) -> None:
        self._sandbox.close()

    def _alive(self) -> tuple[int, ...]:
        raise HarnessError("a captured agent is not alive: only its death can be derived")
