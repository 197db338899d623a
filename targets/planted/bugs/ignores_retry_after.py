"""The client has a back-off of its own, and does not read what it is told."""

from __future__ import annotations

from http.client import HTTPResponse

from chaos.targets.planted.catch import COMMIT, Catch
from chaos.targets.planted.driver import Driver
from chaos.targets.reference.model import Model
from chaos.targets.reference.wire import Endpoint

CATCH = Catch(
    f"rate_limit@{COMMIT}/before_think",
    "retries",
    "s after a 429 that said 0.3 s",
    fault={"kind": "rate_limit", "requests": 2, "retry_after": "300ms"},
)


class IgnoresRetryAfter(Driver):
    """Asks again when its own back-off says so, however long it was told to wait.

    In real agents: a retry decorator around the call, which sees an exception and no headers. The provider counts the
    early requests too, and the limit lasts longer.
    Exposed by `rate_limit` with a wait longer than the back-off. Must be caught by `retries` (asked too early).
    """

    def client(self) -> type[Model]:
        return _Model


class _Deaf(Endpoint):
    def told(self, answer: HTTPResponse) -> float | None:
        return None


class _Model(Model):
    endpoint = _Deaf
