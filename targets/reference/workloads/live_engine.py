"""The quarterly analysis with an engine that consumes its table: from then on the rows live in that process only.

Everything else is `quarterly_sales`. A strategy that starts the engine again finds no table to start it with: only one
that brings the process itself back, with its memory, can go on.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from chaos.targets import Facts
from chaos.targets.reference.workloads import quarterly_sales
from chaos.targets.reference.workloads.quarterly_sales import GOAL as GOAL
from chaos.targets.reference.workloads.quarterly_sales import VARIABLES as VARIABLES
from chaos.targets.reference.workloads.quarterly_sales import QuarterlySales
from chaos.targets.reference.workloads.sales_data import Results
from chaos.targets.reference.workloads.script import Step
from chaos.world import Brain

CONSUME = "--consume"
"""The engine's option to remove the table as soon as it has read it."""


def brain(seed: int, steps: int, bytes_per_step: int) -> Brain:
    """Return the model and the services."""
    return LiveEngine(seed, steps, bytes_per_step)


def facts(seed: int, steps: int, bytes_per_step: int, max_requests: int) -> Facts:
    """Return what is true of a right result: the table is no part of it."""
    known = quarterly_sales.facts(seed, steps, bytes_per_step, max_requests)
    return replace(known, digests=tuple(each for each in known.digests if not each[0].endswith(".csv")))


@dataclass(frozen=True)
class LiveEngine(QuarterlySales):
    """The scripted model that has the engine consume the table, and looks at figures through the engine only."""

    def _step(self, turn: int, beat: str, quarter: str, goal: str, results: Results) -> Step:
        step = super()._step(turn, beat, quarter, goal, results)
        if beat == "engine":
            return replace(step, arguments={"command": ["salesmath.engine", f"../data/{quarter.lower()}.csv", CONSUME]})
        return step

    def _analysis(self, number: int, quarter: str) -> tuple[str, dict[str, object]]:
        """Return an analysis turn that does not read the table, for it is gone."""
        tool, arguments = super()._analysis(number, quarter)
        while tool in ("run", "read_file"):
            number += 1
            tool, arguments = super()._analysis(number, quarter)
        return tool, arguments
