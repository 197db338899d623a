"""One kept-alive HTTP connection to the world, with bounded retries. No SDK: importing one costs 1.5 s a start."""

from __future__ import annotations

import http.client
import time
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

MAX_RETRIES = 8  # a burst of refusals is survived, an outage is reported within seconds
MAX_WAIT_SECONDS = 20.0  # the most that a Retry-After can make us wait
FIRST_WAIT_SECONDS = 0.05  # without a Retry-After; doubles, no jitter: runs must be alike
LONGEST_OWN_WAIT_SECONDS = 1.0
TIMEOUT_SECONDS = 60.0  # a held reply is the harness's way of placing a fault: do not give up early
RETRIED = frozenset({408, 429, 500, 502, 503, 504, 529})


class Unavailable(Exception):
    """The other side refused or did not answer, retries included."""


@dataclass(frozen=True)
class Response:
    status: int
    body: bytes


class Endpoint:
    """The endpoint at *url*; *headers* go with every request."""

    def __init__(self, url: str, headers: Mapping[str, str]) -> None:
        parts = urlsplit(url)
        if not parts.hostname:
            raise ValueError(f"not the URL of an endpoint: {url!r}")
        self._path = parts.path.rstrip("/")
        self._headers = {"Content-Type": "application/json", **headers}
        kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        self._connection = kind(parts.hostname, parts.port, timeout=TIMEOUT_SECONDS)

    def post(self, path: str, body: bytes, headers: Mapping[str, str], *, repeatable: bool = True) -> Response:
        """Return the response; refusals that ask for it are retried.

        Args:
            repeatable: whether to ask again after the connection broke. Without an idempotency key that is a gamble:
                the effect may have happened and only the answer is lost.
        """
        for attempt in range(MAX_RETRIES + 1):
            if not repeatable:
                self._connection.close()  # an idle connection may break under us, and we could not tell
            wait = min(FIRST_WAIT_SECONDS * 2**attempt, LONGEST_OWN_WAIT_SECONDS)
            try:
                self._connection.request(
                    "POST", self._path + path, body, {**self._headers, **headers, "x-retry-count": str(attempt)}
                )
                answer = self._connection.getresponse()
                response = Response(answer.status, answer.read())
            except (http.client.HTTPException, OSError) as error:
                self._connection.close()
                problem = f"no answer ({type(error).__name__})"
                if not repeatable:
                    raise Unavailable(problem) from error
            else:
                if response.status not in RETRIED:
                    return response
                problem = f"status {response.status}"
                wait = _retry_after(answer, wait)
            if attempt < MAX_RETRIES:
                time.sleep(min(wait, MAX_WAIT_SECONDS))
        raise Unavailable(f"{problem} after {MAX_RETRIES} retries")

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


def _retry_after(answer: http.client.HTTPResponse, default: float) -> float:
    """Return the seconds that the other side asks us to wait."""
    for name, scale in (("Retry-After-Ms", 1000.0), ("Retry-After", 1.0)):
        try:
            return max(0.0, float(answer.headers[name]) / scale)
        except (TypeError, ValueError):  # absent, or a date
            continue
    return default
