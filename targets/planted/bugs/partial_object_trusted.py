"""What is there is taken for whole."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path

from chaos.probe import point
from chaos.targets.planted.catch import KEEP, LATE, Catch
from chaos.targets.planted.driver import Driver
from chaos.targets.reference.agent import State
from chaos.targets.reference.snapshot import Snapshots, digest_of

CATCH = Catch(
    f"kill@{KEEP}/during_commit+evict@{LATE}/before_think",
    "finishes",
    "the stored content of control-sum is damaged",
    fault={"kind": "kill", "then": [{"kind": "evict", "grace": "0s"}]},
    verdict="refused",
)


class PartialObjectTrusted(Driver):
    """Stores each file under its digest, in place, and stores nothing where there is such a file already.

    In real agents: `if not path.exists(): download(path)`; a cache, an upload or a result that is "skipped if present".
    Killed in the middle, half of it is present for ever, and is missed when the disk that has the original is lost.
    Exposed by `kill` at `during_commit` of a step that wrote a file, and a later `evict`; either alone is harmless.
    Must be caught by `finishes` (refused to resume: the stored content is damaged).
    """

    def commit(self, number: int, state: State) -> None:
        self.snapshots = _Snapshots(
            self.zones.durable / "objects", self.folders(), lambda: point("during_commit", number)
        )
        super().commit(number, state)


class _Snapshots(Snapshots):
    def __init__(self, objects: Path, folders: Mapping[str, Path], between: Callable[[], None]) -> None:
        super().__init__(objects, folders)
        self._between = between

    def _stored(self, path: str, source: str, about: os.stat_result) -> str:
        digest = digest_of(Path(source))
        place, content = self._objects / digest, Path(source).read_bytes()
        if not place.exists():
            with open(place, "wb") as file:
                file.write(content[: len(content) // 2])
                file.flush()
                self._between()
                file.write(content[len(content) // 2 :])
        return digest
