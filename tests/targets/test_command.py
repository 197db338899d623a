"""Any program as the agent: real ones, unchanged, killed at everything that they do."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest

from chaos import journal
from chaos.campaign import Cell, Runner
from chaos.errors import ScenarioError
from chaos.events.seen import Asked, Observed
from chaos.explorers.every import Every
from chaos.faults.kill import Kill
from chaos.results import CellResult, RunResult, read
from chaos.scenario import FaultSpec, Scenario, StrategySpec
from chaos.scenario.loader import load
from chaos.targets.command import Command
from chaos.targets.command.script import Route, Script, Turn
from chaos.verdict import CellVerdict

SHIPPED = Path(journal.__file__).parent / "scenarios" / "own_agent.chaos.yaml"
AGENTS = Path(__file__).parent / "agents"
SEED = 11

STEADY = "import os, sys, urllib.request as web\nresumed = len(sys.argv) > 1\n"


def perl() -> str:
    """Return the interpreter, "" where there is none with its core modules."""
    found = shutil.which("perl") or ""
    works = found and subprocess.run([found, "-MHTTP::Tiny", "-MJSON::PP", "-e", "1"], check=False).returncode == 0
    return found if works else ""


def shipped(**fields: Any) -> Scenario:
    """Return the scenario that is shipped, with other *fields* of its target, and nothing expected to fail."""
    scenario = load(SHIPPED)
    target = replace(cast(Command, scenario.target), **fields)
    strategy = StrategySpec("own", "own", target.strategy("own", {}))
    return replace(scenario, target=target, strategies=(strategy,), expected=())


@contextmanager
def runner(folder: Path) -> Iterator[Runner]:
    with closing(Runner(folder, "test", SEED)) as made:
        folder.mkdir(exist_ok=True)
        yield made


def cells(folder: Path, scenario: Scenario, *faults: str) -> dict[str, CellResult]:
    """Run the cells of *scenario*, those of *faults* if some are named."""
    strategy, chosen = scenario.strategies[0], [one for one in scenario.faults if not faults or one.label in faults]
    with runner(folder) as made:
        return {fault.label: made.run_cell(Cell(scenario, strategy, fault)) for fault in chosen}


def runs(folder: Path) -> list[RunResult]:
    lines = (folder / "results.jsonl").read_bytes().splitlines()
    return [msgspec.json.decode(line, type=RunResult) for line in lines]


def told(found: Mapping[str, CellResult]) -> dict[str, tuple[str, tuple[str, ...]]]:
    """Return what each cell amounts to, and what broke in its worst run."""
    return {label: (str(cell.verdict), tuple(cell.findings)) for label, cell in found.items()}


def test_the_shipped_one_books_twice_and_only_where_its_scenario_says_so(tmp_path: Path) -> None:
    options = ["-q", "-p", "no:cacheprovider", "--chaos", "--chaos-seed", "3"]
    command = [sys.executable, "-m", "pytest", *options, str(SHIPPED)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout
    campaign = read(tmp_path / ".chaos")
    assert {cell.fault: (cell.passed, cell.expected) for cell in campaign.cells} == {
        "before-the-model": (True, False),
        "after-the-model": (True, False),
        "after-the-effect": (True, True),
        "while-it-saves": (True, True),
        "rate_limit": (True, False),
    }
    (booked, paid) = [run for run in campaign.runs if run.fault == "after-the-effect"]
    assert booked.checks["effects"].finding == "travel.book happened 2 times instead of once"
    assert paid.checks["effects"].finding == "travel.pay happened 2 times instead of once"
    assert booked.rto_seconds and booked.rto_seconds.restart > 0, "it is back when it asks the model"


def test_with_a_key_for_each_call_it_recovers_from_everything(tmp_path: Path) -> None:
    found = cells(tmp_path / "keyed", shipped(env={"KEYED": "yes"}))
    assert {label: str(cell.verdict) for label, cell in found.items()} == dict.fromkeys(found, "recovered")
    assert found["while-it-saves"].runs > 10
    assert all(cell.landed == cell.planned > 0 for cell in found.values())


def test_one_with_a_providers_own_sdk(tmp_path: Path) -> None:
    pytest.importorskip("openai")
    scenario = shipped(run=("{python}", str(AGENTS / "sdk.py")))
    found = cells(tmp_path / "sdk", scenario, "after-the-effect")
    assert told(found) == {"after-the-effect": ("diverged", ("effects",))}


@pytest.mark.skipif(not perl(), reason="no perl with HTTP::Tiny and JSON::PP (Debian: apt-get install perl)")
def test_one_in_another_language(tmp_path: Path) -> None:
    scenario = shipped(run=(perl(), str(AGENTS / "booking.pl")))
    found = cells(tmp_path / "perl", scenario, "before-the-model", "after-the-effect", "while-it-saves")
    assert told(found) == {
        "before-the-model": ("recovered", ()),
        "after-the-effect": ("diverged", ("effects",)),
        "while-it-saves": ("recovered", ()),  # its line is written before it is synced: SIGKILL leaves it
    }


def test_a_prompt_that_lost_a_message_is_another_state(tmp_path: Path) -> None:
    agent = tmp_path / "forgetful.py"
    text = SHIPPED.with_name("own_agent").joinpath("booking.py").read_text()
    forgets = text.replace("    while True:\n", "    messages = messages[:1] + messages[3:]\n    while True:\n", 1)
    assert forgets != text
    agent.write_text(forgets)
    scenario = shipped(run=("{python}", str(agent)), env={"KEYED": "yes"})
    found = cells(tmp_path / "out", scenario, "before-the-model")
    assert "state" in found["before-the-model"].findings
    assert "prompt" in found["before-the-model"].findings["state"]


def test_what_is_stored_is_read_by_the_command_for_it(tmp_path: Path) -> None:
    reads = "import json, os; print(json.dumps({'lines': open(os.environ['CHAOS_DURABLE'] + '/log').read().split()}))"
    writes = "import os; open(os.environ['CHAOS_DURABLE'] + '/log', 'a').write('begun\\n')\n"
    asks = """
