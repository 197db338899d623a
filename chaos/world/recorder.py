"""A proxy on loopback between an agent and its model's provider: what passes is kept, secrets are masked."""

from __future__ import annotations

import contextlib
import re
import socket
import threading
from collections.abc import Callable, Mapping, Sequence
from email.message import Message as Headers
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import parse_qsl, urlsplit

import msgspec

from chaos.world.cassette import Exchange
from chaos.world.delivery import LAST_CHUNK, chunk
from chaos.world.dialects import errors_of
from chaos.world.listener import HOST, MAX_BODY_BYTES

MASKED = "(masked)"
SECRET_HEADERS = frozenset(
    ("authorization", "x-api-key", "api-key", "x-goog-api-key", "proxy-authorization", "cookie", "set-cookie")
)
SECRET_PARAMETERS = frozenset(("key", "api_key", "api-key", "access_token", "token"))  # of a URL
SECRET_CHARS = 8  # what is shorter is no key, and stands in other words
OF_THE_CONNECTION = frozenset(
    ("connection", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade", "content-length", "host")
)  # headers that are not passed on (RFC 9110, 7.6.1), and those that are made anew
PROVIDER_SECONDS = 600.0  # as the providers' own SDKs wait
PIECE_BYTES = 65536
CLOSE_SECONDS = 5.0  # for what is still under way when the agent has ended
_EVENT = re.compile(r"\r?\n\r?\n")


class Recorder:
    """Passes requests on while it lasts, and writes a line of *file* for each.

    Args:
        provider: returns the URL of the provider for a path.
        secrets: texts that are masked wherever they stand, besides those in the requests' headers and URLs.
    """

    def __init__(self, file: Path, provider: Callable[[str], str], secrets: Sequence[str] = ()) -> None:
        self._file, self._provider = file, provider
        self._secrets = {secret for secret in secrets if len(secret) >= SECRET_CHARS}
        self._lock = threading.Lock()
        self._server = _Server(self)
        self._thread = threading.Thread(target=self._server.serve_forever, name="recorder", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.stop()
        self._thread.join()
        self._server.finish(CLOSE_SECONDS)
        self._server.server_close()

    def env(self) -> dict[str, str]:
        """Return the environment by which the SDKs find it."""
        url = f"http://{HOST}:{self._server.server_address[1]}"
        return {"OPENAI_BASE_URL": f"{url}/v1", "ANTHROPIC_BASE_URL": url, "GOOGLE_GEMINI_BASE_URL": url}

    def destination(self, path: str) -> tuple[HTTPConnection, str]:
        """Return a connection to the provider for *path*, not open yet, and its own path there."""
        url = urlsplit(self._provider(path.partition("?")[0]))
        base = url.path.rstrip("/")
        if base.endswith("/v1") and path.startswith("/v1/"):
            base = base.removesuffix("/v1")  # OpenAI's base URLs have the version in them, and so has the path
        kind = HTTPSConnection if url.scheme == "https" else HTTPConnection
        return kind(url.hostname or "", url.port, timeout=PROVIDER_SECONDS), base + path

    def keep(self, exchange: Exchange) -> None:
        """Write a line, without secrets."""
        with self._lock:
            self._secrets |= _secrets(exchange)
            line = msgspec.json.encode(exchange)
            for secret in sorted(self._secrets, key=len, reverse=True):
                line = line.replace(msgspec.json.encode(secret)[1:-1], MASKED.encode())
            with self._file.open("ab") as file:
                file.write(line + b"\n")


def _secrets(exchange: Exchange) -> set[str]:
    """Return the secrets in the headers and the URL of a request."""
    texts = [text for name, text in exchange.headers.items() if name.lower() in SECRET_HEADERS]
    texts += [text.rpartition(" ")[2] for text in texts]  # "Bearer KEY"
    texts += [text for name, text in parse_qsl(urlsplit(exchange.path).query) if name.lower() in SECRET_PARAMETERS]
    return {text for text in texts if len(text) >= SECRET_CHARS}


def exchanged(path: str, method: str, headers: Headers, body: bytes, status: int, kind: str, sent: bytes) -> Exchange:
    """Return the exchange of a request and the reply *sent* to it, of the content type *kind*."""
    passed = {name.lower(): text for name, text in headers.items() if name.lower() not in OF_THE_CONNECTION}
    shown = {
        name: MASKED if name in SECRET_HEADERS and len(text) < SECRET_CHARS else text for name, text in passed.items()
    }
    text = sent.decode(errors="replace")
    streamed = kind.startswith("text/event-stream")
    events = tuple(event for event in _EVENT.split(text) if event.strip()) if streamed else ()
    reply = None if streamed else _json(sent)
    rest = "" if streamed or reply is not None else text
    return Exchange(path, method, shown, _json(body), status, reply, events, rest)


def _json(body: bytes) -> Any:
    try:
        return msgspec.json.decode(body)
    except (msgspec.MsgspecError, RecursionError):
        return None


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self._under_way: list[threading.Thread] = []
        super().__init__((HOST, 0), _Handler)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        self._under_way.append(threading.current_thread())
        super().process_request_thread(request, client_address)

    def stop(self) -> None:
        """Accept nothing any more."""
        self.socket.shutdown(socket.SHUT_RDWR)  # wakes the accepting thread, which else looks up every half second
        self.shutdown()

    def finish(self, seconds: float) -> None:
        """Wait up to *seconds* for what is under way."""
        for thread in list(self._under_way):
            thread.join(seconds)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Keep quiet about an agent that went away."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def do_POST(self) -> None:
        self.close_connection = True  # one exchange each: what is under way in the end is an exchange
        length = self.headers.get("Content-Length", "0")
        if "Transfer-Encoding" in self.headers or not length.isdigit() or int(length) > MAX_BODY_BYTES:
            self._answer(411, "application/json", errors_of(self.path).error(411, "A request needs a Content-Length."))
            return
        body = self.rfile.read(int(length))
        connection, path = self.server.recorder.destination(self.path)
        try:
            headers = {name: text for name, text in self.headers.items() if name.lower() not in OF_THE_CONNECTION}
            connection.request(self.command, path, body, headers | {"Accept-Encoding": "identity"})
            self._pass(body, connection.getresponse())
        except (OSError, HTTPException) as error:
            told = f"the provider at {connection.host} cannot be reached: {type(error).__name__}: {error}"
            self._keep(body, 0, "text/plain", told.encode())
            self._answer(502, "application/json", errors_of(self.path).error(502, told))
        finally:
            connection.close()

    do_GET = do_PUT = do_PATCH = do_DELETE = do_POST

    def _pass(self, body: bytes, response: HTTPResponse) -> None:
        """Pass the reply on as it comes, and keep it before its end is passed on."""
        kind = response.headers.get("Content-Type", "")
        if response.length is not None:
            sent = response.read()
            self._keep(body, response.status, kind, sent)
            self._answer(response.status, kind, sent, response.headers)
            return
        self._head(response.status, response.headers, {"Transfer-Encoding": "chunked"})
        sent, whole = b"", True
        try:
            while piece := response.read1(PIECE_BYTES):
                sent += piece
                with contextlib.suppress(OSError):  # the agent may have gone when it had what it wanted
                    self.wfile.write(chunk(piece))
        except (OSError, HTTPException):
            whole = False  # the agent sees that too: its stream has no end
        self._keep(body, response.status, kind, sent)
        if whole:
            self.wfile.write(LAST_CHUNK)

    def _keep(self, body: bytes, status: int, kind: str, sent: bytes) -> None:
        self.server.recorder.keep(exchanged(self.path, self.command, self.headers, body, status, kind, sent))

    def _answer(self, status: int, kind: str, body: bytes, headers: Headers | None = None) -> None:
        more = {"Content-Length": str(len(body))} | ({} if headers else {"Content-Type": kind})
        self._head(status, headers or Headers(), more)
        self.wfile.write(body)

    def _head(self, status: int, headers: Headers, more: Mapping[str, str]) -> None:
        self.send_response_only(status)
        passed = [(name, text) for name, text in headers.items() if name.lower() not in OF_THE_CONNECTION]
        for name, text in [*passed, *more.items(), ("Connection", "close")]:
            self.send_header(name, text)
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        """The cassette is the log."""
