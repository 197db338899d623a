"""One run as the world sees it: what it remembers of the run, what it is to do wrong in it, and the run's journal."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import replace
from email.message import Message as Headers
from functools import partial
from typing import Any

import msgspec

from chaos.events.seen import Asked, Spoiled
from chaos.journal import AnyEvent, Journal
from chaos.world import Brain, Reply, holds, mcp, openai_chat, refusals, services, smtp, steady_of, turn_of
from chaos.world.delivery import Spoil
from chaos.world.dialects import dialect_of, errors_of, parsed
from chaos.world.listener import Response
from chaos.world.malformed import Rendered, malformed, rendered
from chaos.world.memory import Memory, Past, Sum
from chaos.world.mishaps import Cut, Hold, Link, Malform, Mishap, Mishaps, Refuse, Window, end, fits, how
from chaos.world.openai_chat import Completion, Dialect, Malformed, ModelRequest, whole
from chaos.world.refusals import Refusal
from chaos.world.routes import Called, NotServed, routes_of
from chaos.world.services import Served
from chaos.world.tokens import Prompt, Talks, count_reply, counted, digest

REPLAYED = (("Idempotent-Replayed", "true"),)  # Stripe's mark of a stored answer


class Closed(ConnectionError):
    """The run was over while the world worked on a request of it: nothing is journalled, nobody is answered."""


class Session:
    """Answers the requests of one run while it lasts.

    Args:
        talks: the conversations heard last, in this run and in others.
        thinking: called with the turn while the model "thinks".
        memory: what is remembered from the beginning.
    """

    def __init__(
        self,
        brain: Brain,
        journal: Journal,
        talks: Talks,
        thinking: Callable[[int], None],
        memory: Memory | None = None,
    ) -> None:
        self.journal = journal
        self.mishaps = Mishaps()
        self.holds = holds.Holds(journal)
        self.window = Window()
        self.failure: Exception | None = None
        self.services = services.Services(brain, self.add, memory)
        self._routes = routes_of(brain)
        self._brain, self._talks, self._thinking = brain, talks, thinking
        self._lock = threading.RLock()  # the order of the journal is the order in which "new" and "again" are decided
        self._prompt = memory.prompt if memory else ""
        self._told: Past[str, None] = Past(memory.told if memory else None)
        self._answered: Past[str, None] = Past(memory.answered if memory else None)
        self._prompts = Sum(memory.prompts if memory else "")
        self._over = False

    def memory(self) -> Memory:
        """Return what is remembered now."""
        with self._lock:
            return Memory(
                prompt=self._prompt,
                prompts=str(self._prompts),
                services=str(self.services.remembered),
                ledger=str(self.services.ledger),
                told=self._told.now(),
                answered=self._answered.now(),
                calls=self.services.calls.now(),
                effects=self.services.effects.now(),
            )

    def end(self) -> None:
        """Journal nothing from now on, and let nothing be held any longer. May be called twice."""
        with self._lock:
            self._over = True
        self.holds.end()

    def add(self, kind: type[AnyEvent], **fields: Any) -> None:
        """Journal an event of *kind*; raise Closed if the run is over."""
        with self._lock:
            if self._over:
                raise Closed
            self.journal.add(kind, **fields)

    def respond(self, method: str, path: str, headers: Headers, body: bytes, query: str = "") -> Response:
        """Return the response to one HTTP request; *path* comes without its *query*."""
        try:
            if dialect := dialect_of(path):
                if method != "POST":
                    return refused(path, 405, f"Not allowed to {method} on {path}.")
                return self._ask(path, dialect, headers, body)
            if path == "/v1/models" and method == "GET":
                return Response(200, openai_chat.models())
            if path == mcp.PATH and self._routes.endpoints is not None:
                tools = [one for one in self._routes.endpoints if one.name != smtp.NAME]
                return mcp.respond(method, headers, body, tools, partial(self.call, path))
            if path.startswith("/services/"):
                return self.call(path, self._routes.called(method, path, query, headers, body), _answered)
        except Malformed as wrong:
            return refused(path, 400, str(wrong))
        except NotServed as wrong:
            allowed = (("Allow", ", ".join(wrong.allowed)),) if wrong.allowed else ()
            return replace(refused(path, wrong.status, str(wrong)), headers=allowed)
        except (Closed, holds.Cut):
            raise
        except Exception as failure:
            self.failure = self.failure or failure
            return refused(path, 500, f"{type(failure).__name__}: {failure}")
        return refused(path, 404, f"Invalid URL ({method} {path})")

    def call(self, path: str, called: Called, render: Callable[[Served], Response]) -> Response:
        """Have a service called at *path*, and return the response that *render* makes of its answer."""
        asked, told = f"{called.service}.{called.operation}", digest(called.body)
        self.holds.hold("service_call", asked, told)
        served = self.services.call(called.service, called.operation, called.body, called.key)
        if served.effect:
            self.holds.hold("effect", asked, told)
        right = render(served)
        whole = right.body if isinstance(right.body, tuple) else (right.body,)
        mishap = self.mishaps.take("services", self.journal.actor, fits)
        return replace(right, spoil=self._spoil("services", path, mishap, right.status, whole) if mishap else None)

    def mail(self, called: Called) -> Response:
        """Return the mail server's reply to a message."""
        try:
            return self.call(smtp.NAME, called, smtp.reply)
        except (Closed, holds.Cut):
            raise
        except Exception as failure:
            self.failure = self.failure or failure
            return Response(500, f"451 4.3.0 {type(failure).__name__}\r\n".encode())

    def _ask(self, path: str, dialect: Dialect, headers: Headers, body: bytes) -> Response:
        request = parsed(path, dialect, body)
        prompt = self._talks.heard(steady_of(self._brain, request.messages))
        asked, tokens_in = prompt.digest, prompt.tokens
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
        named = ((dialect.REQUEST_ID, f"req_{asked}"),) if dialect.REQUEST_ID else ()
        self.holds.hold("model_call", path, asked)
        if refusal := self._refusal(dialect, tokens_in):
            accounts |= {"refused": refusal.why, "retry_after": refusal.retry_after}
            self._record(prompt, status=refusal.status, **accounts)
            return Response(refusal.status, refusal.body, (*named, *refusal.headers))
        try:
            reply = self._reply(dialect, request, prompt)
        except ValueError as wrong:
            self._record(prompt, status=400, **accounts)
            return Response(400, dialect.error(400, str(wrong)), named)
        done = Completion(
            model=request.model,
            prompt=asked,
            reply=reply,
            tokens_in=tokens_in,
            tokens_out=count_reply(reply),
            include_usage=request.include_usage,
        )
        # rendered in full before it is journalled: what the journal calls 200 can be sent
        right = rendered(dialect, done, streamed=request.stream)
        self._thinking(accounts["turn"])
        mishap = self.mishaps.take("model", self.journal.actor, partial(fits, streamed=request.stream, reply=reply))
        sent, spoil = self._wrong(path, dialect, request, done, mishap, right) if mishap else (right, None)
        billed = done.tokens_out if sent.status == 200 else 0
        spoiled = how(mishap) if mishap else ""
        self._record(prompt, status=sent.status, tokens_out=billed, spoiled=spoiled, **accounts)
        self.holds.hold("model_reply", path, asked)
        return Response(sent.status, sent.body, named, kind=sent.kind, spoil=spoil)

    def _refusal(self, dialect: Dialect, tokens: int) -> Refusal | None:
        """Return why a prompt of so many *tokens* is refused unread, None if it is not."""
        armed = self.mishaps.take("model", self.journal.actor, lambda one: isinstance(one, Refuse))
        if isinstance(armed, Refuse):
            style = dialect.STYLE if armed.style == "auto" else armed.style
            if armed.quota:
                return refusals.quota_used(style)
            return refusals.refusal(style, armed.status, armed.retry_after, time.time())
        maximum = self.window.exceeded(tokens)
        return None if maximum is None else refusals.too_long(dialect.STYLE, tokens, maximum, dialect.PROMPT)

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
        attempt, size = self.journal.actor, sum(map(len, whole))

        def note(sent: int, held: float) -> None:
            with self.journal.acting(attempt):
                self.add(
                    Spoiled, link=link, path=path, how=how(mishap), status=status, sent_bytes=sent, whole_bytes=size,
                    prompt=prompt, held_seconds=held,
                )  # fmt: skip

        return Spoil(end(mishap), note, mishap.seconds if isinstance(mishap, Hold) else 0.0, events)

    def _reply(self, dialect: Dialect, request: ModelRequest, prompt: Prompt) -> Reply:
        """Ask the brain; raise ValueError with the reason where it, or the real provider, refuses the conversation."""
        if not prompt.paired and (reason := dialect.unpaired(request.messages)):
            raise ValueError(reason)
        return self._brain.reply(request.messages)

    def _record(self, prompt: Prompt, *, status: int, **accounts: Any) -> None:
        """Journal a model request with what only the order tells: which messages are new, and is it asked again."""
        with self._lock:
            digests, kept = prompt.talk.digests, prompt.size
            while kept and digests[kept - 1] not in self._told:
                kept -= 1
            new = [counted(message) for message in prompt.talk.messages[kept : prompt.size]]
            self.add(
                Asked,
                status=status,
                prompt=prompt.digest,
                messages=msgspec.Raw(msgspec.json.encode(new)),
                kept=kept,
                onto=digests[kept - 1] if kept else "",
                added=tuple(digests[kept : prompt.size]),
                opening=digests[0],
                again=prompt.digest in self._answered,
                **accounts,
            )
            self._prompt = prompt.digest
            for told in digests[kept : prompt.size]:
                self._told.add(told, None)
            if status == 200 and prompt.digest not in self._answered:
                self._answered.add(prompt.digest, None)
                self._prompts.add(prompt.digest)


def _answered(served: Served) -> Response:
    """Return what a service answers over HTTP."""
    return Response(served.status, served.body, REPLAYED if served.replayed else ())


def refused(path: str, status: int, message: str) -> Response:
    """Return an error in the shape that a client of *path* understands."""
    if path.startswith("/services"):
        kind = "api_error" if status >= 500 else "invalid_request_error"
        return Response(status, services.error(message, kind))
    return Response(status, errors_of(path).error(status, message))


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
