"""Cells as several tests: by options, workers and groups; every way gives the same results."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from tests.plugins.project import KILL, LATE, Done, Project, scenario

EVERY = "{kind: kill, at: {step: every, phase: before_act, after: 2}}"
"""Ten runs: as many as make a cell large."""

MAY = "expected_failures: [{strategy: restart, breaks: [recovery], may_break: [effects, budget], because: control}]"
TIMES = (
    "campaign",
    "seconds",
    "rto_seconds",
    "storage",
)  # the last has bytes written, which the kernel counts by pages

CELLS = ["restart-kill", "restart-late"]
PARTS = ["restart-kill-part1of2", "restart-kill-part2of2", "restart-late"]


def ids(out: str) -> list[str]:
    return list(dict.fromkeys(re.findall(r"::test_\w+\[([^\]]+)\]", out)))


def lines(done: Done) -> list[str]:
    """Return the runs as they are written, sorted, without what is measured."""
    rows: list[dict[str, Any]] = done.runs
    for row in rows:
        for name in TIMES:
            del row[name]
        row["reference"] = row["reference"].partition("/recorded-")[0]
        for landed in row["landed"]:
            landed["evidence"].pop("pid", None)
    return sorted(json.dumps(row, sort_keys=True) for row in rows)


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    made = Project(tmp_path_factory.mktemp("parts") / "project")
    made.write("control.chaos.yaml", scenario("control", "[restart]", f"[{EVERY}, {LATE}]", more=MAY))
    return made


@pytest.fixture(scope="module")
def alone(project: Project) -> Done:
    """The campaign by one process, undivided."""
    return project.run("--chaos", "-v", "--chaos-seed", "7", "--chaos-results", "alone", results="alone")


WAYS = [["-n", "auto"], ["-n", "2", "--dist", "loadgroup"]]


@pytest.fixture(scope="module", params=WAYS, ids=" ".join)
def spread(request: pytest.FixtureRequest, project: Project) -> Done:
    """The same by workers, divided."""
    options = ("--chaos", "-v", "--chaos-seed", "7", "--chaos-parts", "2", *request.param)
    return project.run(*options, "--chaos-results", "spread", results="spread", PYTEST_XDIST_AUTO_NUM_WORKERS="2")


def test_workers_that_share_a_cell_give_the_same_results(alone: Done, spread: Done) -> None:
    assert alone.code == spread.code == 0, spread.out
    assert len(alone.runs) == 11 and lines(spread) == lines(alone)
    assert [(cell["fault"], cell["part"], cell["parts"]) for cell in alone.cells] == [("kill", 1, 1), ("late", 1, 1)]
    found = sorted((cell["fault"], cell["part"], cell["parts"], cell["order"]) for cell in spread.cells)
    assert found == [("kill", 1, 2, 0), ("kill", 2, 2, 0), ("late", 1, 1, 1)]


def test_the_summary_is_of_whole_cells(alone: Done, spread: Done) -> None:
    def table(done: Done) -> list[str]:
        return re.findall(r"^restart +redone \d+/10 +redone 0/1$", done.out, re.MULTILINE)

    assert table(spread) == table(alone) != []
    assert "ended early" not in spread.out and "other shards" not in spread.out and spread.info["cells"] == 2


def test_both_parts_are_on_workers_of_their_own(spread: Done) -> None:
    workers = dict(re.findall(r"\[(gw\d)\] .*::test_control\[(restart-kill-part\dof2)\]", spread.out))
    assert set(workers) == {"gw0", "gw1"}, spread.out


SELECTIONS: list[tuple[list[str], list[str]]] = [
    ([], CELLS),  # one process: nobody to share with
    (["--chaos-parts", "2"], PARTS),
    (["--chaos-parts", "1"], CELLS),
    (["--chaos-parts", "2", "-k", "part2of2"], PARTS[1:2]),
    (["--chaos-parts", "2", "--chaos-runs", "3"], PARTS),  # `every` has as many runs as there are steps
    (["--chaos-parts", "2", "--chaos-case", "kill@3/before_act#1"], CELLS[:1]),
    (["--splits", "2", "--group", "1"], CELLS[:1]),  # too small to be divided unasked
    *((["--chaos-parts", "2", "--splits", "3", "--group", str(group)], [PARTS[group - 1]]) for group in (1, 2, 3)),
]


@pytest.fixture(scope="module")
def selected(project: Project) -> list[Done]:
    return project.run_all(*(["--chaos", "--co", "-q", *selection] for selection, _ in SELECTIONS))


@pytest.mark.parametrize("number", range(len(SELECTIONS)), ids=lambda number: " ".join(SELECTIONS[number][0]))
def test_which_tests_there_are(selected: list[Done], number: int) -> None:
    assert ids(selected[number].out) == SELECTIONS[number][1]


def test_exit_4_no_number_of_parts(project: Project) -> None:
    for done in project.run_all(*(["--chaos", "--co", f"--chaos-parts={text}"] for text in ("0", "x", "1001", "-1"))):
        assert done.code == 4 and "--chaos-parts (CHAOS_PARTS) takes a number from 1 to 1000 or 'auto'" in done.out


def test_places_are_the_campaign_s_whatever_is_selected(project: Project) -> None:
    """By strategy, by pytest, by group: a shard's cells have the places that they have in the whole."""
    (folder := project.folder / "many").mkdir()
    for name in ("a", "b"):
        project.write(f"many/{name}.chaos.yaml", scenario(name, "[restart, in_memory]", f"[{KILL}, {LATE}]", runs=1))
    options = ["--chaos", "--chaos-parts", "2", str(folder), "--chaos-strategy", "in_memory", "--chaos-seed", "7"]
    project.run_all([*options, "-k", "late", "--splits", "2", "--group", "2", "--chaos-results", "few"])
    planned = json.loads((project.folder / "few/planned.json").read_text())
    assert [(cell["scenario"], cell["strategy"], cell["order"], cell["here"]) for cell in planned["cells"]] == [
        ("a", "in_memory", 3, False), ("b", "in_memory", 7, True),
    ]  # fmt: skip
    cells = [json.loads(line) for line in (project.folder / "few/cells.jsonl").read_text().splitlines()]
    assert [(cell["scenario"], cell["order"]) for cell in cells] == [("b", 7)] and set(planned["scenarios"]) == {
        "a",
        "b",
    }
    assert json.loads((project.folder / "few/campaign.json").read_text())["shard"] == "2 of 2"


def test_exit_1_what_is_kept_in_every_part_is_unexpectedly_kept(project: Project) -> None:
    more = MAY.replace("breaks: [recovery]", "breaks: [recovery, files]")
    project.write("kept/kept.chaos.yaml", scenario("kept", "[restart]", f"[{EVERY}]", more=more))
    done = project.run("--chaos", "kept", "--chaos-parts", "2", "--chaos-seed", "7", "--chaos-results", "kept-results")
    assert done.code == 1 and " failed" not in done.out, "no part fails by itself"
    assert re.search(r"^XPASS restart × kill: unexpectedly kept: files", done.out, re.MULTILINE)
