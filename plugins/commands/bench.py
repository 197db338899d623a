"""`pytest-chaos bench`: how many crash points a second this machine tests.

Through the front door: pytest runs a scenario that kills at every phase of every step. What `make bench` measures of
the harness itself, in ten minutes, is a matter of its developers and needs a checkout.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from chaos.plugins.commands import BROKEN, OK, alone

HELP = "measure how many crash points a second this machine tests, to plan a campaign by"
EPILOG = """loop: a plain durable loop, one small checkpoint a step. full_snapshot: LangGraph on SQLite.
A rate is of one process, reference runs and verdicts included; `pytest -n auto` has as many as cores.
exit codes: 0 done; 1 a run could not be made, so that nothing was measured"""

AGENTS: Mapping[str, str] = {"loop": "{planted: {bug: none, steps: %d}}", "full_snapshot": "{reference: {steps: %d}}"}
"""The strategies that are measured, and the targets that they drive."""

SPARSE = 8  # every so-manieth step is enough for runs from their start, of which each takes as long as any
SCENARIO = """\
version: 1
scenario: bench
target: {target}
strategies: [{name}]
faults: [{{kind: kill, at: {{step: {step}, phase: {phase}}}}}]
expect: {{checks: [state]}}
limits: {{deadline: 10m}}
"""


class Rate(NamedTuple):
    """Crash points that were tested, in how many seconds, and how many of them are distinct."""

    points: int
    seconds: float
    distinct: int

    @property
    def per_second(self) -> float:
        return self.points / self.seconds


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("--steps", type=int, default=40, metavar="N", help="of the agent's work; default: 40")
    parser.add_argument("--agent", choices=tuple(AGENTS), help="only this one; default: each")
    parser.add_argument("--format", choices=("text", "json"), default="text", help="default: text")


def run(options: argparse.Namespace) -> int:
    """Measure each agent, derived and from the start, and print the rates."""
    from chaos import leftovers
    from chaos.errors import HarnessError, ScenarioError

    least = max(SPARSE, 13)  # steps of the reference agent's shortest script, and a bit
    if not least <= options.steps <= 1000:
        raise ScenarioError(f"--steps takes a number from {least} to 1000, not {options.steps}")
    folder = leftovers.folder("bench-")
    rates: dict[str, dict[str, Rate]] = {}
    try:
        for name in [options.agent] if options.agent else AGENTS:
            for speed in ("fast", "real"):
                rates.setdefault(name, {})[speed] = _measured(folder, name, speed, options.steps)
                if options.format == "text":
                    print(_line(name, speed, rates[name][speed]), flush=True)
    except HarnessError as error:
        print(error, file=sys.stderr)
        return BROKEN
    finally:
        leftovers.surely(lambda: leftovers.remove(folder))
    if options.format == "json":
        print(json.dumps({"v": 1, "steps": options.steps, "rates": _figures(rates)}, indent=2))
    return OK


def _measured(folder: Path, name: str, speed: str, steps: int) -> Rate:
    """Run one cell in a pytest of its own; its seconds are the cell's, without those of starting pytest."""
    import subprocess

    from chaos import results
    from chaos.errors import HarnessError

    where, phase = (list(range(SPARSE // 2, steps, SPARSE)), "after_act") if speed == "real" else ("every", "every")
    path, out = folder / f"{name}-{speed}.chaos.yaml", folder / f"{name}-{speed}"
    path.write_text(SCENARIO.format(name=name, target=AGENTS[name] % steps, step=where, phase=phase), encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "--chaos", path.name, "-q", "--durations=0", "--durations-min=0"]
    command += ["-p", "no:cacheprovider", "-p", "chaos", "--rootdir", str(folder)]
    command += ["-c", "/dev/null", "--chaos-speed", speed, "--chaos-shrink", "0", "--chaos-results", str(out)]
    command += ["--chaos-seed", "1", f"--junitxml={out}.xml", "-o", "junit_duration_report=call"]
    done = subprocess.run(command, cwd=folder, env=alone(), capture_output=True, text=True, check=False)
    runs = results.read(out).runs if (out / results.CAMPAIGN).exists() else ()
    if not runs or any(run.error for run in runs):
        why = next((run.error for run in runs if run.error), done.stdout + done.stderr)
        raise HarnessError(f"{name} could not be measured: {why}")
    return Rate(len(runs), _seconds(Path(f"{out}.xml")), sum(not run.like for run in runs))


def _seconds(path: Path) -> float:
    """Return how long the one test took, set-up apart."""
    from xml.etree import ElementTree

    [case] = ElementTree.parse(path).iter("testcase")
    return float(case.attrib["time"])


def _line(name: str, speed: str, rate: Rate) -> str:
    how = f"derived from captured crash states, {rate.distinct} distinct" if speed == "fast" else "each from its start"
    return f"{name:14} {rate.per_second:8.1f} points/s   {rate.points} in {rate.seconds:.1f} s, {how}"


def _figures(rates: Mapping[str, Mapping[str, Rate]]) -> dict[str, object]:
    return {
        name: {speed: {**rate._asdict(), "per_second": round(rate.per_second, 2)} for speed, rate in each.items()}
        for name, each in rates.items()
    }
