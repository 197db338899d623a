"""`@pytest.mark.chaos(...)` and its fixtures, as a user of pytest meets them: real campaigns on a small agent."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

import chaos
from chaos.plugins.in_python import places, plain
from chaos.scenario.loader import understand, understand_values
from chaos.scenario.parse import parse
from chaos.scenario.positions import Problems
from tests.plugins.project import LATE, Done, Project, scenario
from tests.plugins.test_pytest_plugin import HEAVY, PROBE

AGENT = Path(chaos.__file__).parent / "scenarios" / "own_agent" / "booking.py"

TRIP = """\
import sys
import pytest

AGENT = [sys.executable, __file__.replace("test_trip.py", "agent.py")]
TARGET = {
    "command": {
        "run": ["{python}", "${{ here }}/agent.py"],
        "turns": [{"call": {"book": {"flight": "SK 4455"}}}, {"call": {"pay": {"amount": 120}}}, {"say": "Done."}],
        "services": {"travel.book": {"reply": {"booking": "B-1"}}, "travel.pay": {"reply": {"receipt": "R-1"}}},
    }
}
PAID = {"kind": "kill", "name": "paid", "at": {"operation": "effect", "n": 2}}
ASKED = {"kind": "kill", "name": "asked", "at": {"operation": "model_call", "n": "every"}}
NEVER = {"kind": "kill", "at": {"operation": "effect", "n": 9}}
"""

TESTS = """
@pytest.mark.chaos(
    target=TARGET, strategies=["own"], faults=[ASKED, PAID], tags=["money"],
    expected_failures=[{"strategy": "own", "fault": "paid", "breaks": ["effects"], "because": "no key"}],
)
def test_trip(chaos_run, chaos_ledger):
    assert len(chaos_run.runs) == len(chaos_ledger) == (3 if chaos_run.result.fault == "asked" else 1)
    for run in chaos_run.runs:
        assert run.landed and run.journal.exists() and run.record.attempts == 2
        assert run.files["workspace/trip.md"].size == len("Done.") and "effects" in run.checks
        assert len(run.reference.effects) == 2
    chaos_run.assert_recovered()  # expected is no failure

class TestTrip:
    @pytest.mark.chaos(target=TARGET, strategies=["own"], faults=[PAID])
    def test_broken(self, chaos_run):
        print("THE BODY")

@pytest.mark.chaos(target=TARGET, strategies=["own"], faults=[PAID, NEVER], judge=False)
def test_own_judgement(chaos_run):
    assert [ledger.count("travel.pay") for ledger in chaos_run.ledgers] == [2]
    with pytest.raises(AssertionError, match="travel.pay happened 2 times"):
        chaos_run.assert_recovered()

@pytest.mark.chaos(scenario="toy.chaos.yaml")
def test_file(chaos_run):
    assert chaos_run.verdict == "recovered"
    assert chaos_run.runs[0].plan == "what the test says"

@pytest.mark.chaos(target=TARGET)
def test_by_hand(chaos_world, chaos_sandbox):
    chaos_world.hold("effect", 2)
    chaos_sandbox.start(AGENT)
    chaos_world.standing()
    assert [each.operation for each in chaos_world.ledger] == ["book", "pay"]
    assert chaos_sandbox.kill() == -9 and "workspace/trip.md" not in chaos_sandbox.files
    chaos_world.release()
    chaos_sandbox.start(AGENT)
    assert chaos_sandbox.wait() == 0, chaos_sandbox.log
    assert chaos_world.ledger.count("travel.pay") == 2 and len(chaos_world.requests) == 4
    assert (chaos_sandbox.workspace / "trip.md").read_text() == "Done."
    assert chaos_sandbox.evict() == 1 and (chaos_sandbox.durable / "agent.db").exists()

def test_what_a_test_leaves_running_ends_with_it(chaos_sandbox):
    chaos_sandbox.start(["sleep", "1000"])
    with pytest.raises(TimeoutError):
        chaos_sandbox.wait(0.01)
    print(f"\\nSLEEPS {chaos_sandbox.pid}.")
