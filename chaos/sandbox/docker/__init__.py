"""The Docker back end: every sandbox is a container. It needs the engine's socket, and no privilege besides."""

from __future__ import annotations

import functools
import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from chaos.errors import HarnessError
from chaos.sandbox import Able, Sandbox

if TYPE_CHECKING:
    from chaos.targets import Strategy

SOCKET = Path("/var/run/docker.sock")


def reachable() -> bool:
    """Tell whether there may be an engine, before its SDK is imported, which takes a while."""
    return SOCKET.exists() or bool(os.environ.get("DOCKER_HOST"))


@dataclass(frozen=True)
class DockerBackend:
    """Containers of this machine's Docker engine, from an image that is made here: nothing is pulled."""

    name: ClassVar[str] = "docker"

    def able(self) -> Able:
        return _able(os.environ.get("DOCKER_HOST", ""))

    def unsuited(self, strategy: Strategy) -> str:
        if not strategy.outside:
            return ""
        kind = type(strategy).__name__
        return f"{kind} works on zones and processes of this machine, not of a container; use --chaos-backend process"

    def sandbox(self, root: Path, memory_bytes: int, hostname: str) -> Sandbox:
        from chaos.sandbox.docker.sandbox import DockerSandbox

        return DockerSandbox(root, memory_bytes, hostname)

    def beside(self, first: Sandbox, root: Path | None, memory_bytes: int, hostname: str) -> Sandbox:
        from chaos.sandbox.docker.sandbox import DockerSandbox

        if root is None:
            raise HarnessError("two containers cannot have one disk; use --chaos-backend process for that")
        assert isinstance(first, DockerSandbox)
        return DockerSandbox(root, memory_bytes, hostname, first)

    def sweep(self) -> None:
        self._sweep(own=False)

    def sweep_own(self) -> None:
        self._sweep(own=True)

    def _sweep(self, own: bool) -> None:
        """Have the engine remove what is left, if there is one; what it refuses, the next harness tries again."""
        if not reachable():
            return
        from chaos.sandbox.docker import engine

        if not engine.unreachable():
            with suppress(HarnessError):
                (engine.sweep_own if own else engine.sweep)()


@functools.cache
def _able(host: str) -> Able:
    from chaos.sandbox.docker import trial

    return trial.able()
