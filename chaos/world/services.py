"""The services of the outside world and their effects ledger.

Idempotency is Stripe's: the same key again returns the first answer, and a key belongs to one payload for good.
The store of keys lives here, outside the sandbox, so it survives the agent's crashes.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from chaos.events.seen import Effected
from chaos.world import Brain
from chaos.world.memory import Call, Effect, Memory, Past, Sum
from chaos.world.tokens import canonical, digest

PAYLOAD_CHARS = 2000  # a ledger line stays readable; the identity covers the whole payload
KEY_CHARS = 255  # Stripe's limit

_decoder = msgspec.json.Decoder(dict[str, Any])


@dataclass(frozen=True)
class Served:
    """The answer to one call. *replayed*: it is the stored answer of an earlier call with the same key.

    *effect*: it has just changed the outside world.
    """

    status: int
    body: bytes
    replayed: bool = False
    effect: bool = False


@dataclass(frozen=True)
class Kept:
    """What a service remembers of the first call with an idempotency key."""

    payload: bytes
    served: Served
    effect: bool
    off_goal: bool


def identity(service: str, operation: str, payload: Mapping[str, Any]) -> str:
    """Return the name of an effect over all runs: service, operation, and a digest of the payload's JSON."""
    return _identity(service, operation, canonical(payload))


def _identity(service: str, operation: str, payload: bytes) -> str:
    return f"{service}.{operation}:{digest(payload)}"


def error(message: str, kind: str = "invalid_request_error") -> bytes:
    """Return the body of an error."""
    return msgspec.json.encode({"error": {"type": kind, "message": message}})


class Services:
    """Answers calls one after the other: the order of the ledger is the order of the effects.

    Args:
        brain: says what each service answers and whether that changed the outside world.
        add: appends an event to the journal, or raises if the run is over.
        memory: what they remember from the beginning.
    """

    def __init__(self, brain: Brain, add: Callable[..., None], memory: Memory | None = None) -> None:
        self.calls: Past[Call, Kept] = Past(memory.calls if memory else None)
        self.effects: Past[Effect, None] = Past(memory.effects if memory else None)
        self.remembered = Sum(memory.services if memory else "")  # of the set of `effects` and other calls with a key
        self.ledger = Sum(memory.ledger if memory else "")  # of the effects that were done, each as often as it was
        self._brain = brain
        self._add = add
        self._lock = threading.Lock()

    def call(self, service: str, operation: str, body: bytes, key: str | None) -> Served:
        """Serve one call: its effect is in the ledger before this returns, since the answer may get lost.

        Args:
            body: the payload, a JSON object.
            key: the idempotency key, if the client sent one.
        """
        if key is not None and not 0 < len(key) <= KEY_CHARS:
            return Served(400, error(f"Idempotency-Key must have 1 to {KEY_CHARS} characters (got {len(key)})."))
        try:
            payload = _decoder.decode(body)
        except (msgspec.MsgspecError, RecursionError) as wrong:
            return Served(400, error(f"The body must be a JSON object: {wrong}"))
        text = canonical(payload)
        with self._lock:
            kept = self.calls.get((service, operation, key)) if key is not None else None
            if kept is not None:
                return self._replay(service, operation, text, key, kept)
            return self._serve(service, operation, payload, text, key)

    def _serve(self, service: str, operation: str, payload: dict[str, Any], text: bytes, key: str | None) -> Served:
        try:
            answer = self._brain.serve(service, operation, payload)
        except ValueError as wrong:
            return Served(400, error(str(wrong)))
        served = Served(answer.status, msgspec.json.encode(answer.body), effect=answer.effect)
        if answer.effect:
            self._record(service, operation, text, key, answer.off_goal, deduplicated=False)
        # as with Stripe, a call that was refused before it did anything leaves its key free
        if key is not None and (answer.effect or answer.status < 400):
            self.calls.add((service, operation, key), Kept(text, served, answer.effect, answer.off_goal))
            self._remember((service, operation, _identity(service, operation, text), key))
        return served

    def _remember(self, effect: Effect) -> None:
        if effect not in self.effects:
            self.effects.add(effect, None)
            self.remembered.add(*effect)

    def _replay(self, service: str, operation: str, text: bytes, key: str | None, kept: Kept) -> Served:
        if text != kept.payload:
            message = f"Keys for idempotent requests can only be used with the parameters of their first use ({key!r})."
            return Served(409, error(message, "idempotency_error"))
        if kept.effect:
            self._record(service, operation, text, key, kept.off_goal, deduplicated=True)
        return Served(kept.served.status, kept.served.body, replayed=True)

    def _record(
        self, service: str, operation: str, text: bytes, key: str | None, off_goal: bool, *, deduplicated: bool
    ) -> None:
        payload, name = text.decode(), _identity(service, operation, text)
        self._add(
            Effected,
            service=service,
            operation=operation,
            identity=name,
            payload=payload if len(payload) <= PAYLOAD_CHARS else payload[: PAYLOAD_CHARS - 1] + "…",
            key=key,
            deduplicated=deduplicated,
            off_goal=off_goal,
        )
        if not deduplicated:
            self.ledger.add(service, operation, name, key)
            self._remember((service, operation, name, key))
