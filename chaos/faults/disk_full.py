"""The disk is full, for a while: every call that needs another block fails with ENOSPC."""

from __future__ import annotations

import errno
import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from threading import Timer
from typing import Literal

from chaos.errors import HarnessError
from chaos.events.done import CallFailed, DiskFilled, DiskFreed
from chaos.faults import Plain, Scene, first, hit, off_the_disk
from chaos.journal import AnyEvent
from chaos.leftovers import surely
from chaos.outfit import Outfit
from chaos.results import Landed
from chaos.sandbox import Able, Survival
from chaos.sandbox.processes import descendants
from chaos.sandbox.strace import Trace
from chaos.scenario.units import Seconds
from chaos.stores import Store
from chaos.stretch import every
from chaos.targets import Strategy

LINES_TOLD = 3
NO_SPACE = errno.errorcode[errno.ENOSPC]


@dataclass(frozen=True)
class DiskFull(Plain):
    """A file beside the zones takes all free space of the disk that all of them are on; later it is taken away again.

    A correct agent fails loudly, keeps what it had committed, and goes on when there is room: it comes back in its
    next incarnation, or waits. Going on without what could not be stored is the worst answer.

    `until` is when there is room again: at the agent's next start (`restart`), or `seconds` later, however often it
    was started meanwhile (`seconds`).

    It landed only if the kernel refused the agent a call for want of space: strace, attached while the disk is full,
    has its line. The agent may not need a block; then the fault misses. (At a system call, that call fails, too.)
    """

    until: Literal["restart", "seconds"] = "restart"
    seconds: Seconds = 1.0

    @property
    def survival(self) -> Survival:
        return Survival.NONE

    @property
    def outfit(self) -> Outfit:  # type: ignore[override]
        return Outfit(disk="ext4")

    def missing(self, able: Able) -> str:
        return able.disk_image("ext4") or able.ptrace

    def unsuited(self, store: Store | None, strategy: Strategy) -> str:
        return off_the_disk(strategy)

    def inject(self, scene: Scene) -> None:
        disk = scene.disk
        if disk is None:
            raise HarnessError("the run has no disk of its own that could be filled")
        pid, before = scene.sandbox.pid, disk.free_bytes()
        trace = Trace(disk.home / f"strace-{pid}.log", {pid, *descendants(pid)})
        scene.gate.once_ended(partial(surely, trace.close))
        disk.fill()
        scene.journal.add(DiskFilled, free_before_bytes=before, free_after_bytes=disk.free_bytes())
        if scene.calls is not None and (held := scene.calls.held) is not None:
            scene.calls.fail(held.phase, errno.ENOSPC, times=1)
        give_back = functools.cache(partial(self._give_back, scene, trace))  # once, whoever comes first
        if self.until == "restart":
            scene.gate.once_ended(give_back)
            return
        timer = Timer(self.seconds, give_back)
        timer.start()
        scene.gate.once_ended(lambda: _early(timer, give_back), run=True)  # nobody is left to need it longer

    def _give_back(self, scene: Scene, trace: Trace) -> None:
        assert scene.disk is not None
        scene.disk.free()
        trace.close()
        lines = trace.failures(errno.ENOSPC)
        scene.journal.add(
            DiskFreed, free_bytes=scene.disk.free_bytes(), failed=len(lines), errors=tuple(lines[:LINES_TOLD])
        )

    def landed(self, at: str, after: Sequence[AnyEvent]) -> Landed | None:
        filled, freed = first(after, DiskFilled), first(after, DiskFreed)
        failed = [event for event in every(after, CallFailed) if event.error == NO_SPACE]
        if filled is None or freed is None or not (freed.failed or failed):
            return None
        seen = freed.errors[0] if freed.errors else f"{failed[0].name}: {failed[0].path}"
        return hit(
            "disk_full",
            at,
            "no space was left for a call of the agent",
            free=f"{filled.free_before_bytes} -> {filled.free_after_bytes} -> {freed.free_bytes}",
            failed_calls=freed.failed + len(failed),
            first=seen,
        )


def _early(timer: Timer, give_back: Callable[[], None]) -> None:
    """Do now what the timer would do, unless it has."""
    timer.cancel()
    timer.join()
    give_back()
