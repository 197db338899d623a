"""The world on a real socket: model endpoints, services, refusals, and what they saw, journalled.

One thread for each connection. An exchange is journalled before its reply is sent, since the reply may get lost.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from email.message import Message as Headers
from functools import partial
from types import TracebackType
from typing import Any, Self

import msgspec

from chaos.events.seen import Asked, Spoiled
from chaos.journal import AnyEvent, Journal
from chaos.world import Brain, Reply, anthropic_messages, openai_chat, refusals, services, turn_of
from chaos.world.delivery import Spoil
from chaos.world.door import Door
from chaos.world.listener import HOST, Response
from chaos.world.malformed import Rendered, malformed, rendered
from chaos.world.mishaps import Cut, Hold, Link, Malform, Mishap, Mishaps, Refuse, Window, end, fits, how
from chaos.world.openai_chat import Completion, Dialect, Malformed, ModelRequest, whole
from chaos.world.refusals import Refusal
from chaos.world.tokens import common, count_prompt, count_reply, counted, digest, prefixes

DUMMY_KEY = "chaos-dummy-key"  # a client that strays to the real provider fails instead of spending
REPLAYED = (("Idempotent-Replayed", "true"),)  # Stripe's mark of a stored answer

_SERVICE_PATH = re.compile(r"/services/([A-Za-z0-9_.-]+)/([A-Za-z0-9_.-]+)")

ENDPOINTS: Mapping[str, Dialect] = {"/v1/chat/completions": openai_chat, "/v1/messages": anthropic_messages}


class Closed(ConnectionError):
    """The world was closed while it worked on a request: nothing is journalled, nobody is answered."""


class World:
    """Everything outside the sandbox of one run, served on a free port of 127.0.0.1.

    Args:
        brain: the scripted model and services.
        journal: receives an Asked for each model request and an Effected for each effect, until `close`.
    """

    def __init__(self, brain: Brain, journal: Journal) -> None:
        self.mishaps = Mishaps()
        self.window = Window()
        self.failure: Exception | None = None
        """The first error of the brain or the journal themselves (not a refusal): the run is a harness error."""
        self.thinking: Callable[[int], None] = lambda turn: None
        """Called with the turn while the model "thinks": before an answer is sent, and not for a refusal."""
        self._brain = brain
        self._journal = journal
        self._services = services.Services(brain, self._add)
        self._lock = threading.RLock()  # the order of the journal is the order in which "new" and "again" are decided
        self._previous: tuple[str, ...] = ()
        self._answered: set[str] = set()
        self._closed = False
        self._doors: list[Door] = []

    def start(self) -> None:
        """Listen; the port is known afterwards."""
        if self._closed or self._doors:
            raise RuntimeError("a world is for one run: make a new one to start again")
        self.open_door()

    def close(self) -> None:
        """Cut all connections and free the port at once; nothing is journalled afterwards."""
        with self._lock:
            self._closed = True
        while self._doors:
            self._doors.pop().close()

    def open_door(self) -> Door:
        """Return another way in, for another agent; `close` closes it."""
        door = Door(self)
        self._doors.append(door)
        return door

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def door(self) -> Door:
        """The way in for the first agent, while started."""
        if not self._doors:
            raise RuntimeError("the world has no port before start() and after close()")
        return self._doors[0]

    @property
    def port(self) -> int:
        """The TCP port of `door`."""
        return self.door.port

    def acting(self, attempt: int) -> AbstractContextManager[None]:
        """Have what this thread has the world see meanwhile belong to *attempt* (see `Journal.acting`)."""
        return self._journal.acting(attempt)

    def env(self, door: Door | None = None) -> dict[str, str]:
        """Return the environment by which an agent, its SDKs and its tools find this world, by its first door."""
        url = f"http://{HOST}:{(door or self.door).port}"
        return {
            "OPENAI_BASE_URL": f"{url}/v1",
            "OPENAI_API_KEY": DUMMY_KEY,
            "ANTHROPIC_BASE_URL": url,
            "ANTHROPIC_API_KEY": DUMMY_KEY,
            "CHAOS_SERVICES_URL": f"{url}/services",
        }

    def respond(self, method: str, path: str, headers: Headers, body: bytes) -> Response:
        """Return the response to one HTTP request; *path* comes without its query."""
        try:
            if dialect := ENDPOINTS.get(path):
                if method != "POST":
                    return self.refuse(path, 405, f"Not allowed to {method} on {path}.")
                return self._ask(path, dialect, headers, body)
            if path == "/v1/models" and method == "GET":
                return Response(200, openai_chat.models())
            if (call := _SERVICE_PATH.fullmatch(path)) and method == "POST":
                served = self._services.call(call[1], call[2], body, headers.get("Idempotency-Key"))
                mishap = self.mishaps.take("services", self._journal.actor, fits)
                spoil = self._spoil("services", path, mishap, served.status, (served.body,)) if mishap else None
                return Response(served.status, served.body, REPLAYED if served.replayed else (), spoil=spoil)
        except Malformed as wrong:
            return self.refuse(path, 400, str(wrong))
        except Closed:
            raise
        except Exception as failure:
            self.failure = self.failure or failure
            return self.refuse(path, 500, f"{type(failure).__name__}: {failure}")
        return self.refuse(path, 404, f"Invalid URL ({method} {path})")

    def refuse(self, path: str, status: int, message: str) -> Response:
        """Return an error in the shape that a client of *path* understands."""
        if path.startswith("/services"):
            kind = "api_error" if status >= 500 else "invalid_request_error"
            return Response(status, services.error(message, kind))
        dialect: Dialect = anthropic_messages if path.startswith("/v1/messages") else openai_chat
        return Response(status, dialect.error(status, message))

    def _ask(self, path: str, dialect: Dialect, headers: Headers, body: bytes) -> Response:
        request = dialect.parse(body)
        seen, tokens_in = prefixes(request.messages), count_prompt(request.messages)
        accounts: dict[str, Any] = {
            "turn": turn_of(self._brain, request.messages),
            "goal": self._brain.goal(request.messages),
            "budget": _account(headers, "x-chaos-budget", request.budget),
            "budget_tokens": _account(headers, "x-chaos-budget-tokens", request.budget_tokens),
            "tokens_in": tokens_in,
            "retry": _retry(headers),
            "style": dialect.STYLE,
            "tools": digest(request.tools) if request.tools else "",
            "release": headers.get("x-chaos-release", ""),
        }
        named = (dialect.REQUEST_ID, f"req_{seen[-1]}")
        if refusal := self._refusal(dialect, tokens_in):
            accounts |= {"refused": refusal.why, "retry_after": refusal.retry_after}
            self._record(request, seen, status=refusal.status, **accounts)
            return Response(refusal.status, refusal.body, (named, *refusal.headers))
        try:
            reply = self._reply(dialect, request)
        except ValueError as wrong:
            self._record(request, seen, status=400, **accounts)
            return Response(400, dialect.error(400, str(wrong)), (named,))
        done = Completion(
            model=request.model,
            prompt=seen[-1],
            reply=reply,
            tokens_in=tokens_in,
            tokens_out=count_reply(reply),
            include_usage=request.include_usage,
        )
        # rendered in full before it is journalled: what the journal calls 200 can be sent
        right = rendered(dialect, done, streamed=request.stream)
        self.thinking(accounts["turn"])
        mishap = self.mishaps.take("model", self._journal.actor, partial(fits, streamed=request.stream, reply=reply))
        sent, spoil = self._wrong(path, dialect, request, done, mishap, right) if mishap else (right, None)
        billed = done.tokens_out if sent.status == 200 else 0
        spoiled = how(mishap) if mishap else ""
        self._record(request, seen, status=sent.status, tokens_out=billed, spoiled=spoiled, **accounts)
        return Response(sent.status, sent.body, (named,), kind=sent.kind, spoil=spoil)

    def _refusal(self, dialect: Dialect, tokens: int) -> Refusal | None:
        """Return why a prompt of so many *tokens* is refused unread, None if it is not."""
        armed = self.mishaps.take("model", self._journal.actor, lambda one: isinstance(one, Refuse))
        if isinstance(armed, Refuse):
            style = dialect.STYLE if armed.style == "auto" else armed.style
            if armed.quota:
                return refusals.quota_used(style)
            return refusals.refusal(style, armed.status, armed.retry_after, time.time())
        maximum = self.window.exceeded(tokens)
        return None if maximum is None else refusals.too_long(dialect.STYLE, tokens, maximum)

    def _wrong(
        self, path: str, dialect: Dialect, request: ModelRequest, done: Completion, mishap: Mishap, right: Rendered
    ) -> tuple[Rendered, Spoil]:
        """Return what is sent instead of *right*, and what happens to it on the wire."""
        sent = malformed(mishap.how, dialect, done, streamed=request.stream) if isinstance(mishap, Malform) else right
        whole = right.body if isinstance(right.body, tuple) else (right.body,)
        events = 0
        if isinstance(mishap, Cut):
            events = round(mishap.after * (len(whole) - dialect.closing(done)))
        return sent, self._spoil("model", path, mishap, sent.status, whole, done.prompt, events)

    def _spoil(
        self, link: Link, path: str, mishap: Mishap, status: int, whole: tuple[bytes, ...], prompt: str = "",
        events: int = 0,
    ) -> Spoil:  # fmt: skip
        """Return what happens on the wire; it is journalled when it happens, for the incarnation that asked."""
        attempt, size = self._journal.actor, sum(map(len, whole))

        def note(sent: int, held: float) -> None:
            with self._journal.acting(attempt):
                self._add(
                    Spoiled, link=link, path=path, how=how(mishap), status=status, sent_bytes=sent, whole_bytes=size,
                    prompt=prompt, held_seconds=held,
                )  # fmt: skip

        return Spoil(end(mishap), note, mishap.seconds if isinstance(mishap, Hold) else 0.0, events)

    def _reply(self, dialect: Dialect, request: ModelRequest) -> Reply:
        """Ask the brain; raise ValueError with the reason where it, or the real provider, refuses the conversation."""
        if reason := dialect.unpaired(request.messages):
            raise ValueError(reason)
        return self._brain.reply(request.messages)

    def _record(self, request: ModelRequest, seen: tuple[str, ...], *, status: int, **accounts: Any) -> None:
        """Journal a model request with what only the order tells: which messages are new, and is it asked again."""
        with self._lock:
            new = [counted(message) for message in request.messages[common(self._previous, seen) :]]
            self._add(
                Asked,
                status=status,
                prompt=seen[-1],
                prefixes=seen,
                messages=msgspec.Raw(msgspec.json.encode(new)),
                again=seen[-1] in self._answered,
                **accounts,
            )
            self._previous = seen
            if status == 200:
                self._answered.add(seen[-1])

    def _add(self, kind: type[AnyEvent], **fields: Any) -> None:
        with self._lock:
            if self._closed:
                raise Closed
            self._journal.add(kind, **fields)


def _account(headers: Headers, name: str, given: int | None) -> int | None:
    if given is not None:
        return given
    text = headers.get(name)
    return None if text is None else whole(text, name)


def _retry(headers: Headers) -> int:
    for name in ("x-stainless-retry-count", "x-retry-count"):
        if (text := headers.get(name)) is not None:
            return whole(text, name)
    return 0
