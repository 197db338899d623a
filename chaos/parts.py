"""A cell of many runs in equal parts, so that several processes and machines can share it. Pure.

The plans of a cell are a list that depends on its seed and on the points of its reference run alone. A part has a
stretch of that list; a run keeps its number in the whole, and so its seed and its replay command.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from chaos import seeds
from chaos.plan import COUNTED, STEP_PHASES, Plan, Point

if TYPE_CHECKING:
    from chaos.scenario import FaultSpec

LARGE = 10
"""Runs from which on a cell is divided at all: below, what a part needs for itself costs more than the runs."""

LEAST = 50
"""Runs that a part has at least unless the user names the number of parts.

A process makes a reference of its own, and captures crash states: as long as some dozens of runs from captured states.
"""

SKETCHED_STEPS = 40
"""Steps on which an explorer is asked how many plans it would make: enough for an estimate, few enough for pairs."""


class Part(NamedTuple):
    """The *number*-th, from 1, of so many parts (*of*) of a cell."""

    number: int = 1
    of: int = 1

    def share(self, total: int) -> range:
        """Return the places of this part's plans among all *total* of the cell.

        A stretch and not every n-th: equal crash states lie side by side, and only within a part are they run once.
        """
        return range(total * (self.number - 1) // self.of, total * self.number // self.of)

    def __str__(self) -> str:
        return f"part {self.number} of {self.of}"


WHOLE = Part()


def parts(runs: int, wanted: int | None, workers: int) -> tuple[Part, ...]:
    """Return the parts of a cell of about so many *runs*.

    Args:
        wanted: how many there shall be of a large cell; None: one for each worker, and none too small.
        workers: processes that share the campaign.
    """
    many = min(workers, runs // LEAST) if wanted is None else wanted
    return tuple(Part(number + 1, many) for number in range(many)) if runs >= LARGE and many > 1 else (WHOLE,)


def estimate(spec: FaultSpec, steps: int, runs: int) -> int:
    """Return about how many runs a cell with the fault *spec* will have, as far as that is known before it is run.

    Its explorer is asked about a sketch of a run of so many *steps* that announces every phase, and does all that is
    counted once in each; where there are too many steps, about some of them.

    Args:
        runs: how many are wanted where the explorer could make any number.
    """
    stride = max(1, -(-steps // SKETCHED_STEPS))
    sketch = [Point(step, phase) for step in range(0, steps, stride) for phase in (*STEP_PHASES, *COUNTED)]
    planned = len(spec.at.plans(sketch, spec.label, runs, random.Random(steps)))
    return planned if planned == runs else planned * stride


def fingerprint(plans: Sequence[Plan]) -> str:
    """Return what equal lists of plans have in common and different ones do not, to be read by people too."""
    return f"{len(plans)} plans ({seeds.derive(len(plans), *plans):08x})"
