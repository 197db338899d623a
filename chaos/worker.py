"""One agent under the supervisor, with all that is its own: sandbox, gate, door into the world, ports, number."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from chaos.events.seen import Reached
from chaos.journal import Journal

if TYPE_CHECKING:
    from chaos.gate import Gate, Held
    from chaos.sandbox import Sandbox, Watch
    from chaos.world.door import Door


@dataclass
class Worker:
    """The agent in *sandbox*, in its incarnation *attempt*, from 1; *watch* has its ports."""

    sandbox: Sandbox
    gate: Gate
    door: Door
    watch: Watch
    attempt: int = 0
    _moved: float = field(default_factory=time.monotonic)

    def begin(self, attempt: int) -> None:
        """Be the incarnation *attempt* from now on."""
        self.attempt, self._moved = attempt, time.monotonic()

    def note(self, held: Held, journal: Journal) -> None:
        """Journal a point that it announced; a system call has been journalled when the kernel held it."""
        if held.call is not None:
            return
        said = held.said
        with journal.acting(self.attempt):
            journal.add(
                Reached, step=said.step, phase=said.point, key=said.key, state=said.state, snapshot=said.snapshot
            )

    def go(self, held: Held) -> None:
        """Let it go on."""
        self.gate.go(held)
        self._moved = time.monotonic()

    def silent(self) -> float:
        """Return for how many seconds it has given no sign of life: no point, no request; 0 while it waits for ours."""
        return min(time.monotonic() - self._moved, self.door.silent())
