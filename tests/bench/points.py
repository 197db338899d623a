"""`make bench`: how fast crash points are tested, and that nothing is lost by it; written to `bench.json`.

All ratios are of figures of one run of this script. It takes about ten minutes on two cores; the parts that are named
as arguments alone: overhead, rates, growth, matrix, campaigns.
"""

from __future__ import annotations

import json
import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from chaos.results import KILLED, RUNS, RunResult
from chaos.route import Speed
from tests.bench import campaigns, overhead
from tests.bench.exhaustive import Agent, Rate, from_the_start, loop, measured, reference

STEPS = 100  # of the runs whose rates are compared
LENGTHS = (50, 100, 200, 400, 800, 1600)
MATRIX_STEPS = 200
EMBEDDED = (
    "restart", "in_memory", "chat_history", "full_snapshot", "selective", "delta", "deep_agents", "semantic", "cow",
    "events", "segmented", "layered",
)  # fmt: skip
OUTPUT = Path("bench.json")

Figures = dict[str, Any]


def rates() -> Figures:
    """Measure the four ways to make runs, on four agents."""
    agents: Mapping[str, Agent] = {
        "loop": loop(STEPS),
        "langgraph": reference("full_snapshot", STEPS, workload="long_notes", bytes_per_step=1000),
        "langgraph_delta": reference("delta", STEPS, workload="long_notes", bytes_per_step=1000),
        "dbos": reference("events", STEPS, workload="long_notes", bytes_per_step=1000),
    }
    found: Figures = {}
    for name, agent in agents.items():
        ways: Mapping[str, Callable[[], Rate]] = {
            "fresh": lambda agent=agent: from_the_start(agent, agent.fresh, warm=False),  # type: ignore[misc]
            "forked": lambda agent=agent: from_the_start(agent, agent.forked, warm=True),  # type: ignore[misc]
            "captured": lambda agent=agent: measured(agent, Speed.FAST, prune=False),  # type: ignore[misc]
            "pruned": lambda agent=agent: measured(agent, Speed.FAST),  # type: ignore[misc]
        }
        made = {way: measure() for way, measure in ways.items()}
        if made["captured"].told != made["pruned"].told:
            raise SystemExit(f"{name}: equal crash states did not lead to equal verdicts")
        for way, rate in made.items():
            print(f"  {name:16} {way:9} {_rate(rate)}", flush=True)
        found[name] = {way: _figures(rate) for way, rate in made.items()}
    fast, langgraph = found["loop"]["pruned"], found["langgraph"]
    return {
        "rates": found,
        "loop_points_per_s": fast["per_second"],
        "langgraph_points_per_s": langgraph["pruned"]["per_second"],
        "langgraph_ratio_to_fresh": round(langgraph["pruned"]["per_second"] / langgraph["fresh"]["per_second"], 1),
        "pruning_ratio": round(fast["points"] / fast["distinct"], 2),
    }


def growth() -> Figures:
    """Measure what a crash point of the plain loop costs by the length of the run, and the memory of the harness."""
    cost: Figures = {}
    for steps in LENGTHS:
        rate = measured(loop(steps), Speed.FAST)
        cost[str(steps)] = {"ms_per_point": round(1000 / rate.per_second, 3), "memory_mb": rate.memory_mb}
        print(f"  {steps:5} steps  {cost[str(steps)]}", flush=True)
    base, long = cost["100"], cost["1600"]
    return {
        "cost_by_steps": cost,
        "cost_1600_to_100": round(long["ms_per_point"] / base["ms_per_point"], 3),
        "memory_1600_to_100": round(long["memory_mb"] / base["memory_mb"], 3),
    }


def matrix() -> Figures:
    """Kill every embedded strategy at each phase of each step, through the front door, and tell what it would take."""
    scenario = f"""\
version: 1
scenario: every-point
target: {{reference: {{workload: long_notes, steps: {MATRIX_STEPS}}}}}
strategies: [{", ".join(EMBEDDED)}]
faults: [{{kind: kill, at: {{step: every, phase: every}}}}]
"""
    with tempfile.TemporaryDirectory(prefix="chaos-bench-") as top:
        folder = Path(top)
        (folder / "every.chaos.yaml").write_text(scenario)
        command = [
            sys.executable,
            "-m",
            "pytest",
            "--chaos",
            "every.chaos.yaml",
            "-q",
            "-n",
            "2",
            "--dist",
            "loadgroup",
        ]
        command += ["--chaos-parts", "1"]  # there are more cells than cores: each is recorded once
        command += ["--chaos-seed", "1", "--chaos-shrink", "0"]  # what breaks is known, and not the question here
        began = time.monotonic()
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        seconds = time.monotonic() - began
        lines = (folder / ".chaos" / RUNS).read_bytes().splitlines()
        runs = [msgspec.json.decode(line, type=RunResult) for line in lines]
    if bad := [run.error for run in runs if run.error]:
        raise SystemExit(f"{bad[0]}\n{done.stdout}")
    figures = {
        "seconds": round(seconds, 1),
        "strategies": len({run.strategy for run in runs}),
        "points": len(runs),
        "distinct": sum(not run.like for run in runs),
        "killed": sum(run.how == KILLED for run in runs),
    }
    print(f"  {figures}", flush=True)
    return {"matrix": figures}


def naive(found: Figures) -> Figures:
    """Return how long the same matrix takes with a new process for each incarnation and each run from its start."""
    agents = [reference(strategy, MATRIX_STEPS, workload="long_notes") for strategy in EMBEDDED]
    each = [1 / from_the_start(agent, 1, warm=False).per_second for agent in agents]
    hours = sum(each) * found["matrix"]["points"] / len(EMBEDDED) / 3600
    print(f"  one fresh process for each incarnation: {hours:.1f} h of one core", flush=True)
    return {"naive_matrix_hours": round(hours, 2)}


def _figures(rate: Rate) -> Figures:
    return {
        "points": rate.points,
        "seconds": round(rate.seconds, 3),
        "per_second": round(rate.per_second, 3),
        "distinct": rate.distinct,
        "killed": rate.killed,
    }


def _rate(rate: Rate) -> str:
    share = f"{rate.distinct} distinct, {rate.killed} killed for real" if rate.killed < rate.points else "each for real"
    return f"{rate.per_second:8.2f} points/s   {rate.points} points in {rate.seconds:.1f} s, {share}"


def main(parts: list[str]) -> None:
    wanted = parts or ["overhead", "rates", "growth", "matrix", "campaigns"]
    found: Figures = {"machine": {"cores": os.cpu_count(), "python": platform.python_version()}}
    if "overhead" in wanted:
        print("what the harness costs a run that nothing breaks")
        found["overhead"] = round(overhead.main(), 4)
    if "rates" in wanted:
        print("crash points a second")
        found |= rates()
    if "growth" in wanted:
        print("the plain loop, by the length of the run")
        found |= growth()
    if "matrix" in wanted:
        print(f"{len(EMBEDDED)} strategies x {MATRIX_STEPS} steps x 5 phases x kill")
        found |= matrix()
        found |= naive(found)
    if "campaigns" in wanted:
        print("campaigns with one seed")
        found |= campaigns.measured()
    found["children_memory_mb"] = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss >> 10
    OUTPUT.write_text(json.dumps(found, indent=2) + "\n")
    print(f"written to {OUTPUT}")


if __name__ == "__main__":
    main(sys.argv[1:])
