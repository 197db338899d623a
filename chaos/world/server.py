"""The world on a real socket: model endpoints and services for one run, or for one after the other.

One thread for each connection. An exchange is journalled before its reply is sent, since the reply may get lost.
"""

from __future__ import annotations

from collections.abc import Callable
from email.message import Message as Headers
from types import TracebackType
from typing import Self

from chaos.journal import Journal
from chaos.world import Brain, smtp
from chaos.world.door import Door
from chaos.world.holds import Holds
from chaos.world.listener import HOST, Response
from chaos.world.memory import Memory
from chaos.world.mishaps import Mishaps, Window
from chaos.world.routes import routes_of
from chaos.world.session import Session, refused
from chaos.world.tokens import Talks

DUMMY_KEY = "chaos-dummy-key"  # a client that strays to the real provider fails instead of spending


class World:
    """Everything outside the sandbox of one run, served on a free port of 127.0.0.1.

    Args:
        brain: the scripted model and services.
        journal: receives an Asked for each model request and an Effected for each effect, until `close`.
    """

    def __init__(self, brain: Brain, journal: Journal) -> None:
        self.thinking: Callable[[int], None] = lambda turn: None
        """Called with the turn while the model "thinks": before an answer is sent, and not for a refusal."""
        self._brain = brain
        self._talks = Talks()
        self.session = self._session(journal)
        self._closed = False
        self._doors: list[Door] = []

    @property
    def takes_mail(self) -> bool:
        """Whether there is a mail server: if `mail.smtp` is declared."""
        return any(one.name == smtp.NAME for one in routes_of(self._brain).endpoints or ())

    @property
    def mishaps(self) -> Mishaps:
        """What is to go wrong in this run."""
        return self.session.mishaps

    @property
    def window(self) -> Window:
        """The model's context window in this run."""
        return self.session.window

    @property
    def holds(self) -> Holds:
        """The operations that are held in this run."""
        return self.session.holds

    @property
    def failure(self) -> Exception | None:
        """The first error of the brain or the journal themselves (not a refusal): the run is a harness error."""
        return self.session.failure

    @failure.setter
    def failure(self, error: Exception | None) -> None:
        self.session.failure = error

    def memory(self) -> Memory:
        """Return what the world remembers of the run until now."""
        return self.session.memory()

    def recall(self, memory: Memory, journal: Journal) -> None:
        """Go on with another run, from *memory*: what is seen from now on goes to *journal*.

        The agents of the run before are dead. Their connections are cut, what is still under way for them is neither
        journalled nor answered, and their other doors are closed; the first one stays where it is.
        """
        for door in self._doors[1:]:
            door.close()
        del self._doors[1:]
        for door in self._doors:
            door.clear()
        self.session.end()  # after the cut: see `Door.respond`
        self.session = self._session(journal, memory)

    def _session(self, journal: Journal, memory: Memory | None = None) -> Session:
        return Session(self._brain, journal, self._talks, lambda turn: self.thinking(turn), memory)

    def start(self) -> None:
        """Listen; the port is known afterwards."""
        if self._closed or self._doors:
            raise RuntimeError("a world is for one run: make a new one to start again")
        self.open_door()

    def close(self) -> None:
        """Cut all connections and free the port at once; nothing is journalled afterwards."""
        self._closed = True
        self.session.end()
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

    def env(self, door: Door | None = None) -> dict[str, str]:
        """Return the environment by which an agent, its SDKs and its tools find this world, by its first door."""
        door = door or self.door
        url = f"http://{HOST}:{door.port}"
        mail = {} if door.smtp_port is None else {"CHAOS_SMTP_HOST": HOST, "CHAOS_SMTP_PORT": str(door.smtp_port)}
        return {
            "OPENAI_BASE_URL": f"{url}/v1",
            "OPENAI_API_KEY": DUMMY_KEY,
            "ANTHROPIC_BASE_URL": url,
            "ANTHROPIC_API_KEY": DUMMY_KEY,
            "GOOGLE_GEMINI_BASE_URL": url,
            "GEMINI_API_KEY": DUMMY_KEY,
            "GOOGLE_API_KEY": DUMMY_KEY,
            "CHAOS_SERVICES_URL": f"{url}/services",
            **mail,
        }

    def respond(self, method: str, path: str, headers: Headers, body: bytes, query: str = "") -> Response:
        """Return the response to one HTTP request; *path* comes without its *query*."""
        return self.session.respond(method, path, headers, body, query)

    def refuse(self, path: str, status: int, message: str) -> Response:
        """Return an error in the shape that a client of *path* understands."""
        return refused(path, status, message)
