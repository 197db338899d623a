"""A write, a sync or a rename in the durable zone fails, as on a disk that is dying."""

from __future__ import annotations

import errno
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from chaos.errors import HarnessError
from chaos.events.done import CallFailed
from chaos.faults import Plain, Scene, hit
from chaos.journal import AnyEvent
from chaos.outfit import Outfit
from chaos.results import Landed
from chaos.sandbox import Able, Survival
from chaos.stores import Store
from chaos.stretch import every
from chaos.targets import Strategy


@dataclass(frozen=True)
class IoError(Plain):
    """The next `times` calls of the kind `syscall` on files below the durable zone fail with `error`, and do nothing.

    A correct agent takes a failed call for what it is: nothing was stored. It says so, loudly, and comes back from
    what it had committed. To call a failed fsync again and believe the second answer is a mistake: the kernel may
    have dropped the data. To go on is a worse one.

    `write` stands for write, pwrite64, writev and their like, `fsync` for fdatasync too, `rename` for renameat and
    renameat2. The kernel holds such calls for the harness, which has them fail: it landed when the kernel took the
    error for the result of a call that the agent was waiting in.
    """

    syscall: Literal["write", "fsync", "rename"] = "fsync"
    error: Literal["EIO", "ENOSPC", "EDQUOT", "EROFS"] = "EIO"
    times: Annotated[int, Field(ge=1)] = 1

    @property
    def survival(self) -> Survival:
        return Survival.NONE

    @property
    def outfit(self) -> Outfit:  # type: ignore[override]
        return Outfit(syscalls=frozenset({self.syscall}))

    def missing(self, able: Able) -> str:
        return able.syscalls

    def unsuited(self, store: Store | None, strategy: Strategy) -> str:
        if store is None:
            return "the strategy stores nothing"
        if strategy.needs:
            return f"the strategy stores in {', '.join(strategy.needs)}, not in files of its own"
        return "its half outside dumps processes, whose system calls must not be held" if strategy.outside else ""

    def inject(self, scene: Scene) -> None:
        if scene.calls is None:
            raise HarnessError("the run's system calls are not held")
        scene.calls.fail(self.syscall, getattr(errno, self.error), self.times)

    def landed(self, at: str, after: Sequence[AnyEvent]) -> Landed | None:
        failed = [event for event in every(after, CallFailed) if event.error == self.error]
        if not failed:
            return None
        return hit(
            "io_error",
            at,
            f"{failed[0].name} failed with {self.error}",
            path=failed[0].path,
            number=failed[0].number,
            failed_calls=len(failed),
        )
