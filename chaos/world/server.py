"""The world on a real socket: model endpoints, services, refusals, and what they saw, journalled.

One thread for each connection. An exchange is journalled before its reply is sent, since the reply may get lost.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Mapping
from email.message import Message as Headers
from types import TracebackType
from typing import Any, Self

import msgspec

from chaos.journal import AnyEvent, Asked, Journal
from chaos.world import Brain, Reply, anthropic_messages, openai_chat, services, turn_of
from chaos.world.listener import HOST, Listener, Response
from chaos.world.openai_chat import Completion, Dialect, Malformed, ModelRequest, whole
from chaos.world.rate_limit import RateLimiter
from chaos.world.tokens import common, count_prompt, count_reply, counted, prefixes

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
        self.rate_limit = RateLimiter()
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
        self._server: Listener | None = None

    def start(self) -> None:
        """Listen; the port is known afterwards."""
        if self._closed or self._server is not None:
            raise RuntimeError("a world is for one run: make a new one to start again")
        self._server = Listener(self)
        self._server.start()

    def close(self) -> None:
        """Cut all connections and free the port at once; nothing is journalled afterwards."""
        with self._lock:
            self._closed = True
        if self._server is not None:
            self._server.stop()
            self._server = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def port(self) -> int:
        """The TCP port, while started."""
        if self._server is None:
            raise RuntimeError("the world has no port before start() and after close()")
        return self._server.server_port

    def env(self) -> dict[str, str]:
        """Return the environment by which an agent, its SDKs and its tools find this world."""
        url = f"http://{HOST}:{self.port}"
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
                return self._ask(dialect, headers, body)
            if path == "/v1/models" and method == "GET":
                return Response(200, openai_chat.models())
            if (call := _SERVICE_PATH.fullmatch(path)) and method == "POST":
                served = self._services.call(call[1], call[2], body, headers.get("Idempotency-Key"))
                return Response(served.status, served.body, REPLAYED if served.replayed else ())
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

    def _ask(self, dialect: Dialect, headers: Headers, body: bytes) -> Response:
        request = dialect.parse(body)
        seen, tokens_in = prefixes(request.messages), count_prompt(request.messages)
        accounts: dict[str, Any] = {
            "turn": turn_of(self._brain, request.messages),
            "goal": self._brain.goal(request.messages),
            "budget": _budget(request, headers),
            "tokens_in": tokens_in,
            "retry": _retry(headers),
            "style": dialect.STYLE,
        }
        named = (dialect.REQUEST_ID, f"req_{seen[-1]}")
        if refusal := self.rate_limit.refuse(dialect.STYLE):
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
        rendered = tuple(dialect.events(done)) if request.stream else dialect.render(done)
        self.thinking(accounts["turn"])
        self._record(request, seen, status=200, tokens_out=done.tokens_out, **accounts)
        return Response(200, rendered, (named,))

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


def _budget(request: ModelRequest, headers: Headers) -> int | None:
    if request.budget is not None:
        return request.budget
    text = headers.get("x-chaos-budget")
    return None if text is None else whole(text, "x-chaos-budget")


def _retry(headers: Headers) -> int:
    for name in ("x-stainless-retry-count", "x-retry-count"):
        if (text := headers.get(name)) is not None:
            return whole(text, name)
    return 0
