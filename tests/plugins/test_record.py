"""`record` with real agents and a provider on loopback; campaigns then run from what it wrote."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import TypeAlias, cast

import msgspec
import pytest

from chaos import journal
from chaos.campaign import Cell, Runner
from chaos.events.seen import Asked
from chaos.journal import Journal
from chaos.plugins.command_line import main
from chaos.results import CellResult, RunResult
from chaos.scenario.loader import load
from chaos.targets.command import Command
from chaos.targets.command.script import Script
from chaos.world.cassette import exchanges
from chaos.world.server import World

SHIPPED = Path(journal.__file__).parent / "scenarios" / "own_agent.chaos.yaml"
KEY = "sk-proj-a-secret-of-some-length"
TURNS = """    turns:
      - call: {find: {to: Oslo}}
      - call: {book: {flight: SK 4455}}
      - call: {pay: {amount: 120}}
      - say: Booked SK 4455 and paid 120.
"""
FAULTS = """faults:
  - {kind: kill, name: before-the-model, at: {operation: model_call, n: every}}
  - {kind: kill, name: after-the-effect, at: {operation: effect, n: every}}
"""
SEED = 11

Record: TypeAlias = Callable[..., tuple[int, str]]


@pytest.fixture
def provider(tmp_path: Path) -> Iterator[World]:
    """Return a world that says what the shipped scenario's model says: a provider."""
    target = cast(Command, load(SHIPPED).target)
    kept = Journal(tmp_path / "provider.jsonl")
    with World(Script(target.turns, {}, ""), kept) as world:
        yield world
    kept.close()


@pytest.fixture
def record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Record:
    """Run the command in a folder of its own; return its exit code and all that was printed."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)

    def run(*words: str) -> tuple[int, str]:
        code = main(["record", "--to", "booking.jsonl", *words])
        printed = capfd.readouterr()
        return code, printed.out + printed.err

    return run


def cells(folder: Path, path: Path) -> dict[str, CellResult]:
    """Run the cells of the scenario in *path*."""
    scenario, out = load(path), folder / "out"
    out.mkdir()
    with closing(Runner(out, "test", SEED)) as runner:
        return {one.label: runner.run_cell(Cell(scenario, scenario.strategies[0], one)) for one in scenario.faults}


def scenario(folder: Path, more: str = "", agent: str = "") -> Path:
    """Write the shipped scenario with a cassette in place of its turns, and two of its faults."""
    text = SHIPPED.read_text().partition("faults:\n")[0].replace("${{ here }}", str(SHIPPED.parent))
    assert TURNS in text
    text = text.replace(TURNS, f'    cassette: "${{{{ here }}}}/booking.jsonl"\n{more}')
    path = folder / "booking.chaos.yaml"
    path.write_text(
        text.replace(
            str(SHIPPED.parent / "own_agent" / "booking.py"), agent or str(SHIPPED.parent / "own_agent" / "booking.py")
        )
        + FAULTS
    )
    return path


def test_a_recorded_agent_runs_without_its_provider(tmp_path: Path, provider: World, record: Record) -> None:
    path = scenario(tmp_path)
    code, told = record("--provider", f"http://127.0.0.1:{provider.port}", "--scenario", str(path))
    assert code == 0 and "4 exchanges, 4 prompts with an answer" in told, told
    provider.close()
    found = cells(tmp_path, path)
    assert {label: (str(cell.verdict), cell.landed) for label, cell in found.items()} == {
        "before-the-model": ("recovered", 4),
        "after-the-effect": ("diverged", 2),
    }
    lines = (tmp_path / "out" / "results.jsonl").read_bytes().splitlines()
    logs = [tmp_path / "out" / msgspec.json.decode(line, type=RunResult).journal for line in lines]
    asked = [event for log in logs for event in journal.read(log) if isinstance(event, Asked)]
    assert {event.status for event in asked} == {200} and {event.turn for event in asked} == {0, 1, 2, 3}


def test_a_command_of_its_own_and_its_exit_code(tmp_path: Path, provider: World, record: Record) -> None:
    code = (
        "import json, os, sys, urllib.request as web\n"
        "body = json.dumps({'model': 'm', 'input': 'hi', 'stream': True}).encode()\n"
        "headers = {'Content-Type': 'application/json', 'Authorization': 'Bearer ' + os.environ['OPENAI_API_KEY']}\n"
        "asked = web.urlopen(web.Request(os.environ['OPENAI_BASE_URL'] + '/responses', body, headers))\n"
        "assert b'response.completed' in asked.read()\n"
        "sys.exit(int(sys.argv[1]))\n"
    )
    url = f"http://127.0.0.1:{provider.port}/v1"
    assert record("--provider", url, "--", sys.executable, "-c", code, "0")[0] == 0
    (exchange,) = exchanges(tmp_path / "booking.jsonl")
    assert exchange.events and KEY not in (tmp_path / "booking.jsonl").read_text()
    status, told = record("--", "true")
    assert status == 2 and "there is a cassette; --force replaces it" in told
    status, told = record("--force", "--provider", url, "--", sys.executable, "-c", code, "3")
    assert status == 1 and "1 prompts with an answer" in told and "the agent ended with 3" in told


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        ([], 2, "name the agent"),
        (["--", "/no/such/agent"], 2, "/no/such/agent: cannot be started"),
        (["--", sys.executable, "-c", ""], 1, "the model said nothing: does the agent find it by OPENAI_BASE_URL"),
        (["--scenario", "none.chaos.yaml"], 2, "none.chaos.yaml"),
    ],
)
def test_what_is_wrong_is_told_and_leaves_nothing(
    tmp_path: Path, record: Record, words: list[str], code: int, told: str
) -> None:
    status, printed = record(*words)
    assert status == code and told in printed
    assert code == 1 or not (tmp_path / "booking.jsonl").exists()


ASKS_THE_TIME = """
import json, os, time, urllib.request as web
prompt = f"Book a trip to Oslo. It is {time.time_ns()} now."
body = json.dumps({"model": "any", "messages": [{"role": "user", "content": prompt}]}).encode()
web.urlopen(web.Request(os.environ["OPENAI_BASE_URL"] + "/chat/completions", body))
open("trip.md", "w").close()
"""


def test_prompts_with_the_time_in_them(tmp_path: Path, provider: World, record: Record) -> None:
    """Masked, they are one prompt for the cassette and for the checks."""
    (tmp_path / "asks.py").write_text(ASKS_THE_TIME)
    path = scenario(tmp_path, '    volatile_prompts: ["\\\\d{10,}"]\n', str(tmp_path / "asks.py"))
    assert record("--provider", f"http://127.0.0.1:{provider.port}", "--scenario", str(path))[0] == 0
    found = cells(tmp_path, path)["before-the-model"]
    assert (str(found.verdict), found.landed, dict(found.findings)) == ("recovered", 1, {})
