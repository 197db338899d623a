"""The host loses its power: every process is gone, and so is what was written and not synced."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from chaos.errors import HarnessError
from chaos.events.done import PowerLost
from chaos.events.seen import Exited
from chaos.faults import Plain, Scene, first, hit, off_the_disk
from chaos.journal import AnyEvent
from chaos.outfit import Outfit
from chaos.results import Landed
from chaos.sandbox import Able, Survival
from chaos.stores import Store
from chaos.targets import Strategy

NAMES_TOLD = 10  # paths in the event: enough to see which file it was


@dataclass(frozen=True)
class PowerLoss(Plain):
    """The tree is killed, and the file system under all zones is stopped and mounted again: un-synced writes are lost.

    A correct agent finds in its store all that it said was committed, or at least a whole earlier state: a file is
    durable after its fsync, and its name after the fsync of its folder. Files in the workspace that nobody synced
    may be gone, short or empty, and have to be made again.

    The zones are on an image with the file system `fs`; the power goes by its own shutdown ioctl, nothing flushed.
    What the kernel had written back by itself before (after 30 s at the latest) is kept, as after any power loss;
    so one that loses nothing has landed, too, and says that it lost nothing.
    """

    fs: Literal["ext4", "xfs"] = "ext4"

    @property
    def survival(self) -> Survival:
        return Survival.POWER

    @property
    def outfit(self) -> Outfit:  # type: ignore[override]
        return Outfit(disk=self.fs)

    def missing(self, able: Able) -> str:
        return able.disk_image(self.fs)

    def unsuited(self, store: Store | None, strategy: Strategy) -> str:
        return off_the_disk(strategy)

    def inject(self, scene: Scene) -> None:
        if scene.disk is None:
            raise HarnessError("the run has no disk of its own whose power could be cut")
        scene.end_by_kill()
        loss = scene.disk.lose_power()
        scene.journal.add(
            PowerLost,
            filesystem=scene.disk.kind,
            refused=loss.refused,
            files=loss.before,
            lost_files=len(loss.lost),
            changed_files=len(loss.changed),
            reappeared_files=len(loss.reappeared),
            lost_bytes=loss.bytes,
            paths=(loss.lost + loss.changed + loss.reappeared)[:NAMES_TOLD],
        )

    def landed(self, at: str, after: Sequence[AnyEvent]) -> Landed | None:
        cut, exited = first(after, PowerLost), first(after, Exited)
        if cut is None or exited is None or exited.status != -signal.SIGKILL or not cut.refused:
            return None
        touched = cut.lost_files + cut.changed_files + cut.reappeared_files
        return hit(
            "power_loss",
            at,
            f"power cut on {cut.filesystem}" if touched else f"power cut on {cut.filesystem}, nothing was un-synced",
            status=exited.status,
            refused=cut.refused,
            lost_files=cut.lost_files,
            changed_files=cut.changed_files,
            reappeared_files=cut.reappeared_files,
            lost_bytes=cut.lost_bytes,
            paths=", ".join(cut.paths),
        )
