"""A way into the world: a port of its own, so that what comes in by it can be told from what comes in by another."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from email.message import Message as Headers
from typing import TYPE_CHECKING

from chaos.world.listener import Listener, Response
from chaos.world.routes import Called
from chaos.world.session import Closed, Session
from chaos.world.smtp import Mail

if TYPE_CHECKING:
    from chaos.world.server import World


class Door:
    """A port of *world*. What comes in by it belongs to the incarnation *attempt*; 0: to the current one."""

    def __init__(self, world: World) -> None:
        self.attempt = 0
        self._world = world
        self._lock = threading.Lock()
        self._open = 0
        self._heard = time.monotonic()
        self._listener = Listener(self)
        self._listener.start()
        self._smtp = Listener(self, Mail) if world.takes_mail else None
        if self._smtp is not None:
            self._smtp.start()

    @property
    def port(self) -> int:
        """The TCP port."""
        return self._listener.server_port

    @property
    def smtp_port(self) -> int | None:
        """The TCP port of the mail server, None if there is none."""
        return self._smtp.server_port if self._smtp else None

    @property
    def failure(self) -> Exception | None:
        """The world's first error (see `World.failure`)."""
        return self._world.failure

    @failure.setter
    def failure(self, error: Exception | None) -> None:
        self._world.failure = error

    def silent(self) -> float:
        """Return for how many seconds nobody has asked; 0 while somebody waits for an answer."""
        with self._lock:
            return 0.0 if self._open else time.monotonic() - self._heard

    def respond(self, method: str, path: str, headers: Headers, body: bytes, query: str = "") -> Response:
        """Return the world's response to one request."""
        with self._asked(self._listener) as session:
            return session.respond(method, path, headers, body, query)

    def mail(self, called: Called) -> Response:
        """Return the mail server's reply to one message."""
        with self._asked(self._smtp or self._listener) as session:
            return session.mail(called)

    @contextmanager
    def _asked(self, listener: Listener) -> Iterator[Session]:
        """Yield the session that a request is for, which has come in by *listener*."""
        with self._lock:
            self._open += 1
        try:
            session = self._world.session
            if listener.is_cut():  # looked up last: it is cut before the session is another run's
                raise Closed
            # a request belongs to the incarnation in which it came in, however long it takes
            with session.journal.acting(self.attempt or session.journal.attempt):
                yield session
        finally:
            with self._lock:
                self._open, self._heard = self._open - 1, time.monotonic()

    def refuse(self, path: str, status: int, message: str) -> Response:
        """Return an error in the shape that a client of *path* understands."""
        return self._world.refuse(path, status, message)

    def clear(self) -> None:
        """Cut all connections, those that nobody has accepted yet too, and be the current incarnation's door again."""
        self.attempt = 0
        self._listener.cut()
        if self._smtp is not None:
            self._smtp.cut()
        with self._lock:
            self._heard = time.monotonic()

    def close(self) -> None:
        """Cut all connections and free the ports at once."""
        self._listener.stop()
        if self._smtp is not None:
            self._smtp.stop()