import json, os, urllib.request as web
body = json.dumps({"model": "any", "messages": [{"role": "user", "content": "Book a trip to Oslo."}]}).encode()
web.urlopen(web.Request(os.environ["OPENAI_BASE_URL"] + "/chat/completions", body))
open("trip.md", "w").close()
"""
    scenario = shipped(
        run=("{python}", "-c", writes + asks), state=("{python}", "-c", reads), turns=(Turn(say="Done."),), services={}
    )
    found = cells(tmp_path / "out", scenario, "before-the-model")
    assert "state" in found["before-the-model"].findings, "its log has a line for each life"
    assert "lines[1] is extra" in runs(tmp_path / "out")[0].checks["state"].finding


def test_what_it_holds_when_it_ends_is_what_must_be_stored(tmp_path: Path) -> None:
    ends = "import json, os; kept = os.environ['CHAOS_DURABLE'] + '/kept'; open(kept, 'w').write('%s')\n"
    leaves = "json.dump({'kept': 'tea'}, open('state.json', 'w')); open('trip.md', 'w')"
    reads = "import json, os; print(json.dumps({'kept': open(os.environ['CHAOS_DURABLE'] + '/kept').read()}))"
    asks = (
        "import urllib.request as web\n"
        'body = b\'{"model": "any", "messages": [{"role": "user", "content": "Book a trip to Oslo."}]}\'\n'
        "web.urlopen(web.Request(os.environ['OPENAI_BASE_URL'] + '/chat/completions', body))\n"
    )
    for stored, verdict in (("tea", "recovered"), ("milk", "unknown")):
        scenario = shipped(
            run=("{python}", "-c", ends % stored + asks + leaves),
            state=("{python}", "-c", reads),
            live="workspace/state.json",
            turns=(Turn(say="Done."),),
            services={},
        )
        found = cells(tmp_path / stored, scenario, "before-the-model")["before-the-model"]
        assert str(found.verdict) == verdict, found
    assert (
        'breaks state by itself: what another process reads is not what the agent held when it ended: kept is "milk"'
        in (found.why)
    )


def test_an_effect_that_may_happen_once_happens_twice_in_a_crash_free_run(tmp_path: Path) -> None:
    services = {**shipped().target.services, "travel.book": Route(most=1)}  # type: ignore[attr-defined]
    text = SHIPPED.with_name("own_agent").joinpath("booking.py").read_text()
    agent = tmp_path / "eager.py"
    agent.write_text(text.replace("    headers = {", "    post(TRAVEL + name, arguments)\n    headers = {", 1))
    scenario = shipped(run=("{python}", str(agent)), services=services)
    found = cells(tmp_path / "out", scenario, "before-the-model")["before-the-model"]
    assert found.why == "the crash-free run breaks effects by itself: travel.book happened 2 times; once is right"


def test_later_incarnations_are_started_by_the_command_for_it(tmp_path: Path) -> None:
    once = STEADY + "assert resumed == os.path.exists('begun'), 'started by the wrong command'\nopen('begun', 'w')\n"
    asks = (
        'body = b\'{"model": "any", "messages": [{"role": "user", "content": "Book a trip to Oslo."}]}\'\n'
        "web.urlopen(web.Request(os.environ['OPENAI_BASE_URL'] + '/chat/completions', body))\nopen('trip.md', 'w')\n"
    )
    run = ("{python}", "-c", once + asks)
    for resume, verdict in (((*run, "--again"), "recovered"), ((), "refused")):
        scenario = shipped(run=run, resume=resume, turns=(Turn(say="Done."),), services={})
        found = cells(tmp_path / verdict, scenario, "before-the-model")
        assert str(found["before-the-model"].verdict) == verdict, found


def test_what_it_left_is_looked_at_when_it_has_ended(tmp_path: Path) -> None:
    cells(tmp_path / "out", shipped(env={"KEYED": "yes"}), "rate_limit")
    (run,) = runs(tmp_path / "out")
    events = list(journal.read(tmp_path / "out" / run.journal))
    (seen,) = [event for event in events if isinstance(event, Observed)]
    assert [file.path for file in seen.seen.files] == ["workspace/trip.md"] and seen.seen.processes == ()
    assert [event.status for event in events if isinstance(event, Asked)].count(429) == 2
    assert {"files", "effects", "state"} <= run.checks.keys()
    assert not {"processes", "environment"} & run.checks.keys(), "of nothing alive nothing is said to be kept"


def test_what_cannot_be_seen_is_no_promise_that_was_kept(tmp_path: Path) -> None:
    scenario = replace(shipped(env={"KEYED": "yes"}), checks=("effects", "processes"))
    found = cells(tmp_path / "out", scenario, "rate_limit")["rate_limit"]
    assert found.verdict is CellVerdict.UNKNOWN and not found.passed
    assert "processes cannot judge the crash-free run: the agent announces no end" in found.why


def test_a_fault_at_a_step_says_where_it_could_hit(tmp_path: Path) -> None:
    scenario = shipped()
    with runner(tmp_path / "out") as made:
        found = made.run_cell(Cell(scenario, scenario.strategies[0], FaultSpec("kill", "kill", Kill(), Every())))
    assert found.verdict is CellVerdict.NOT_EXERCISED and not found.passed
    assert "the agent announces no steps; place it at what it does" in found.why


def test_a_script_that_is_too_short_and_a_service_that_is_not_declared_are_told() -> None:
    script = Script((Turn(say="hello"),), {"mail.send": Route()}, "")
    with pytest.raises(ValueError, match=r"comes after 1 turns of the model, and the script has 1: add one"):
        script.reply([{"role": "user", "content": "hi"}, {"role": "assistant", "content": "hello"}])
    with pytest.raises(ValueError, match=r"no service 'mail.sned' .*did you mean 'mail.send'"):
        script.serve("mail", "sned", {})


def test_several_tools_are_called_in_one_turn() -> None:
    reply = Script((Turn(call={"find": {"to": "Oslo"}, "wait": {}}),), {}, "").reply(
        [{"role": "user", "content": "go"}]
    )
    assert [call["function"] for call in reply.tool_calls] == [
        {"name": "find", "arguments": json.dumps({"to": "Oslo"})},
        {"name": "wait", "arguments": "{}"},
    ]
    assert len({call["id"] for call in reply.tool_calls}) == 2


@pytest.mark.parametrize(
    ("changed", "to", "message"),
    [
        ("run: [", "runn: [", "unknown key 'runn'"),
        ("{python}", "{pyhton}", "no placeholder {pyhton} ('{pyhton}'); did you mean 'python'?"),
        ("travel.find:", "find:", "a service is named NAME.OPERATION, as mail.send (got 'find')"),
        ("effect: false", "effects: false", "unknown key 'effects'"),
        ("say: Booked", "says: Booked", "unknown key 'says'"),
        ("goal:", "live: workspace/state.json\n    goal:", "live is compared with what state prints; state is missing"),
    ],
)
def test_mistakes_are_told_with_their_place(tmp_path: Path, changed: str, to: str, message: str) -> None:
    path = tmp_path / "own.chaos.yaml"
    path.write_text(SHIPPED.read_text().replace(changed, to, 1))
    with pytest.raises(ScenarioError) as error:
        load(path)
    told = [line for line in str(error.value).splitlines() if line.startswith(str(path))]
    assert len(told) <= 2 and message in told[0] and re.match(r".*yaml:\d+:\d+: ", told[0]), str(error.value)
