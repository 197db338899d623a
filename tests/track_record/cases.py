"""The bugs, a folder each, and what it takes to look for one."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from chaos import results
from chaos.results import Campaign, CellResult
from tests.track_record.environments import interpreter

FOLDER = Path(__file__).parent
SIDES = ("affected", "newest")
SEED = "1"  # of every campaign here: a finding is to be seen again
SECONDS = 600.0  # for one campaign; the longest waits a minute for a rate limit, three times
_JUDGED = (0, 1)  # pytest's status where all tests ran
_CRASH_FREE = re.compile(r"the crash-free run breaks (\w+) by itself: (.*)", re.DOTALL)


@dataclass(frozen=True)
class Bug:
    """One bug: its *folder* holds `agent.py`, `scenario.chaos.yaml` and `pins.txt`."""

    folder: Path

    @property
    def id(self) -> str:
        return self.folder.name

    @property
    def scenario(self) -> Path:
        return self.folder / "scenario.chaos.yaml"

    @cached_property
    def _lines(self) -> list[str]:
        return [line.strip() for line in (self.folder / "pins.txt").read_text().splitlines() if line.strip()]

    @property
    def title(self) -> str:
        """The first line of its pins: the project, and what goes wrong."""
        return self._lines[0].lstrip("# ")

    @property
    def report(self) -> str:
        """The second: the address of the public report."""
        return self._lines[1].lstrip("# ")

    def pins(self, side: str) -> tuple[str, ...]:
        """Return the exact versions on that *side*, the package first that the bug is in."""
        start = self._lines.index(f"[{side}]") + 1
        end = next((place for place in range(start, len(self._lines)) if self._lines[place][0] == "["), None)
        return tuple(line for line in self._lines[start:end] if not line.startswith("#"))


@dataclass(frozen=True)
class Found:
    """What became of looking for *bug* in *version*: *checks* that broke; none where nothing did.

    *plan* is the smallest that broke them, "no fault" where the crash-free run does. *unclear*: nothing can be said.
    """

    bug: Bug
    side: str
    version: str
    checks: tuple[str, ...] = ()
    plan: str = ""
    finding: str = ""
    unclear: str = ""

    @property
    def command(self) -> str:
        return f"python -m tests.track_record {self.bug.id}" + (
            "" if self.side == "affected" else f" --version {self.side}"
        )

    def __str__(self) -> str:
        if self.unclear:
            return f"{self.bug.id}  UNCLEAR in {self.version}: {self.unclear}"
        if not self.checks:
            return f"{self.bug.id}  not found in {self.version}\n  {self.command}"
        by = f"{', '.join(self.checks)} with {self.plan}"
        return f"{self.bug.id}  FOUND in {self.version} by {by}\n  {self.finding}\n  {self.command}"


def bugs() -> list[Bug]:
    """Return all of them, in the order of their names."""
    return [Bug(path.parent) for path in sorted(FOLDER.glob("*/pins.txt"))]


def look_for(bug: Bug, side: str, keep: Path | None = None) -> Found:
    """Run the campaign of *bug* with the versions of *side* and return what it found.

    Args:
        keep: a folder for the results and their report; None: they are removed.

    Raises:
        CalledProcessError: the versions could not be installed.
        TimeoutExpired: the campaign took longer than SECONDS.
    """
    pins = bug.pins(side)
    with tempfile.TemporaryDirectory(prefix="track-record-") as folder:
        seen = outcome(bug.scenario, pins, keep or Path(folder, "results"))
    return Found(bug, side, pins[0], unclear=seen) if isinstance(seen, str) else found(bug, side, seen)


def outcome(scenario: Path, pins: Sequence[str], out: Path, *more: str) -> Campaign | str:
    """Run *scenario* with the packages *pins*; return the results, which stay in *out*, or why there are none.

    Args:
        more: options of pytest.
    """
    python = interpreter(pins)
    options = ["-q", "-p", "no:cacheprovider", "--chaos", "--chaos-seed", SEED, "--chaos-results", str(out), *more]
    # what a user does who activates the environment: the scenario's `python` is the first one on the path
    env = {**os.environ, "PATH": os.pathsep.join([str(python.parent), os.environ.get("PATH", os.defpath)])}
    with tempfile.TemporaryDirectory(prefix="track-record-") as folder:
        done = subprocess.run(
            [sys.executable, "-m", "pytest", *options, str(scenario)],
            cwd=folder, env=env, capture_output=True, text=True, timeout=SECONDS, check=False,
        )  # fmt: skip
    if done.returncode not in _JUDGED or not (out / "cells.jsonl").exists():
        return f"no campaign: {(done.stdout + done.stderr)[-800:]}"
    return results.read(out)


def found(bug: Bug, side: str, campaign: Campaign) -> Found:
    """Return what *campaign* says of *bug*."""
    version = bug.pins(side)[0].replace("==", " ")
    bad = [cell for cell in campaign.cells if not cell.passed or cell.skipped]
    for cell in bad:
        if crash_free := _CRASH_FREE.match(cell.why):
            return Found(bug, side, version, (crash_free[1],), "no fault", crash_free[2])
        if checks := _broken(cell):
            plan = min((run.plan for run in campaign.runs if run.key == cell.key and run.broke), key=len, default="")
            finding = next(iter(cell.findings.values()), cell.why)
            return Found(bug, side, version, checks, cell.minimal[0].case if cell.minimal else plan, finding)
    if bad:
        return Found(bug, side, version, unclear=bad[0].why or bad[0].skipped)
    return Found(bug, side, version)


def _broken(cell: CellResult) -> tuple[str, ...]:
    return tuple(cell.findings)
