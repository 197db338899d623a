"""Random points: the default, and what most scenarios want."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from chaos.explorers import _points
from chaos.plan import STEP_PHASES, Plan, Point
from chaos.seeds import SEED_BITS


@dataclass(frozen=True)
class Sampled:
    """Draw one point for each run: the step uniformly, then the phase; none twice while there are others.

    The step comes first so that a step with many phases is not hit more often than one with few. Each run draws from
    a generator of its own, and a phase that was not reached passes its turn to another one: strategies that
    reach different phases are still broken at the same steps, and in the same phases where they have them.

    Args:
        phases: names of phases to draw from.
        after: first step that may be hit.
        before: last step that may be hit; None is the last of the run.
    """

    phases: tuple[str, ...] = STEP_PHASES
    after: int = 0
    before: int | None = None

    def plans(self, points: Sequence[Point], fault: str, runs: int, rng: random.Random) -> tuple[Plan, ...]:
        """Return *runs* plans, or none if no point of the range was reached."""
        pools: dict[int, list[Point]] = {}
        drawn = []
        for _ in range(runs):
            own = random.Random(rng.getrandbits(SEED_BITS))
            pools = pools or _points.by_step(points, self.phases, self.after, self.before)
            if not pools:
                return ()
            step = own.choice(list(pools))
            order = own.sample(self.phases, len(self.phases))
            chosen = min(pools[step], key=lambda point: order.index(point.phase))
            drawn.append(chosen)
            pools[step].remove(chosen)
            if not pools[step]:
                del pools[step]
        return tuple(_points.plan(fault, point) for point in drawn)
