"""Nobody looks whether another worker has taken over."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from chaos.targets.planted.catch import LATE, Catch
from chaos.targets.planted.driver import Driver
from chaos.targets.planted.fence import Fence

CATCH = Catch(
    f"false_dead@{LATE}/after_act",  # behind the last effect, or `effects` would break with it
    "fencing",
    f"committed by two workers that lived at the same time, from step {LATE} on",
    fault={"kind": "false_dead", "wakes": "finished"},
)


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
