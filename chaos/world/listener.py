"""HTTP on a real socket: one thread for each connection, and an end that is immediate whatever the clients do."""

from __future__ import annotations

import contextlib
import socket
import socketserver
import sys
import threading
import time
from dataclasses import dataclass
from email.message import Message as Headers
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Protocol

from chaos.world.delivery import LAST_CHUNK, Spoil, chunk, deliver

HOST = "127.0.0.1"
MAX_BODY_BYTES = 32 * 2**20  # Anthropic's limit for a request
BACKLOG = 128  # connections that wait for the accepting thread: more than any agent opens at once
CLOSE_SECONDS = 2.0  # a connection's thread ends at once unless the brain itself hangs; then it is left behind
ENDING = ("held", "lost", "dropped")  # what happens to a response and ends its connection
REASONS = {status.value: status.phrase for status in HTTPStatus} | {529: "Overloaded"}


@dataclass(frozen=True)
class Response:
    """What goes back over HTTP: one JSON body, or the server-sent events of a stream.

    Args:
        kind: content type, where it is neither of these.
        spoil: what goes wrong on the wire.
    """

    status: int
    body: bytes | tuple[bytes, ...]
    headers: tuple[tuple[str, str], ...] = ()
    kind: str = ""
    spoil: Spoil | None = None


class Site(Protocol):
    """What answers the requests."""

    failure: Exception | None
    """The first error of the site itself (not a refusal)."""

    def respond(self, method: str, path: str, headers: Headers, body: bytes, query: str = "") -> Response:
        """Return the response to one request; *path* comes without its *query*."""
        ...

    def refuse(self, path: str, status: int, message: str) -> Response:
        """Return an error in the shape that a client of *path* understands."""
        ...


class Listener(ThreadingHTTPServer):
    """Serves *site* on a free port of 127.0.0.1 and knows its open connections, so that it can cut them.

    Args:
        handler: what talks on a connection, if not HTTP.
    """

    daemon_threads = True
    block_on_close = False
    request_queue_size = BACKLOG

    def __init__(self, site: Site, handler: type[socketserver.BaseRequestHandler] | None = None) -> None:
        self.site = site
        self._open: dict[socket.socket, threading.Thread | None] = {}  # each with its thread, once that is there
        self._cut: set[socket.socket] = set()
        self._here = threading.local()
        self._guard = threading.Lock()
        super().__init__((HOST, 0), handler or _Handler)
        self.socket.setblocking(False)  # `cut` may take a connection before the accepting thread does
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
        for connection in still_open:
            with contextlib.suppress(OSError):  # its thread was faster
                connection.shutdown(socket.SHUT_RDWR)
        deadline = time.monotonic() + CLOSE_SECONDS
        for thread in filter(None, still_open.values()):
            thread.join(max(0.0, deadline - time.monotonic()))

    def cut(self) -> None:
        """Cut all connections of now, those that nobody has accepted yet too. May be called while others come in."""
        with self._guard:
            with contextlib.suppress(BlockingIOError):
                while True:
                    self.socket.accept()[0].close()
            self._cut |= self._open.keys()
            for connection in self._open:
                with contextlib.suppress(OSError):  # its thread was faster
                    connection.shutdown(socket.SHUT_RDWR)

    def is_cut(self) -> bool:
        """Tell whether the connection that this thread serves was cut."""
        return getattr(self._here, "connection", None) in self._cut

    def get_request(self) -> tuple[socket.socket, Any]:
        """Accept a connection and know it, in one go: it is among those that are cut, or it comes after them."""
        with self._guard:
            connection, address = super().get_request()
            self._open[connection] = None
        return connection, address

    def process_request(self, request: Any, client_address: Any) -> None:
        thread = threading.Thread(
            target=self.process_request_thread, args=(request, client_address), name="world-connection", daemon=True
        )
        with self._guard:
            self._open[request] = thread
        thread.start()

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        self._here.connection = request
        super().process_request_thread(request, client_address)

    def close_request(self, request: Any) -> None:
        """Close a connection and forget it: the last thing that happens to each."""
        super().close_request(request)
        with self._guard:
            self._open.pop(request, None)
            self._cut.discard(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Keep quiet about an agent that was killed in the middle; anything else is our own mistake."""
        failure = sys.exception()
        if isinstance(failure, Exception) and not isinstance(failure, OSError):
            self.site.failure = self.site.failure or failure


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    path = ""  # until a first request line was understood
    server: Listener

    def do_POST(self) -> None:
        if (body := self._body()) is not None:
            path, _, query = self.path.partition("?")
            self._send(self.server.site.respond(self.command, path, self.headers, body, query))

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
        usual = "text/event-stream; charset=utf-8" if isinstance(response.body, tuple) else "application/json"
        framing = "Transfer-Encoding: chunked" if streamed else f"Content-Length: {sum(map(len, parts))}"
        lines = [
            f"HTTP/1.1 {response.status} {REASONS.get(response.status, 'Unknown')}",
            f"Content-Type: {response.kind or usual}",
            framing,
            *(f"{name}: {value}" for name, value in response.headers),
            *(("Connection: close",) if self.close_connection else ()),
        ]
        head = "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n"
        if response.spoil is not None:
            self.close_connection = self.close_connection or not streamed or response.spoil.end in ENDING
            deliver(self.connection, head, parts, response.spoil, chunked=streamed)
            return
        if not streamed:
            self.wfile.write(head + (b"" if self.command == "HEAD" else b"".join(parts)))
            return
        for part in parts:
            self.wfile.write(head + chunk(part))
            head = b""
        self.wfile.write(LAST_CHUNK)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Refuse what is no proper HTTP request, as JSON too, and drop the connection."""
        self.close_connection = True
        self._send(self.server.site.refuse(self.path, code, message or explain or REASONS.get(code, "Unknown")))

    def log_message(self, format: str, *args: Any) -> None:
        """The journal is the log."""