"""
ENDS = {
    "test_trip[own-asked]": "PASSED", "test_trip[own-paid]": "XFAIL", "test_broken[own-paid]": "FAILED",
    "test_own_judgement[own-paid]": "PASSED", "test_own_judgement[own-kill]": "FAILED", "test_file[cow-late]": "FAILED",
    "test_by_hand": "PASSED", "test_what_a_test_leaves_running_ends_with_it": "PASSED",
}  # fmt: skip
END = "PASSED|FAILED|XFAIL|ERROR|SKIPPED"


def ends(out: str) -> dict[str, str]:
    """Return how each test ended, as `-v` printed it, with and without pytest-xdist."""
    alone = re.findall(rf"^\S+::(\S+)(?:\s+SLEEPS \d+\.)?\s+({END})", out, re.MULTILINE)
    workers = re.findall(rf"^\[gw\d\].*? ({END}) \S+::(\S+)", out, re.MULTILINE)
    return dict(alone) | {name: end for end, name in workers}


@pytest.fixture(scope="module")
def trip(tmp_path_factory: pytest.TempPathFactory) -> Project:
    project = Project(tmp_path_factory.mktemp("trip") / "project")
    project.write("tests/test_trip.py", TRIP + TESTS)
    late = LATE.replace("after_act", "after_commit")
    project.write("tests/toy.chaos.yaml", scenario("toy", faults=f"[{late}]", runs=1))
    shutil.copy(AGENT, project.folder / "tests" / "agent.py")
    return project


@pytest.fixture(scope="module")
def campaign(trip: Project) -> Done:
    """All cells in one process."""
    options = ("--chaos-seed", "7", "--junitxml", "junit.xml", "--strict-markers", "-W", "error")
    return trip.run("--chaos", "tests/test_trip.py", "-v", "-s", *options)


def test_each_cell_is_a_test_and_ends_as_one_of_yaml(campaign: Done, trip: Project) -> None:
    """A broken promise fails it, an expected one is an expected failure, and what proves nothing fails in any case."""
    assert campaign.code == 1 and ends(campaign.out) == ENDS
    failed = campaign.out.partition("own x paid: diverged\n  effects broke in 1 of 1 runs")[2]
    assert "effects: travel.pay happened 2 times instead of once [check.effects]" in failed
    assert "own x kill: not exercised [verdict.not-exercised]" in campaign.out
    assert "THE BODY" not in campaign.out  # of the test whose cell is broken
    own = campaign.out.partition("assert 'late@2/after_commit' == 'what the test says'")[2]
    again = "pytest --chaos tests/test_trip.py::test_file --chaos-seed 7 --chaos-strategy cow --chaos-fault late"
    assert f"the cell again: {again}\n" in own


def test_they_are_cells_of_the_campaign(campaign: Done, trip: Project) -> None:
    assert [(cell["scenario"], cell["strategy"], cell["fault"]) for cell in campaign.cells] == [
        ("test-trip-test-trip", "own", "asked"), ("test-trip-test-trip", "own", "paid"),
        ("test-trip-testtrip-test-broken", "own", "paid"), ("test-trip-test-own-judgement", "own", "paid"),
        ("test-trip-test-own-judgement", "own", "kill"), ("toy-test-trip-test-file", "cow", "late"),
    ]  # fmt: skip
    assert sorted(cell["order"] for cell in campaign.cells) == list(range(6))
    assert campaign.report.exists() and "EFFECTS 0/1" in campaign.out
    planned = json.loads((campaign.folder / "planned.json").read_text())
    assert {cell["file"] for cell in planned["cells"]} == {"tests/test_trip.py"} and len(planned["cells"]) == 6
    cases = {case.get("name"): case for case in ElementTree.parse(trip.folder / "junit.xml").iter("testcase")}
    said = {entry.get("name"): entry.get("value") for entry in cases["test_trip[own-paid]"].iter("property")}
    assert said["chaos.verdict"] == "diverged" and said["chaos.scenario"] == "test-trip-test-trip"


def test_nothing_is_left_behind(campaign: Done, trip: Project) -> None:
    sleeping = re.search(r"SLEEPS (\d+)\.", campaign.out)
    assert sleeping and not Path("/proc", sleeping[1]).exists()
    assert trip.sandboxes() == [] and trip.agents() == set()


# ----- one start of pytest for many questions

REPLAY = "paid@2/effect#0"
SELECTIONS: list[tuple[list[str], list[str]]] = [
    (["-k", "broken"], ["test_broken[own-paid]"]),
    (["-m", "money"], ["test_trip[own-asked]", "test_trip[own-paid]"]),
    (["-m", "chaos(strategy='cow')"], ["test_file[cow-late]"]),
    (["--chaos-fault", "late", "-k", "not leaves"], ["test_file[cow-late]", "test_by_hand"]),
    (["-k", "not hand and not leaves", "--chaos-case", REPLAY, "--chaos-strategy", "own"],
     ["test_trip[own-paid]", "test_broken[own-paid]", "test_own_judgement[own-paid]"]),
]  # fmt: skip
TWICE = """
@pytest.mark.parametrize("other", [1, 2])
@pytest.mark.chaos(target=TARGET, strategies=["own"], faults=[PAID])
def test_twice(chaos_run, other): ...
"""
MISTAKES = {
    '(target={"command": {"rum": ["a"]}}, strategies=["own"], faults=[PAID])\ndef test(chaos_run): ...': (
        r":2:40: target\.command\.rum: unknown key 'rum'; did you mean 'run'\? \[scenario\.unknown-field\]\n"
        r" +2 \| @pytest.mark.chaos\(target=.*\n +\| {40}\^"
    ),
    '(target=TARGET, strategies=["own"],\n  faults=[{"kind": "kil"}])\ndef test(chaos_run): ...': (
        r":3:20: faults\[0\]\.kind: unknown fault 'kil'; did you mean 'kill'"
    ),
    "(**{'target': TARGET, 'strategies': ['own'], 'faults': [{'kind': 'kill', 'at': {'step': -1}}]})\n"
    "def test(chaos_run): ...": r":2:2: faults\[0\]\.at\.step: ",
    '(target=TARGET, strategies=["own"], faults=[PAID], seed=object())\ndef test(chaos_run): ...': (
        r":2:75: seed: a object is nothing that YAML has"
    ),
    '(scenario="lost.chaos.yaml")\ndef test(chaos_run): ...': r":2:29: scenario: there is no file .*/lost\.chaos\.yaml",
    '(scenario="toy.chaos.yaml", runs=3)\ndef test(chaos_run): ...': r":2:47: runs: is not given beside a file",
    '("toy.chaos.yaml")\ndef test(chaos_run): ...': r":2:2: takes keywords only",
    '(target=TARGET, strategies=["own"], faults=[PAID])\ndef test(): ...': r":2:1: test has a scenario and would never",
    "\ndef test(chaos_run): ...": r":2:1: test takes chaos_run; say of which scenario",
    "(faults_=[])\ndef test(chaos_world): ...": r":2:2: 'target' is required",
    "\ndef test(chaos_world): ...": r":2:1: test takes chaos_world; say of which target",
}
FOUND = tuple(MISTAKES.values())


@pytest.fixture(scope="module")
def asked(trip: Project, campaign: Done) -> list[Done]:
    """The selections, a test with parameters of its own, and the mistakes, each in a file of its own."""
    trip.write("twice/test_twice.py", TRIP + TWICE)
    trip.write("wrong/toy.chaos.yaml", scenario("toy", runs=1))
    trip.write("wrong/given.py", TRIP)
    for number, text in enumerate(MISTAKES):
        trip.write(f"wrong/test_{number}.py", f"from given import *\n@pytest.mark.chaos{text}\n")
    options = ("--chaos", "--co", "-q", "--strict-markers", "--chaos-seed", "7")
    return trip.run_all(
        *([*options, "tests/test_trip.py", *selection] for selection, _ in SELECTIONS),
        [*options, "twice"],
        [*options, "wrong", "--ignore", "wrong/toy.chaos.yaml"],
    )


@pytest.mark.parametrize("number", range(len(SELECTIONS)), ids=lambda number: " ".join(SELECTIONS[number][0]))
def test_selection(asked: list[Done], campaign: Done, number: int) -> None:
    found = re.findall(r"^\S+::(test\S+)$", asked[number].out, re.MULTILINE)
    assert found == SELECTIONS[number][1] and asked[number].code == 0
    assert len(campaign.runs) == 7  # --co runs nothing and removes nothing


def test_parameters_of_ones_own_are_refused(asked: list[Done]) -> None:
    done = asked[len(SELECTIONS)]
    assert done.code == 4 and "twice/test_twice.py::test_twice: a test that takes chaos_run has the cells" in done.out


@pytest.mark.parametrize("number", range(len(MISTAKES)), ids=FOUND)
def test_a_mistake_names_line_column_and_key(asked: list[Done], number: int) -> None:
    out = asked[-1].out
    assert asked[-1].code == 2
    told = out[out.index(f"ERROR collecting wrong/test_{number}.py") :].split("ERROR collecting", 2)[1]
    assert re.search(rf"wrong/test_{number}\.py{FOUND[number]}", told), told


def test_workers_give_the_same(campaign: Done, trip: Project) -> None:
    tests = ("tests/test_trip.py::test_trip", "tests/test_trip.py::TestTrip")
    done = trip.run(
        "--chaos", *tests, "-v", "-n", "2", "--chaos-seed", "7", "--chaos-results", "other", results="other"
    )
    names = ("test_trip[own-asked]", "test_trip[own-paid]", "test_broken[own-paid]")
    assert done.code == 1 and ends(done.out) == {name: ENDS[name] for name in names}
    assert facts(done) == [each for each in facts(campaign) if each[0] in {run["scenario"] for run in done.runs}]
    assert len(done.runs) == 5 and "5/5 planned faults landed\nseed 7\n" in done.out and done.report.exists()


def facts(done: Done) -> list[tuple[str, ...]]:
    """Return what two campaigns of one seed must have in common, sorted."""
    keys = ("scenario", "strategy", "fault", "plan", "verdict", "seed", "broke")
    return sorted(tuple(str(run[key]) for key in keys) for run in done.runs)


def test_a_printed_command_replays_one_run(campaign: Done, trip: Project) -> None:
    printed = re.search(r"replay: (pytest .*test_broken .*)", campaign.out)
    assert printed
    done = trip.replay(printed[1])
    assert done.code == 1 and "1 failed" in done.out and "travel.pay happened 2 times" in done.out
    assert facts(done) == [each for each in facts(campaign) if "test-broken" in each[0]] and len(campaign.runs) == 7


def test_without_the_switch_they_skip_and_nothing_is_loaded(trip: Project, campaign: Done) -> None:
    trip.write("conftest.py", PROBE.format(wanted=HEAVY))
    done = trip.run("tests/test_trip.py", "-rs", "--strict-markers")
    (trip.folder / "conftest.py").unlink()
    assert done.code == 0 and "6 skipped" in done.out and "needs --chaos" in done.out
    loaded = re.search(r"LOADED (\[.*\])", done.out)
    assert loaded and set(json.loads(loaded[1].replace("'", '"'))) == {
        "chaos", "chaos.plugins", "chaos.plugins.pytest_plugin", "chaos.plugins.settings",
    }  # fmt: skip


# ----- the same as YAML

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text("aä~$[:'", max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("abcä ", max_size=3), inner, max_size=3),
    max_leaves=8,
)
KEYS = ("target", "strategies", "faults", "runs", "limits", "expect")


@given(st.dictionaries(st.sampled_from(KEYS), VALUES, max_size=4))
def test_values_are_those_of_yaml(tree: dict[str, Any]) -> None:
    path, problems = Path("any.chaos.yaml"), Problems(Path("any.chaos.yaml"))
    assert plain(tree, (), problems) == parse(json.dumps(tree), Problems(path))
    assert len(problems) == 0


@given(st.dictionaries(st.sampled_from(KEYS), VALUES, min_size=1, max_size=4))
def test_each_key_and_value_is_found_where_it_is_written(tree: dict[str, Any]) -> None:
    words = ",\n    ".join(f"{key}={value!r}" for key, value in tree.items())
    source = f"import pytest\n\n@pytest.mark.slow\n@pytest.mark.chaos({words})\ndef test_x(chaos_run): ...\n"
    found, lines = places(source, 3), source.splitlines()
    assert found.find(()) == (found.values[()])
    for loc, value in _leaves(tree):
        mark = found.find(loc)
        assert loc in found.values and lines[mark.line][mark.column :].startswith(repr(value)), loc
        if isinstance(loc[-1], str):
            key = found.find(loc, key=True)
            written = f"{loc[-1]}=" if len(loc) == 1 else repr(loc[-1])
            assert lines[key.line][key.column :].startswith(written), loc


def test_the_mark_of_a_module_and_of_a_class_are_found() -> None:
    source = "import pytest\npytestmark = [pytest.mark.slow, pytest.mark.chaos(runs=3)]\n"
    source += "@pytest.mark.chaos(runs=4)\nclass TestIt: ...\n"
    assert (places(source, 1).find(("runs",)).line, places(source, 3).find(("runs",)).line) == (1, 2)


def _leaves(value: Any, loc: tuple[str | int, ...] = ()) -> list[tuple[tuple[str | int, ...], Any]]:
    own = [(loc, value)] if loc else []
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return own + [leaf for key, child in inner for leaf in _leaves(child, (*loc, key))]


def test_the_keys_give_the_scenario_that_yaml_gives() -> None:
    text = scenario("quick", strategies="[cow, {delta: {every: 5}}]", more="limits: {deadline: 20s}\nseed: 3")
    path = Path("quick.chaos.yaml")
    tree = parse(text, Problems(path))
    assert isinstance(tree, dict)
    assert understand_values(tree, Problems(path)) == understand(path, text)
