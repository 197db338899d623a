"""A search finds what needs two faults, and what needs one phase of one step; a correct agent passes the same search.

With 36 seeds, from 1 on, the two took 3 to 100 and 3 to 116 plans, in the median 18 and 45. Here are two quick ones.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import msgspec
import pytest

from chaos import results
from chaos.campaign import Cell, Runner
from chaos.explorers._pool import ASKING
from chaos.plan import Plan, PlannedFault, parse_plan
from chaos.results import CellResult, RunResult
from chaos.scenario.loader import load
from chaos.targets.planted import NONE
from chaos.variants import name_of
from chaos.verdict import CellVerdict

WITHIN = 120  # plans, as docs/measurements.md says

SCENARIO = """\
version: 1
scenario: search-{name}
target: {{planted: {{bug: {bug}, steps: 12}}}}
strategies: [loop]
runs: {runs}
limits: {{backoff_limit: 8}}
faults:
  - kind: kill
    vary: {{signal: [SIGKILL, SIGTERM]}}
    at: {{explore: search}}
    then:
      - {{kind: evict, grace: 0s}}
      - {{kind: rate_limit, requests: 1, retry_after: 1ms}}
expected_failures:
  - {{strategy: loop, may_break: [effects], because: an e-mail without a key is sent again}}
"""


def searched(folder: Path, bug: str, seed: int, name: str, runs: int = WITHIN) -> tuple[CellResult, list[RunResult]]:
    """Search the agent with *bug*; plans are drawn from the *seed* and the *name* of the scenario."""
    folder.mkdir()
    path = folder / "search.chaos.yaml"
    path.write_text(SCENARIO.format(bug=bug, name=name.replace("_", "-"), runs=runs))
    scenario = load(path, seed)
    runner = Runner(folder, "search", seed)
    try:
        cell = runner.run_cell(Cell(scenario, scenario.strategies[0], scenario.faults[0]))
    finally:
        runner.close()
    lines = (folder / results.RUNS).read_bytes().splitlines()
    return cell, [msgspec.json.decode(line, type=RunResult) for line in lines]


def ends(planned: PlannedFault) -> bool:
    return name_of(planned.fault) != "rate_limit"


def killed_while_it_waits(plan: Plan) -> bool:
    """Tell whether *plan* refuses a request and ends the agent where it is about to ask once more."""
    return any(
        not ends(one) and ends(other) and one.point.phase == other.point.phase == ASKING
        for one, other in pairwise(plan.faults)
    )


def killed_as_it_compacts(plan: Plan) -> bool:
    """Tell whether *plan* ends the agent inside of a commit, the eighth if it says which."""
    return any(ends(one) and one.point.phase == "during_commit" and one.point.step in (7, None) for one in plan.faults)


@pytest.mark.parametrize(
    ("bug", "seed", "check", "needs"),
    [
        ("waits_on_record", 13, "state", killed_while_it_waits),
        ("compacts_in_place", 3, "finishes", killed_as_it_compacts),
    ],
)
def test_a_search_finds_it_and_the_correct_sibling_passes_the_same_search(
    tmp_path: Path, bug: str, seed: int, check: str, needs: Callable[[Plan], bool]
) -> None:
    cell, runs = searched(tmp_path / bug, bug, seed, bug)
    *before, found = runs
    assert not cell.passed
    assert check in found.broke, cell.why
    assert needs(parse_plan(found.plan)), found.plan
    assert len(found.landed) == found.planned
    assert [each.plan for each in before if set(each.broke) - {"effects"}] == []
    tried = int(re.findall(r"searched (\d+) plans", cell.why)[0])
    assert len(runs) <= tried <= WITHIN

    cell, runs = searched(tmp_path / NONE, NONE, seed, bug, tried)
    assert cell.passed, cell.why
    assert found.plan in {each.plan for each in runs}
    assert {each.verdict for each in runs if not each.broke} == {CellVerdict.RECOVERED}
