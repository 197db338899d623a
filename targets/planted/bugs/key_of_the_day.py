"""The idempotency key has the date in it."""

from __future__ import annotations

from datetime import date

from chaos.targets.planted.catch import PAYMENT, Catch
from chaos.targets.planted.driver import Driver
from chaos.targets.reference.tools import Tools
from chaos.world import ToolCall

CATCH = Catch(
    f"clock_jump@{PAYMENT}/after_act",
    "effects",
    "payments.charge happened 2 times instead of once",
    # two days: whatever time it is, the date is another one
    fault={"kind": "clock_jump", "direction": "back", "seconds": "48h", "with_kill": True},
)


class KeyOfTheDay(Driver):
    """Makes keys from the call and the date: who comes back on another day, or under another clock, pays again.

    In real agents: `f"{customer}-{date.today()}"`, so that the same order may come again tomorrow; a number that is
    counted by the clock. It holds in every test that does not run over midnight.
    Exposed by `clock_jump` with a kill at `after_act` of the payment; a kill alone is harmless. Must be caught by
    `effects` (duplicated).
    """

    def make_tools(self) -> Tools:
        return _Tools(self.zones, self.thread, self.env)


class _Tools(Tools):
    def act(self, call: ToolCall) -> str:
        thread, self._thread = self._thread, f"{self._thread}-{date.today()}"
        try:
            return super().act(call)
        finally:
            self._thread = thread
