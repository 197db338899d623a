"""A thousand campaigns with one seed have byte-identical plans, whichever explorers they use."""

from __future__ import annotations

import hashlib
import random

from chaos import registry, seeds
from chaos.explorers import Explorer, Seeker
from chaos.explorers.arrivals import Arrivals
from chaos.explorers.combine import Combine, combine
from chaos.explorers.every import Every
from chaos.explorers.fixed import Fixed
from chaos.explorers.operation import Operation
from chaos.explorers.pairs import Pairs
from chaos.explorers.recovery import Recovery
from chaos.explorers.repeat import Repeat
from chaos.explorers.replay import Replay
from chaos.explorers.sampled import Sampled
from chaos.explorers.search import Search
from chaos.explorers.syscall import Syscall
from chaos.explorers.until_none import UntilNone
from chaos.faults.kill import Kill
from chaos.plan import STEP_PHASES, Point, parse_plan
from chaos.seeds import rng
from tests.explorers.space import LIMIT, further, spec, tried

CAMPAIGNS = 1000
POINTS = [
    *(Point(step, phase) for step in range(3) for phase in STEP_PHASES),
    *(Point(number, phase) for number in range(1, 4) for phase in ("fsync", "model_call")),
]
AGAIN = further("again", Kill(), Recovery())
EXPLORERS: tuple[Explorer, ...] = (
    Arrivals("poisson"), Arrivals("bernoulli", 0.3), Combine(Sampled(), (AGAIN,)), Every(), Every(draw=True),
    Fixed((1,), ("after_act",)), Fixed((1, 2), STEP_PHASES, draw=True), Operation(), Recovery(), Repeat(), Sampled(),
    Replay(parse_plan("kill@1/after_act")), Syscall(), Pairs(2, ("after_act",)), Search(2), UntilNone(),
)  # fmt: skip
RUNS = 2


def planned(seed: int) -> bytes:
    """Return all plans of one campaign, as a campaign draws them: a cell for each explorer, with two faults."""
    lines = []
    for number, at in enumerate(EXPLORERS):
        draw, fault = rng(seed, "scenario", number, "plans"), spec(at, LIMIT)
        if isinstance(at, Search | Pairs):
            lines += map(str, tried(at, fault, RUNS, draw.getrandbits(32), points=POINTS))
        elif isinstance(at, Seeker):
            lines += map(str, at.plans(POINTS, "kill", RUNS, draw))
        else:
            lines += map(str, combine(fault, POINTS, RUNS, draw))
    return "\n".join(lines).encode()


def test_a_thousand_campaigns_with_one_seed_have_the_same_plans() -> None:
    digests = {hashlib.sha256(planned(8412)).hexdigest() for _ in range(CAMPAIGNS)}
    assert len(digests) == 1
    assert planned(8413) != planned(8412)


def test_every_explorer_is_among_them() -> None:
    names = {type(each).__name__ for each in EXPLORERS}
    assert names == {registry.load("explorers", name).__name__ for name in registry.names("explorers")}


def test_the_generator_of_everybody_else_is_left_alone() -> None:
    random.seed(1)
    state = random.getstate()
    planned(seeds.fresh())
    assert random.getstate() == state
