"""The client asks again at once."""

from __future__ import annotations

from chaos.targets.planted.catch import COMMIT, Catch
from chaos.targets.planted.driver import Driver
from chaos.targets.reference.model import Model
from chaos.targets.reference.wire import Endpoint

CATCH = Catch(
    f"overloaded@{COMMIT}/before_think",
    "retries",
    "retry storm: 5 requests for turn 9",
    fault={"kind": "overloaded", "requests": 5},
)


class RetryStorm(Driver):
    """Tries again without a pause where nobody says when to come back.

    In real agents: `for attempt in range(n): try ... except: continue`, or `max_retries` set and the back-off not.
    With a thousand clients it is what keeps an overload going.
    Exposed by `overloaded` without Retry-After. Must be caught by `retries` (storm).
    """

    def client(self) -> type[Model]:
        return _Model


class _Hasty(Endpoint):
    def pause(self, attempt: int, told: float | None) -> None:
        if told is not None:
            super().pause(attempt, told)


class _Model(Model):
    endpoint = _Hasty
