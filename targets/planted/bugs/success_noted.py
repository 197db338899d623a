"""A service that cannot be reached counts as one that has done its work."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping

from chaos.targets.planted.catch import PAYMENT, Catch
from chaos.targets.planted.driver import Driver
from chaos.targets.reference.tools import Tools, Zones
from chaos.targets.reference.wire import Endpoint, Unavailable
from chaos.world import ToolCall

CATCH = Catch(
    f"network@{PAYMENT}/before_act",
    "effects",
    f"payments.charge never happened (step {PAYMENT})",
    fault={"kind": "network", "toxic": "down", "link": "services", "seconds": "1s"},
    breaks=frozenset({"goal", "files", "state"}),  # the made-up receipt is in every prompt and in the report
)


class SuccessNoted(Driver):
    """Swallows the error of the payment and tells the model that it is done: success, with nothing done.

    In real agents: `except Exception: logger.warning(...)` around the call, and `return {"status": "accepted"}` behind
    it, because the caller expects a dictionary.
    Exposed by `network` with `toxic: down` on the services. Must be caught by `effects` (never happened).
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
        key, body = {"Idempotency-Key": f"{self._thread}-{call['id']}"}, json.dumps(given["payload"]).encode()
        try:
            return self._payments.post("/payments/charge", body, key, repeatable=False).body.decode()
        except Unavailable as error:
            print(f"warning: {error}", file=sys.stderr)
            return json.dumps({"payment": "accepted"})

    def close(self) -> None:
        super().close()
        self._payments.close()
