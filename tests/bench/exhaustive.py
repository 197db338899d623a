"""Crash points for each second, by how their runs are made; cost of each against the length of the run; memory.

    fresh      a new interpreter for each incarnation, and each run from its start: what everybody does
    forked     each run from its start, agents forked from a process with their imports done
    captured   resumed from crash states that were captured in one recorded run, 5 % of them killed for real as well
    pruned     likewise, equal crash states once

A rate is crash points by seconds of a whole cell on all cores, each of which has a part of it: reference runs,
recording, runs, judging, real kills. Of the two that run each point from its start some points are enough, evenly
spread, and their rate is of these runs alone.
"""

from __future__ import annotations

import os
import resource
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple

import msgspec

from chaos import registry, results
from chaos.campaign import Cell, Runner
from chaos.checks import Terms
from chaos.explorers import Explorer
from chaos.explorers.every import Every
from chaos.explorers.fixed import Fixed
from chaos.faults.kill import Kill
from chaos.parts import Part
from chaos.results import KILLED, CellResult, RunResult
from chaos.route import Speed
from chaos.scenario import FaultSpec, Limits, Scenario, StrategySpec
from chaos.targets import Target
from tests.bench.plain import Plain

SEED = 1
CORES = os.cpu_count() or 1
READY_SECONDS = 0.5
DEADLINE = 600.0  # s for one run: a long one on a swamped machine


class Agent(NamedTuple):
    """What is measured: a strategy of a target, and how many points are run from their start."""

    target: Target
    strategy: str
    fresh: int
    forked: int


@dataclass(frozen=True)
class Rate:
    """Crash points of a cell: how many, in how many seconds, how many are distinct, how many were killed for real.

    *memory_mb*: the most that one of the harness's processes had.
    """

    points: int
    seconds: float
    distinct: int
    killed: int
    memory_mb: int
    verdicts: Mapping[str, int]
    told: tuple[tuple[str, str, tuple[str, ...]], ...]  # plan, verdict, broken promises of each

    @property
    def per_second(self) -> float:
        return self.points / self.seconds


def loop(steps: int) -> Agent:
    """Return the plain loop: a commit of SQLite for each step, a file every fifth, an e-mail every twentieth."""
    return Agent(Plain(steps), "loop", fresh=8, forked=20)


def reference(strategy: str, steps: int, *, workload: str = "quarterly_sales", bytes_per_step: int = 200) -> Agent:
    """Return the reference agent with *strategy*."""
    made = registry.load("targets", "reference")(steps=steps, workload=workload, bytes_per_step=bytes_per_step)
    return Agent(made, strategy, fresh=3, forked=6)


def measured(
    agent: Agent, speed: Speed, *, warm: bool = True, prune: bool = True, every: Explorer | None = None
) -> Rate:
    """Kill *agent* at every point, or at those of *every*, with all cores, and return the rate."""
    parts = [Part(number + 1, CORES) for number in range(CORES)]
    with ProcessPoolExecutor(CORES, mp_context=get_context("spawn")) as pool:
        list(pool.map(_ready, range(CORES)))  # what it takes to import all of this is no part of any rate
        shares = [pool.submit(_share, agent, speed, warm, prune, every or Every(), part) for part in parts]
        return _together([share.result() for share in shares])


def _ready(number: int) -> None:
    time.sleep(READY_SECONDS)  # long enough for each of the pool's processes to take one


def _share(agent: Agent, speed: Speed, warm: bool, prune: bool, every: Explorer, part: Part) -> Rate:
    """Run one part of the cell in this process."""
    spec = StrategySpec(agent.strategy, agent.strategy, agent.target.strategy(agent.strategy, {}))
    fault = FaultSpec("kill", "kill", Kill(), every)
    with tempfile.TemporaryDirectory(prefix="chaos-bench-") as top:
        folder = Path(top)
        runner = Runner(folder, "bench", SEED, warm=warm, speed=speed, prune=prune)
        try:
            began = time.monotonic()
            cell = runner.run_cell(Cell(scenario(agent.target, spec, fault), spec, fault, part=part))
            seconds = time.monotonic() - began
        finally:
            runner.close()
        return _rate(cell, sorted(_runs(folder), key=lambda run: run.run), seconds, speed)


def _together(shares: Sequence[Rate]) -> Rate:
    verdicts = Counter[str]()
    for share in shares:
        verdicts.update(share.verdicts)
    return Rate(
        points=sum(share.points for share in shares),
        seconds=max(share.seconds for share in shares),
        distinct=sum(share.distinct for share in shares),
        killed=sum(share.killed for share in shares),
        memory_mb=max(share.memory_mb for share in shares),
        verdicts=verdicts,
        told=tuple(one for share in shares for one in share.told),
    )


def from_the_start(agent: Agent, points: int, *, warm: bool) -> Rate:
    """Kill *agent* at so many points, evenly spread, each in a run from its start."""
    steps = agent.target.steps
    chosen = tuple((2 * number + 1) * steps // (2 * points) for number in range(points))
    return measured(agent, Speed.REAL, warm=warm, every=Fixed(chosen, ("after_act",)))


def _rate(cell: CellResult, runs: Sequence[RunResult], seconds: float, speed: Speed) -> Rate:
    if bad := [run.error for run in runs if run.error] or ([cell.why] if not runs else []):
        raise SystemExit(f"{cell.strategy}: {bad[0]}")
    if speed is Speed.REAL:
        seconds = sum(run.seconds for run in runs)
    verdicts: dict[str, int] = {}
    for run in runs:
        verdicts[str(run.verdict)] = verdicts.get(str(run.verdict), 0) + 1
    return Rate(
        points=len(runs),
        seconds=seconds,
        distinct=sum(not run.like for run in runs),
        killed=sum(run.how == KILLED for run in runs),
        memory_mb=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10,
        verdicts=verdicts,
        told=tuple((run.plan, str(run.verdict), run.broke) for run in runs),
    )


def _runs(folder: Path) -> Sequence[RunResult]:
    if not (folder / results.RUNS).exists():
        return ()
    lines = (folder / results.RUNS).read_bytes().splitlines()
    return [msgspec.json.decode(line, type=RunResult) for line in lines]


def scenario(target: Target, strategy: StrategySpec, *faults: FaultSpec, runs: int = 1) -> Scenario:
    """Return a scenario of one strategy, judged by all checks."""
    return Scenario(
        path=Path("bench.chaos.yaml"),
        name="bench",
        description="",
        tags=(),
        target=target,
        strategies=(strategy,),
        faults=faults,
        checks=tuple(registry.names("checks")),
        terms=Terms(),
        volatile=(),
        expected=(),
        limits=Limits(deadline_seconds=DEADLINE),
        runs=runs,
        seed=SEED,
    )
