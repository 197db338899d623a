"""The world on a real socket: model endpoints, services, refusals, and what they saw, journalled.

One thread for each connection. An exchange is journalled before its reply is sent, since the reply may get lost.
"""

from __future__ import annotations

import contextlib
import re
import socket
import socketserver
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from email.message import Message as Headers
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

import msgspec

from chaos.journal import AnyEvent, Asked, Journal
from chaos.world import Brain, Reply, anthropic_messages, openai_chat, services
from chaos.world.openai_chat import Completion, Dialect, Malformed, ModelRequest, whole
from chaos.world.rate_limit import RateLimiter
from chaos.world.tokens import common, count_prompt, count_reply, counted, prefixes

HOST = "127.0.0.1"
DUMMY_KEY = "chaos-dummy-key"  # a client that strays to the real provider fails instead of spending
MAX_BODY_BYTES = 32 * 2**20  # Anthropic's limit for a request
BACKLOG = 128  # connections that wait for the accepting thread: more than any agent opens at once
CLOSE_SECONDS = 2.0  # a connection's thread ends at once unless the brain itself hangs; then it is left behind
REASONS = {status.value: status.phrase for status in HTTPStatus} | {529: "Overloaded"}
REPLAYED = (("Idempotent-Replayed", "true"),)  # Stripe's mark of a stored answer

_SERVICE_PATH = re.compile(r"/services/([A-Za-z0-9_.-]+)/([A-Za-z0-9_.-]+)")

ENDPOINTS: Mapping[str, Dialect] = {"/v1/chat/completions": openai_chat, "/v1/messages": anthropic_messages}


