"""A lock that only a proper end takes away."""

from __future__ import annotations

from chaos.targets.planted.catch import COMMIT, Catch
from chaos.targets.planted.driver import Driver

LOCK = "agent.lock"

CATCH = Catch(
    f"kill@{COMMIT}/before_think",
    "finishes",
    "refused to resume: RuntimeError: another instance is running",
    verdict="refused",
)


class LockLeftBehind(Driver):
    """Makes a lock file when it starts and removes it when it ends; killed, it has locked itself out.

    In real agents: `if lock.exists(): sys.exit("another instance is running")`, a `status = 'running'` in a table, a
    lease without an end. The operator who removes it by hand becomes part of the recovery.
    Exposed by `kill` at any point. Must be caught by `finishes` (refused to resume).
    """

    def run(self) -> None:
        lock = self.zones.durable / LOCK
        try:
            lock.touch(exist_ok=False)
        except FileExistsError:
            raise RuntimeError("another instance is running") from None
        try:
            super().run()
        finally:
            lock.unlink()
