"""1,000 campaigns with one seed: their plans and verdicts must be the same, byte by byte."""

from __future__ import annotations

import hashlib
import os
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import msgspec

from chaos.campaign import Cell, Runner
from chaos.explorers.every import Every
from chaos.explorers.sampled import Sampled
from chaos.faults.crash_loop import CrashLoop
from chaos.faults.kill import Kill
from chaos.results import RUNS, RunResult
from chaos.route import Speed
from chaos.scenario import FaultSpec, StrategySpec
from tests.bench.exhaustive import SEED, loop, scenario

CAMPAIGNS = 1000
STEPS = 12
RUNS_EACH = 5
SHARE = 25  # campaigns that a process runs one after the other


def campaign() -> bytes:
    """Run one campaign and return its plans and verdicts: all points of a kill, and some of a crash loop."""
    agent = loop(STEPS)
    spec = StrategySpec("loop", "loop", agent.target.strategy("loop", {}))
    faults = (
        FaultSpec("kill", "kill", Kill(), Every(phases=("after_act",))),
        FaultSpec("crash_loop", "crash_loop", CrashLoop(), Sampled()),
    )
    made = scenario(agent.target, spec, *faults, runs=RUNS_EACH)
    with tempfile.TemporaryDirectory(prefix="chaos-bench-") as top:
        runner = Runner(Path(top), "bench", SEED, speed=Speed.FAST)
        try:
            for fault in faults:
                runner.run_cell(Cell(made, spec, fault))
        finally:
            runner.close()
        runs = [msgspec.json.decode(line, type=RunResult) for line in Path(top, RUNS).read_bytes().splitlines()]
    told = sorted(
        (run.fault, run.run, run.seed, run.plan, str(run.verdict), run.broke, run.how, run.like) for run in runs
    )
    return msgspec.json.encode(told)


def several(count: int) -> list[str]:
    """Return the digests of so many campaigns."""
    return [hashlib.sha256(campaign()).hexdigest() for _ in range(count)]


def measured(count: int = CAMPAIGNS) -> dict[str, Any]:
    """Run *count* campaigns on all cores, and return how many different ones there were."""
    began = time.monotonic()
    shares = [min(SHARE, count - begun) for begun in range(0, count, SHARE)]
    with ProcessPoolExecutor(os.cpu_count(), mp_context=get_context("spawn")) as pool:
        digests = [digest for share in pool.map(several, shares) for digest in share]
    different = len(set(digests))
    print(f"  {len(digests)} campaigns, {different} different, {time.monotonic() - began:.0f} s", flush=True)
    if different != 1:
        raise SystemExit("campaigns with the same seed came to different plans or verdicts")
    return {"campaigns": {"run": len(digests), "different": different, "seconds": round(time.monotonic() - began, 1)}}