@dataclass(frozen=True)
class Response:
    """What goes back over HTTP: one JSON body, or the server-sent events of a stream."""

    status: int
    body: bytes | tuple[bytes, ...]
    headers: tuple[tuple[str, str], ...] = ()


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
        self._brain = brain
        self._journal = journal
        self._services = services.Services(brain, self._add)
        self._lock = threading.RLock()  # the order of the journal is the order in which "new" and "again" are decided
        self._previous: tuple[str, ...] = ()
        self._answered: set[str] = set()
        self._closed = False
        self._server: _Server | None = None

    def start(self) -> None:
        """Listen; the port is known afterwards."""
        if self._closed or self._server is not None:
            raise RuntimeError("a world is for one run: make a new one to start again")
        self._server = _Server(self)
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
                    return error(path, 405, f"Not allowed to {method} on {path}.")
                return self._ask(dialect, headers, body)
            if path == "/v1/models" and method == "GET":
                return Response(200, openai_chat.models())
            if (call := _SERVICE_PATH.fullmatch(path)) and method == "POST":
                served = self._services.call(call[1], call[2], body, headers.get("Idempotency-Key"))
                return Response(served.status, served.body, REPLAYED if served.replayed else ())
        except Malformed as wrong:
            return error(path, 400, str(wrong))
        except Closed:
            raise
        except Exception as failure:
            self.failure = self.failure or failure
            return error(path, 500, f"{type(failure).__name__}: {failure}")
        return error(path, 404, f"Invalid URL ({method} {path})")

    def _ask(self, dialect: Dialect, headers: Headers, body: bytes) -> Response:
        request = dialect.parse(body)
        seen, tokens_in = prefixes(request.messages), count_prompt(request.messages)
        accounts = {
            "turn": sum(message["role"] == "assistant" for message in request.messages),
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


def error(path: str, status: int, message: str) -> Response:
    """Return an error in the shape that a client of *path* understands."""
    if path.startswith("/services"):
        return Response(status, services.error(message, "api_error" if status >= 500 else "invalid_request_error"))
    dialect: Dialect = anthropic_messages if path.startswith("/v1/messages") else openai_chat
    return Response(status, dialect.error(status, message))


class _Server(ThreadingHTTPServer):
    """Knows its open connections, so that it can cut them."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = BACKLOG

    def __init__(self, world: World) -> None:
        self.world = world
        self._open: dict[threading.Thread, socket.socket] = {}
        self._guard = threading.Lock()
        super().__init__((HOST, 0), _Handler)
        self._accepting = threading.Thread(target=self.serve_forever, name="world", daemon=True)

    def server_bind(self) -> None:
        socketserver.TCPServer.server_bind(self)  # HTTPServer would ask the DNS for a name
        self.server_name, self.server_port = HOST, self.server_address[1]

    def start(self) -> None:
        self._accepting.start()

    def stop(self) -> None:
        self.socket.shutdown(socket.SHUT_RDWR)  # wakes the accepting thread, which else looks up every half second
        self.shutdown()
        self.server_close()
        self._accepting.join()
        with self._guard:
            still_open = dict(self._open)
        for connection in still_open.values():
            with contextlib.suppress(OSError):  # its thread was faster
                connection.shutdown(socket.SHUT_RDWR)
        deadline = time.monotonic() + CLOSE_SECONDS
        for thread in still_open:
            thread.join(max(0.0, deadline - time.monotonic()))

    def process_request(self, request: Any, client_address: Any) -> None:
        thread = threading.Thread(
            target=self.process_request_thread, args=(request, client_address), name="world-connection", daemon=True
        )
        with self._guard:
            self._open[thread] = request
        thread.start()

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            with self._guard:
                del self._open[threading.current_thread()]

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Keep quiet about an agent that was killed in the middle; anything else is our own mistake."""
        failure = sys.exception()
        if isinstance(failure, Exception) and not isinstance(failure, OSError):
            self.world.failure = self.world.failure or failure


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    path = ""  # until a first request line was understood
    server: _Server

    def do_POST(self) -> None:
        if (body := self._body()) is not None:
            self._send(self.server.world.respond(self.command, self.path.partition("?")[0], self.headers, body))

    do_GET = do_HEAD = do_PUT = do_PATCH = do_DELETE = do_OPTIONS = do_POST

    def _body(self) -> bytes | None:
        """Read the request's body; None if it was refused."""
        length = self.headers.get("Content-Length", "0")
        if "Transfer-Encoding" in self.headers:
            self.send_error(411, "A request needs a Content-Length.")
        elif not (length.isascii() and length.isdigit()):
            self.send_error(400, f"Content-Length is not a number (got {length[:40]!r}).")
        elif len(length) > 18 or int(length) > MAX_BODY_BYTES:
            self.send_error(413, f"Request exceeds the maximum size of {MAX_BODY_BYTES} bytes.")
        else:
            body = self.rfile.read(int(length))
            if len(body) < int(length):
                raise ConnectionError("the client ended in the middle of its request")
            return body
        return None

    def _send(self, response: Response) -> None:
        """Write the head and the body in one piece; a stream one event at a time."""
        streamed = isinstance(response.body, tuple) and self.request_version != "HTTP/1.0"
        parts = response.body if isinstance(response.body, tuple) else (response.body,)
        kind = "text/event-stream; charset=utf-8" if isinstance(response.body, tuple) else "application/json"
        framing = "Transfer-Encoding: chunked" if streamed else f"Content-Length: {sum(map(len, parts))}"
        lines = [
            f"HTTP/1.1 {response.status} {REASONS.get(response.status, 'Unknown')}",
            f"Content-Type: {kind}",
            framing,
            *(f"{name}: {value}" for name, value in response.headers),
            *(("Connection: close",) if self.close_connection else ()),
        ]
        head = "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n"
        if not streamed:
            self.wfile.write(head + (b"" if self.command == "HEAD" else b"".join(parts)))
            return
        for part in parts:
            self.wfile.write(head + b"%x\r\n%b\r\n" % (len(part), part))
            head = b""
        self.wfile.write(b"0\r\n\r\n")

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Refuse what is no proper HTTP request, as JSON too, and drop the connection."""
        self.close_connection = True
        self._send(error(self.path, code, message or explain or REASONS.get(code, "Unknown")))

    def log_message(self, format: str, *args: Any) -> None:
        """The journal is the log."""
