"""A payment without an idempotency key."""

from __future__ import annotations

import json
from collections.abc import Mapping

from chaos.targets.planted.catch import PAYMENT, Catch
from chaos.targets.planted.driver import Driver
from chaos.targets.reference.tools import Tools, Zones
from chaos.targets.reference.wire import Endpoint
from chaos.world import ToolCall

CATCH = Catch(f"kill@{PAYMENT}/after_act", "effects", "payments.charge happened 2 times instead of once")


class EffectWithoutKey(Driver):
    """Charges without a key: a kill after the call, before the record, charges again.

    In real agents: one tool was written later, with a bare HTTP client, past the helper that adds the keys.
    Exposed by `kill` at `after_act` of the payment. Must be caught by `effects` (duplicated).
    """

    def make_tools(self) -> Tools:
        return _Tools(self.zones, self.thread, self.env)


class _Tools(Tools):
    def __init__(self, zones: Zones, thread: str, env: Mapping[str, str]) -> None:
        super().__init__(zones, thread, env)
        self._payments = Endpoint(env["CHAOS_SERVICES_URL"], {})

    def act(self, call: ToolCall) -> str:
        given = json.loads(call["function"]["arguments"])
        if given.get("service") != "payments":
            return super().act(call)
        return self._payments.post("/payments/charge", json.dumps(given["payload"]).encode(), {}).body.decode()

    def close(self) -> None:
        super().close()
        self._payments.close()
