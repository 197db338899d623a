"""Every incarnation makes its own idempotency keys."""

from __future__ import annotations

from uuid import uuid4

from chaos.targets.planted.catch import PAYMENT, Catch
from chaos.targets.planted.driver import Driver
from chaos.targets.reference.tools import Tools

CATCH = Catch(f"kill@{PAYMENT}/after_act", "effects", "payments.charge happened 2 times instead of once")


class KeyPerAttempt(Driver):
    """Makes keys from an identifier of the process: retries of one process are recognised, those of the next are not.

    In real agents: the SDK that makes a random key for each request "so that you need not", or a key with the host's
    name, the boot time or the number of the attempt in it.
    Exposed by `kill` at `after_act` of the payment. Must be caught by `effects` (duplicated).
    """

    def make_tools(self) -> Tools:
        return Tools(self.zones, uuid4().hex, self.env)
