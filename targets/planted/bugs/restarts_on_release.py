"""A checkpoint of another release is no checkpoint."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import cast

from chaos.targets.planted.catch import COMMIT, Catch
from chaos.targets.planted.driver import Driver, Kept
from chaos.targets.reference.release import current

CATCH = Catch(
    f"changed_code@{COMMIT}/before_act",
    "effects",
    "email.send happened 2 times instead of once",
    fault={"kind": "changed_code", "what": "prompt"},
    breaks=frozenset({"recovery"}),
)


class RestartsOnRelease(Driver):
    """Writes its release into each checkpoint, and begins anew when it finds one of another release.

    In real agents: `if saved["version"] != VERSION: saved = None`, so that no old format can do harm; or the name of
    the thread, the queue or the table has the version in it.
    Exposed by `changed_code` once something was done that must not be done twice. Must be caught by `effects`.
    """

    def save(self, path: Path, kept: Kept, between: Callable[[], None]) -> None:
        super().save(path, cast(Kept, {**kept, "release": current()}), between)

    def read(self) -> Kept | None:
        kept = super().read()
        return kept if kept and dict(kept)["release"] == current() else None
