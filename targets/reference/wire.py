"""One kept-alive HTTP connection to the world, with bounded retries. No SDK: importing one costs 1.5 s a start."""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http.client import HTTPResponse
from pathlib import Path
from typing import TypeVar
from urllib.parse import urlsplit

T = TypeVar("T")

MAX_RETRIES = 8  # a burst of refusals is survived, an outage is reported within seconds
MAX_WAIT_SECONDS = 20.0  # whoever is told to wait longer says so and stops, and does not ask too early
FIRST_WAIT_SECONDS = 0.05  # without a Retry-After; doubles, no jitter: runs must be alike
LONGEST_OWN_WAIT_SECONDS = 1.0
TIMEOUT_SECONDS = 60.0  # a held reply is the harness's way of placing a fault: do not give up early
RETRIED = frozenset({408, 429, 500, 502, 503, 504, 529})
FINAL = frozenset({"insufficient_quota"})  # codes of refusals that no waiting changes
WAIT_FILE = "retry-after"
"""In the durable folder while a wait is on: until when, in seconds since 1970."""


class Unavailable(Exception):
    """The other side refused or did not answer, retries included."""


class Garbled(Exception):
    """An answer came and is not whole, or makes no sense: nothing can be concluded from it."""


@dataclass(frozen=True)
class Response:
    status: int
    body: bytes


class Endpoint:
    """The endpoint at *url*; *headers* go with every request.

    Args:
        timeout: seconds without a byte after which a request has failed.
        waits: file that remembers over a crash until when the endpoint asked us to wait; None to forget it.
    """

    def __init__(
        self, url: str, headers: Mapping[str, str], timeout: float = TIMEOUT_SECONDS, waits: Path | None = None
    ) -> None:
        parts = urlsplit(url)
        if not parts.hostname:
            raise ValueError(f"not the URL of an endpoint: {url!r}")
        self._path = parts.path.rstrip("/")
        self._headers = {"Content-Type": "application/json", **headers}
        self._waits = waits
        kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        self._connection = kind(parts.hostname, parts.port, timeout=timeout)

    def post(self, path: str, body: bytes, headers: Mapping[str, str], *, repeatable: bool = True) -> Response:
        """Return the response; refusals that ask for it are retried (see `ask`)."""
        return self.ask(path, body, headers, lambda answer: Response(answer.status, answer.read()), repeatable)

    def ask(
        self,
        path: str,
        body: bytes,
        headers: Mapping[str, str],
        read: Callable[[HTTPResponse], T],
        repeatable: bool = True,
        again: Callable[[], None] = lambda: None,
    ) -> T:
        """Return what *read* makes of the answer; it raises Garbled where the request should be made again.

        Args:
            again: called when the request is about to be made again, before the wait for it.
            repeatable: whether to ask again after the connection broke. Without an idempotency key that is a gamble:
                the effect may have happened and only the answer is lost.
        """
        self._resume_wait()
        problem = ""
        for attempt in range(MAX_RETRIES + 1):
            if not repeatable:
                self._connection.close()  # an idle connection may break under us, and we could not tell
            told = None
            try:
                tried = {"x-retry-count": str(attempt)}
                self._connection.request("POST", self._path + path, body, {**self._headers, **headers, **tried})
                answer = self._connection.getresponse()
                if answer.status not in RETRIED:
                    return read(answer)
                problem, told = f"status {answer.status}", self.told(answer)
                if code := _final(answer.read()):
                    raise Unavailable(f"status {answer.status}: {code}")
            except Garbled as error:
                self._connection.close()
                problem = str(error)
            except (http.client.HTTPException, OSError) as error:
                self._connection.close()
                problem = f"no answer ({type(error).__name__})"
                if not repeatable:
                    raise Unavailable(problem) from error
            if attempt < MAX_RETRIES:
                self._remember(told)
                again()
                self.pause(attempt, told)
                self._forget()
        raise Unavailable(f"{problem} after {MAX_RETRIES} retries")

    def pause(self, attempt: int, told: float | None) -> None:
        """Wait before the request is made again: as long as *told*, else longer after each *attempt* (from 0)."""
        _wait(min(FIRST_WAIT_SECONDS * 2**attempt, LONGEST_OWN_WAIT_SECONDS) if told is None else told)

    def told(self, answer: HTTPResponse) -> float | None:
        """Return the seconds that the other side asks us to wait, None if it asks for nothing."""
        return retry_after(answer)

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def _resume_wait(self) -> None:
        """Wait for what is left of a wait that a crash cut off."""
        if self._waits is not None and self._waits.exists():
            try:
                until = float(self._waits.read_text())
            except ValueError:  # the crash came while it was written
                until = 0.0
            _wait(max(0.0, until - time.time()))
            self._forget()

    def _remember(self, told: float | None) -> None:
        if self._waits is not None and told:
            self._waits.write_text(str(time.time() + told))

    def _forget(self) -> None:
        if self._waits is not None:
            self._waits.unlink(missing_ok=True)


def _wait(seconds: float) -> None:
    if seconds > MAX_WAIT_SECONDS:
        raise Unavailable(f"asked to wait for {seconds:.0f} s; {MAX_WAIT_SECONDS:.0f} s are the most")
    time.sleep(seconds)


def retry_after(answer: HTTPResponse) -> float | None:
    """Return the seconds that the headers of *answer* name, None if they name none."""
    for name, scale in (("Retry-After-Ms", 1000.0), ("Retry-After", 1.0)):
        try:
            return max(0.0, float(answer.headers[name]) / scale)
        except (TypeError, ValueError):  # absent, or a date
            continue
    return None


def error_code(body: bytes) -> str:
    """Return the code of the error in *body*, "" if it has none."""
    try:
        return str(json.loads(body)["error"]["code"] or "")
    except (KeyError, TypeError, ValueError):
        return ""


def _final(body: bytes) -> str:
    """Return the code of a refusal that no waiting changes, "" of any other."""
    code = error_code(body)
    return code if code in FINAL else ""
