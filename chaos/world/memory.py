"""What the world remembers of a run: all that it would answer, or journal, differently by."""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import blake2b
from typing import TYPE_CHECKING, Generic, TypeAlias, TypeVar

if TYPE_CHECKING:
    from chaos.world.services import Kept

_K = TypeVar("_K")
_V = TypeVar("_V")

Call: TypeAlias = tuple[str, str, str]  # service, operation, idempotency key
Effect: TypeAlias = tuple[str, str, str, str | None]  # service, operation, identity, idempotency key

SUM_BYTES = 16
"""Of the sum of hashes that stands for a set: 128 bits, as of a UUID; nobody looks for collisions on purpose."""


class Past(Generic[_K, _V]):
    """A dict that only grows. What it is at an instant (`now`) is kept in no time, and others can grow from there.

    Args:
        before: what it begins with.
    """

    def __init__(self, before: Instant[_K, _V] | None = None) -> None:
        self._before = before
        self._own: dict[_K, tuple[int, _V]] = {}

    def __contains__(self, key: _K) -> bool:
        return key in self._own or (self._before is not None and key in self._before)

    def get(self, key: _K) -> _V | None:
        """Return what is kept under *key*, None if nothing is."""
        if kept := self._own.get(key):
            return kept[1]
        return None if self._before is None else self._before.get(key)

    def add(self, key: _K, value: _V) -> None:
        """Keep *value* under *key*, unless something is kept there."""
        if key not in self:
            self._own[key] = len(self._own), value

    def now(self) -> Instant[_K, _V]:
        """Return what is kept now; what is added later is not in it."""
        return Instant(self, len(self._own))


class Instant(Generic[_K, _V]):
    """What a `Past` held when it had *size* entries of its own."""

    def __init__(self, past: Past[_K, _V], size: int) -> None:
        self._past, self._size = past, size

    def __contains__(self, key: _K) -> bool:
        own, before = self._past._own.get(key), self._past._before
        return own[0] < self._size if own else before is not None and key in before

    def get(self, key: _K) -> _V | None:
        """Return what was kept under *key*, None if nothing was."""
        own, before = self._past._own.get(key), self._past._before
        if own:
            return own[1] if own[0] < self._size else None
        return None if before is None else before.get(key)


class Sum:
    """A digest of a collection that does not depend on its order: the sum of the hashes of its items."""

    def __init__(self, begin: str = "") -> None:
        self._sum = int(begin or "0", 16)

    def add(self, *item: str | None) -> None:
        """Add an item; one that is added twice counts twice."""
        text = "\0".join("\1" if part is None else part for part in item)
        hashed = blake2b(text.encode(), digest_size=SUM_BYTES).digest()
        self._sum = (self._sum + int.from_bytes(hashed)) % (1 << 8 * SUM_BYTES)

    def __str__(self) -> str:
        return f"{self._sum:0{2 * SUM_BYTES}x}"


@dataclass(frozen=True)
class Memory:
    """The memory of a world at an instant; two are equal if the world goes on alike from both.

    Args:
        prompt: digest of the conversation that was asked last.
        prompts: digest of the set of prompts that were answered.
        services: digest of the set of what the services remember: every effect with its idempotency key, and every
            other call that has one. They answer alike where it is equal.
        ledger: digest of the effects that were really done, each as often as it was. Nobody is answered differently
            for it, but two runs that are judged have done the same only if it is equal.
    """

    prompt: str
    prompts: str
    services: str
    ledger: str = field(compare=False)
    told: Instant[str, None] = field(compare=False, repr=False)  # the messages that the journal has, by digest
    answered: Instant[str, None] = field(compare=False, repr=False)
    calls: Instant[Call, Kept] = field(compare=False, repr=False)
    effects: Instant[Effect, None] = field(compare=False, repr=False)
