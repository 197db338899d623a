"""The form of each framework's folder, what a campaign says, and one tried; with CHAOS_TRACK_RECORD=1 all."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from chaos.results import Campaign, CampaignInfo, CellResult, RunResult
from chaos.scenario.loader import load
from chaos.targets.command import Command
from chaos.verdict import PASS, CellVerdict, Verdict, fail, unknown
from tests.frameworks.__main__ import BEGIN, END, HEAD, PAGE, label, line, merged, rows, sides
from tests.frameworks.matrix import FAULTS, NO_FAULT, PROPERTIES, SIDES, Framework, frameworks, row
from tests.track_record.cases import outcome
from tests.track_record.environments import VARIABLE

HERE = "langgraph"  # its newest version is that of the tests
EACH = pytest.mark.parametrize("framework", frameworks(), ids=lambda framework: framework.id)
EFFECTS = PROPERTIES[1]


@EACH
def test_a_folder_holds_an_agent_scenarios_and_exact_versions(framework: Framework) -> None:
    assert "scenario" in framework.scenarios and framework.report.startswith("https://github.com/")
    for name, path in framework.scenarios.items():
        scenario = load(path)
        assert scenario.name == framework.id + ("" if name == "scenario" else f"-{name}")
        assert isinstance(scenario.target, Command) and not scenario.expected
        assert {fault.label for fault in scenario.faults} <= set(FAULTS)
    for side in SIDES:
        assert all(re.fullmatch(r"[\w-]+==\d+(\.\d+)+", pin) for pin in framework.pins(side))


@EACH
def test_an_agent_knows_nothing_of_the_harness(framework: Framework) -> None:
    text = (framework.folder / "agent.py").read_text()
    assert not re.search(r"^(import|from) (chaos|tests)\b", text, re.MULTILINE)
    assert str(Path.home()) not in text


@EACH
def test_what_has_no_scenario_has_a_reason(framework: Framework) -> None:
    for wanted in PROPERTIES:
        assert (wanted.scenario in framework.scenarios) is (wanted.name not in framework.reasons), wanted.name


def test_each_has_a_row_for_each_property_in_the_table() -> None:
    table = PAGE.read_text().partition(BEGIN)[2].partition(END)[0]
    for framework, side in sides(frameworks()):
        for wanted in PROPERTIES:
            assert table.count(f"| {label(framework, side)} | {wanted.name} |") == 1


def test_one_is_tried_with_the_versions_that_are_here(tmp_path: Path) -> None:
    pytest.importorskip("langgraph.checkpoint.sqlite")
    (framework,) = [one for one in frameworks() if one.id == HERE]
    campaign = outcome(framework.scenarios["approval"], framework.pins("newest"), tmp_path, "--chaos-shrink", "0")
    consumed = row(PROPERTIES[-1], campaign, {})
    assert consumed.cells[NO_FAULT] == "**broken**", consumed
    assert re.search(r"travel\.pay happened [234] times; once is right", consumed.finding)


@EACH
@pytest.mark.skipif(not os.environ.get(VARIABLE), reason=f"installs packages; set {VARIABLE}=1")
def test_each_can_be_tried(framework: Framework) -> None:
    lines = rows(framework, "newest")
    assert len(lines) == len(PROPERTIES) and "not tried |" not in "".join(lines)


def run(verdict: CellVerdict = CellVerdict.DIVERGED, broke: tuple[str, ...] = (), **checks: Verdict) -> RunResult:
    return RunResult(
        campaign="c", scenario="s", strategy="own", fault="effect", run=0, seed=1, plan="p", planned=1, landed=(),
        checks=checks, verdict=verdict, broke=broke,
    )  # fmt: skip


def campaign(*runs: RunResult, why: str = "") -> Campaign:
    info = CampaignInfo(campaign="c", seed=1, began="", command="", versions={}, machine={})
    cell = CellResult(
        campaign="c", scenario="s", strategy="own", fault="effect", verdict=CellVerdict.UNKNOWN, passed=False, why=why
    )
    return Campaign(info=info, runs=runs, cells=(cell,))


BROKEN = run(effects=fail("twice"), broke=("effects",))
LOST = run(effects=unknown("no end"), finishes=fail("never"), broke=("finishes",))


@pytest.mark.parametrize(
    ("seen", "cells", "finding"),
    [
        (campaign(run(effects=PASS)), {NO_FAULT: "kept", "effect": "kept, 1 of 1"}, ""),
        (campaign(run(effects=PASS), BROKEN), {NO_FAULT: "kept", "effect": "**broken** 1 of 2"}, "`p`: twice"),
        (campaign(LOST), {NO_FAULT: "kept", "effect": "**not resumed** 1 of 1"}, "`p`: never"),
        (campaign(why="no place"), {NO_FAULT: "not judged", "effect": "not judged"}, "no place"),
        (campaign(why="the crash-free run breaks effects by itself: 4"), {NO_FAULT: "**broken**"}, "4"),
        (campaign(why="the crash-free run breaks state by itself: 4"), {NO_FAULT: "breaks `state`"}, "4"),
        ("no campaign", {}, "no campaign"),
        (None, {}, "there is none"),
    ],
)
def test_what_a_campaign_says_of_a_property(seen: Campaign | str | None, cells: dict[str, str], finding: str) -> None:
    said = row(EFFECTS, seen, {EFFECTS.name: "there is none"})
    assert (said.cells, said.finding) == (cells, finding)


def test_lines_take_the_place_of_those_of_the_same_framework() -> None:
    first, other = (line(name, row(EFFECTS, None, {})) for name in ("b 1", "a 1"))
    page = merged(f"text\n{BEGIN}{END}more\n", [first])
    page = merged(merged(page, [other]), [line("b 1", row(EFFECTS, "again", {}))])
    assert page == f"text\n{BEGIN}{HEAD}{other}{first.replace('not tried', 'again')}{END}more\n"
