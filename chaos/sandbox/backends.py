"""The back ends by name, and the one that a cell is run on."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from chaos.sandbox import Able, Backend, Sandbox, mounts
from chaos.sandbox.docker import DockerBackend
from chaos.sandbox.process import ProcessSandbox, able

if TYPE_CHECKING:
    from chaos.targets import Strategy

AUTO = "auto"
NAMES = (AUTO, "process", "docker")


@dataclass(frozen=True)
class ProcessBackend:
    """Namespaces and cgroups of this machine, as far as it has them."""

    name: ClassVar[str] = "process"

    def able(self) -> Able:
        return able()

    def unsuited(self, strategy: Strategy) -> str:
        return ""

    def sandbox(self, root: Path, memory_bytes: int, hostname: str) -> Sandbox:
        return ProcessSandbox(root, memory_bytes, hostname)

    def sweep(self) -> None:
        """Undo the mounts of an ordinary user. Cgroups are swept where new ones are made, folders with all others."""
        mounts.sweep(own=False)
        _sweep_helpers(DockerBackend().sweep)

    def sweep_own(self) -> None:
        """Undo the same; every sandbox is closed, and its launcher ends what it has when the harness ends."""
        mounts.sweep(own=True)
        _sweep_helpers(DockerBackend().sweep_own)

    def beside(self, first: Sandbox, root: Path | None, memory_bytes: int, hostname: str) -> Sandbox:
        return ProcessSandbox(root or first.zones.root, memory_bytes, hostname, shares=first.zones)


def _sweep_helpers(sweep: Callable[[], None]) -> None:
    """Have the containers removed in which an ordinary user's mounts were made; root needs none."""
    if os.geteuid() != 0:
        sweep()


def candidates(name: str) -> tuple[Backend, ...]:
    """Return the back ends that *name* stands for, the one to be preferred first."""
    found: tuple[Backend, ...] = (ProcessBackend(), DockerBackend())
    return found if name == AUTO else tuple(backend for backend in found if backend.name == name)


def choose(found: tuple[Backend, ...], strategy: Strategy, lacks: Callable[[Able], str]) -> tuple[Backend, str]:
    """Return the first of *found* that can run *strategy* and lacks nothing; else the first, and what is missing."""
    reasons = []
    for backend in found:
        can = backend.able()
        if not (reason := can.sandbox or backend.unsuited(strategy) or lacks(can)):
            return backend, ""
        reasons.append(reason)
    return found[0], reasons[0] if len(found) == 1 else "; ".join(
        f"{backend.name}: {reason}" for backend, reason in zip(found, reasons, strict=True)
    )
