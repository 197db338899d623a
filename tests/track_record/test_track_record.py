"""The form of each folder; what the versions show that are here, and with CHAOS_TRACK_RECORD=1 the affected ones."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from chaos.results import Campaign, CampaignInfo, CellResult
from chaos.scenario.loader import load
from chaos.targets.command import Command
from chaos.verdict import CellVerdict
from tests.track_record import environments
from tests.track_record.cases import SIDES, Bug, Found, bugs, found, look_for
from tests.track_record.environments import VARIABLE

TABLE = Path(__file__).parents[2] / "docs" / "track-record.md"
SLOW = {} if os.environ.get(VARIABLE) else {"openai-3555": "it waits for the 61 s of a Retry-After"}
BUGS = pytest.mark.parametrize("bug", bugs(), ids=lambda bug: bug.id)


@BUGS
def test_a_folder_holds_an_agent_a_scenario_and_exact_versions(bug: Bug) -> None:
    scenario = load(bug.scenario)
    assert scenario.name == bug.id and isinstance(scenario.target, Command) and not scenario.expected
    assert bug.report.startswith("https://github.com/") and bug.title
    for side in SIDES:
        assert bug.pins(side) and all(re.fullmatch(r"[\w-]+==\d+(\.\d+)+", pin) for pin in bug.pins(side))
    assert bug.pins("affected")[0].split("==")[0] == bug.pins("newest")[0].split("==")[0]


@BUGS
def test_an_agent_knows_nothing_of_the_harness(bug: Bug) -> None:
    text = (bug.folder / "agent.py").read_text()
    assert not re.search(r"^(import|from) (chaos|tests)\b", text, re.MULTILINE)
    assert str(Path.home()) not in text + bug.scenario.read_text()


def row_of(bug: Bug) -> str:
    (line,) = [line for line in TABLE.read_text().splitlines() if line.startswith(f"| [{bug.id}]({bug.report}) |")]
    return line


@BUGS
def test_its_row_is_in_the_table(bug: Bug) -> None:
    line = row_of(bug)
    assert bug.title in line and f"`python -m tests.track_record {bug.id}`" in line


def test_the_table_has_no_other_rows() -> None:
    rows = re.findall(r"^\| \[([\w-]+)\].*`python -m ", TABLE.read_text(), re.MULTILINE)
    assert sorted(rows) == [bug.id for bug in bugs()]


@BUGS
def test_in_the_versions_that_are_here_it_is_as_the_table_says(bug: Bug) -> None:
    """Those that are still there, and those that are fixed: nobody may be accused of what is mended."""
    if not all(map(environments.installed, bug.pins("newest"))):
        pytest.skip("its newest version is not what is installed here")
    if bug.id in SLOW:
        pytest.skip(f"{SLOW[bug.id]}; set {VARIABLE}=1 for all of them")
    _, _, _, check, _, newest, _ = row_of(bug).split(" | ")
    seen = look_for(bug, "newest")
    assert not seen.unclear, str(seen)
    assert bool(seen.checks) is newest.startswith("still there"), str(seen)
    assert not seen.checks or check.split("`")[1] in seen.checks, str(seen)


@BUGS
@pytest.mark.skipif(not os.environ.get(VARIABLE), reason=f"installs packages; set {VARIABLE}=1")
def test_each_is_found_in_its_affected_version(bug: Bug) -> None:
    seen = look_for(bug, "affected")
    assert seen.checks, str(seen)


def cell(**fields: object) -> Campaign:
    info = CampaignInfo(campaign="c", seed=1, began="", command="", versions={}, machine={})
    made = {"verdict": CellVerdict.UNKNOWN, "passed": False, **fields}
    return Campaign(
        info=info, runs=(), cells=(CellResult(campaign="c", scenario="s", strategy="own", fault="kill", **made),)
    )  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("fields", "checks", "plan", "unclear"),
    [
        ({"passed": True, "verdict": CellVerdict.RECOVERED}, (), "", ""),
        ({"why": "the crash-free run breaks state by itself: lost"}, ("state",), "no fault", ""),
        (
            {"why": "state cannot judge the crash-free run: nothing"},
            (),
            "",
            "state cannot judge the crash-free run: nothing",
        ),
        ({"verdict": CellVerdict.DIVERGED, "findings": {"effects": "twice"}}, ("effects",), "", ""),
        ({"verdict": CellVerdict.HARNESS_ERROR, "why": "no python"}, (), "", "no python"),
        ({"passed": True, "skipped": "needs root"}, (), "", "needs root"),
    ],
)
def test_what_a_campaign_says(fields: dict[str, object], checks: tuple[str, ...], plan: str, unclear: str) -> None:
    bug = bugs()[0]
    seen = found(bug, "affected", cell(**fields))
    assert (seen.checks, seen.plan, seen.unclear) == (checks, plan, unclear)
    assert ("FOUND" in str(seen)) is bool(checks) and isinstance(seen, Found)
