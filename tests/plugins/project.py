"""A user's project in a temporary folder, and pytest run in it as a user runs it: as a process of its own."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from chaos import journal
from chaos.events.seen import Started

QUICK = """\
version: 1
scenario: {name}
tags: [demo, two-words]
target: {{reference: {{workload: quarterly_sales, steps: 12}}}}
strategies: {strategies}
runs: {runs}
faults: {faults}
{more}
"""
KILL = "{kind: kill, at: {step: random, phase: [before_think, after_commit], after: 6, before: 10}}"
LATE = "{kind: kill, name: late, at: {step: 2, phase: after_act}}"  # the e-mail is sent and not recorded: sent again

FOREIGN = ("langsmith_plugin", "anyio", "hypothesispytest", "faker")
"""Plug-ins that come with our dependencies; without them a start of pytest takes a third of the time."""

MANY = """
import json, sys, pytest
from tests.waiting import until
for arguments in json.loads(sys.argv[1]):
    code = pytest.main(arguments)
    print(f"\\nENDED {code:d}")
"""


def scenario(
    name: str = "quick",
    strategies: str = "[cow]",
    faults: str = f"[{KILL}]",
    runs: int = 2,
    more: str = "",
) -> str:
    """Return a scenario whose runs take half a second."""
    return QUICK.format(name=name, strategies=strategies, faults=faults, runs=runs, more=more)


@dataclass(frozen=True)
class Done:
    """A pytest that has ended. *out* is what it printed, errors too."""

    code: int
    out: str
    folder: Path

    def rows(self, name: str) -> list[dict[str, Any]]:
        """Return the objects of one of the results' files; none if it is not there."""
        path = self.folder / name
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    @property
    def runs(self) -> list[dict[str, Any]]:
        return self.rows("results.jsonl")

    @property
    def cells(self) -> list[dict[str, Any]]:
        return self.rows("cells.jsonl")

    @property
    def info(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.folder / "campaign.json").read_text())
        return found

    @property
    def report(self) -> Path:
        return self.folder / "report.html"

    @property
    def verdicts(self) -> dict[tuple[str, str, int], tuple[str, str, tuple[str, ...]]]:
        """Return plan, verdict and broken checks of every run, by strategy, fault and number."""
        return {
            (run["strategy"], run["fault"], run["run"]): (run["plan"], run["verdict"], tuple(run["broke"]))
            for run in self.runs
        }


class Project:
    """A folder with tests and scenarios; everything that pytest and the harness leave behind is below it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.tmp = folder / "tmp"
        self.tmp.mkdir(parents=True)

    def write(self, name: str, text: str) -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    def run_all(self, *calls: Sequence[str]) -> list[Done]:
        """Run pytest once for each of *calls*, one after the other in one process: starting is what takes time."""
        process = subprocess.run(
            [sys.executable, "-c", MANY, json.dumps([[*_without(FOREIGN), *call] for call in calls])],
            cwd=self.folder,
            env=self._env(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=90,
            check=True,
        )
        ended = re.findall(r"(.*?)^ENDED (\d+)$", process.stdout, re.DOTALL | re.MULTILINE)
        return [Done(int(code), out, self.folder / ".chaos") for out, code in ended]

    def start(self, *arguments: str, foreign: bool = False, **variables: str) -> subprocess.Popen[str]:
        """Start pytest in a session of its own, as a terminal does."""
        return subprocess.Popen(
            [sys.executable, "-m", "pytest", *_without(() if foreign else FOREIGN), *arguments],
            cwd=self.folder,
            env={**self._env(), **variables},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def _env(self) -> dict[str, str]:
        ours = ("CHAOS_", "PYTEST_", "GITHUB_")
        env = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
        for name in ("CI", "BUILD_NUMBER"):  # with either, pytest's last lines repeat each failure whole
            env.pop(name, None)
        if "CHAOS_CGROUP" in os.environ:  # says what this machine gives us, not what to do
            env["CHAOS_CGROUP"] = os.environ["CHAOS_CGROUP"]
        env["CHAOS_SHRINK"] = "0"  # a failing cell would take a minute; tests/shrink has its own
        return {**env, "TMPDIR": str(self.tmp), "COLUMNS": "120", "PYTHONUNBUFFERED": "1"}

    def run(self, *arguments: str, results: str = ".chaos", foreign: bool = False, **variables: str) -> Done:
        return self.end(self.start(*arguments, foreign=foreign, **variables), results)

    def end(self, process: subprocess.Popen[str], results: str = ".chaos") -> Done:
        """Wait for the end of *process*."""
        try:
            out, _ = process.communicate(timeout=90)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            out, _ = process.communicate()
            raise AssertionError(f"pytest did not end:\n{out}") from None
        return Done(process.returncode, out, self.folder / results)

    def replay(self, command: str) -> Done:
        """Run a printed replay command as it is printed."""
        program, *arguments = shlex.split(command)
        assert program == "pytest"
        return self.run(*arguments, results=".chaos/replay")

    def sandboxes(self) -> list[str]:
        """Return the harness's temporary folders."""
        return sorted(path.name for path in self.tmp.glob("chaos-*"))

    def agents(self) -> set[int]:
        """Return the processes of agents that were started, according to the journals, and are still alive."""
        pids = {
            event.pid
            for path in self.folder.glob(".chaos/runs/**/journal.jsonl")
            for event in journal.read(path)
            if isinstance(event, Started)
        }
        return {pid for pid in pids if _alive(pid)}


def _without(plugins: Sequence[str]) -> list[str]:
    return [word for name in plugins for word in ("-p", f"no:{name}")]


def _alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


def cgroups(pids: set[int]) -> list[str]:
    """Return the harness's cgroups that were made by one of *pids*."""
    found = []
    for top, folders, _ in os.walk("/sys/fs/cgroup"):
        for name in folders:
            made = re.fullmatch(r"chaos-.*?(\d+)-\d+", name)
            if made and int(made[1]) in pids:
                found.append(os.path.join(top, name))
    return found
