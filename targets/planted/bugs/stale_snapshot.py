"""The newest checkpoint by name is not the newest."""

from __future__ import annotations

from pathlib import Path

from chaos.targets.planted.catch import PAYMENT, Catch
from chaos.targets.planted.driver import Driver

CATCH = Catch(
    f"kill@{PAYMENT}/before_act",
    "recovery",
    "2 steps lost by a crash; allowed: 1",
    verdict="recovered with loss",
)


class StaleSnapshot(Driver):
    """Keeps a file for each step and resumes from the last one by name: "9" comes after "10".

    In real agents: `sorted(glob("step-*"))[-1]`, right for the first ten steps, which is as long as the test runs.
    Exposed by `kill` two steps after the tenth. Must be caught by `recovery` (steps lost).
    """

    def place(self, number: int) -> Path:
        return self.zones.durable / f"checkpoint-{number}.json"

    def newest(self) -> Path | None:
        return max(self.zones.durable.glob("checkpoint-*.json"), default=None)
