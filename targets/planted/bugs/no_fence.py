"""Nobody looks whether another worker has taken over."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from chaos.targets.planted.driver import Driver
from chaos.targets.planted.fence import Fence


class NoFence(Driver):
    """Takes its thread for its own for ever: one that was taken for dead goes on beside its successor.

    In real agents: "there is one replica", until a node is cut off and the scheduler starts another one; or a lease
    that is looked at when the worker starts and never again.
    Exposed by `false_dead`. Must be caught by `fencing` (committed by two workers).
    """

    def make_fence(self) -> Fence:
        return _Open(self.zones.durable)


class _Open(Fence):
    def take(self) -> None:
        """Nothing is taken."""

    @contextmanager
    def held(self) -> Iterator[None]:
        yield
