"""Checks: one promise each. A run's record and the reference's in, a verdict out; they touch nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from chaos.verdict import Verdict

if TYPE_CHECKING:
    from chaos.record import Record
    from chaos.targets import Facts


@dataclass(frozen=True)
class Terms:
    """What a scenario demands beyond equality with the reference; None means no limit.

    Args:
        max_lost_steps: steps that one crash may cost; the step in flight is lost wherever nothing recorded it.
        max_tokens_asked_again: tokens of answers that were given before in the run.
        max_recovery_seconds: from the fault until the interrupted step is reached again.
        effects: "exactly-once", or "at-least-once" to allow duplicates.
    """

    max_lost_steps: int | None = 1
    max_tokens_asked_again: int | None = None
    max_recovery_seconds: float | None = None
    effects: str = "exactly-once"


class Check(Protocol):
    """A frozen dataclass without required fields; the file name is the check's name.

    One that judges what is alive at the end has `looks_at_the_living: ClassVar[bool] = True` (see `chaos.judge.judge`).
    """

    def check(self, run: Record, reference: Record, terms: Terms, facts: Facts) -> Verdict:
        """Judge *run* against the crash-free *reference* of the same strategy and seed.

        Args:
            facts: what the target knows to be true of a right result (see `chaos.targets.Facts`).
        """
        ...
