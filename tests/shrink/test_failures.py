"""Failures of real runs, made small by real runs."""

from __future__ import annotations

import html
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from chaos import results
from chaos.campaign import Runner
from chaos.explorers.every import Every
from chaos.explorers.fixed import Fixed
from chaos.explorers.recovery import Recovery
from chaos.faults.evict import Evict
from chaos.faults.kill import Kill
from chaos.faults.rate_limit import RateLimit
from chaos.results import CellResult, Minimal
from chaos.scenario import ExpectedFailure
from chaos.scenario.loader import load
from chaos.shrink import failures
from chaos.trial import Trial
from chaos.verdict import CellVerdict
from tests import toy
from tests.plugins.project import Done, Project

MOST = 60


def shrunk(folder: Path, scenario: Any, most: int = MOST) -> CellResult:
    """Run the one cell of *scenario* and shrink its failures."""
    folder.mkdir(exist_ok=True)
    runner = Runner(folder, "campaign", toy.SEED, shrink=most)
    try:
        return runner.run_cell(toy.cells(scenario)[0])
    finally:
        runner.close()


def only(cell: CellResult) -> Minimal:
    (minimal,) = cell.minimal
    return minimal


# -- an agent that loses what it did, on a target that no scenario can name

AGAIN = "os.environ['THREAD_ID'] += str(time.time_ns())\nwork()"
"""Every incarnation has keys of its own: what is done again happens again."""

NOISY = """\
post, refused = toy.post, []
def noisy(*asked):
    answer = post(*asked)
    refused.extend([answer] if answer[0] == 429 else [])
    if len(refused) >= 3: Path("noise").write_text("!")
    return answer
toy.post = noisy
work()
"""
"""After three refusals it leaves a file behind."""


def test_a_failure_is_shrunk_to_the_smallest_case(tmp_path: Path) -> None:
    again = toy.spec(Kill(), Recovery(("after_load",)), label="again")
    evict = toy.spec(Evict(0.0), Fixed((2,), ("after_commit",)), then=(again,))
    target = toy.Toy(AGAIN, steps=3)
    cell = shrunk(tmp_path, toy.scenario(evict, target=target, checks=("effects",), strategies=(toy.FORGETS,)))
    minimal = only(cell)
    assert minimal.was == "evict@2/after_commit+again@recovery/after_load#0"
    assert (minimal.case, minimal.target) == ("kill@1/after_act#0", {"steps": 2})
    assert (minimal.proven, minimal.check, minimal.verdict) == (True, "effects", CellVerdict.DIVERGED)
    assert "email.send happened 2 times" in minimal.finding
    assert 0 < minimal.runs <= MOST
    assert (minimal.bundle, minimal.why) == (
        "",
        "it cannot be written as a scenario of its own: the target Toy has no name that a scenario can say",
    )
    assert len(toy.runs(tmp_path)) == cell.runs == 1, "what was tried on the way is no run of the cell"
    assert toy.cell_results(tmp_path) == [cell]
    assert [path.name for path in (tmp_path / "runs" / "toy" / "forgets" / "evict").iterdir()] == ["0"]


def test_a_burst_becomes_as_short_as_it_can(tmp_path: Path) -> None:
    limit = toy.spec(RateLimit(9, 0.001), Fixed((1,), ("before_think",)))
    minimal = only(shrunk(tmp_path, toy.scenario(limit, target=toy.Toy(NOISY, steps=2), checks=("files",))))
    assert minimal.case == "rate_limit:requests=3@0/before_think#0", minimal
    assert minimal.proven, minimal


RETRY = """\
from chaos.probe import point
post, pending = toy.post, toy.DURABLE / "pending"
def retried(path, body, *more):
    answer = post(path, body, *more)
    if answer[0] == 429:
        pending.write_text("!")
        point("before_think", len(body["messages"]) // 2)
    elif path.startswith("/chat"):
        pending.unlink(missing_ok=True)
    return answer
toy.post = retried
if pending.exists(): Path("noise").write_text("!")
work()
"""
"""Killed when it is about to ask again after a refusal, it leaves a file behind."""


def test_two_faults_that_belong_together_are_moved_together(tmp_path: Path) -> None:
    at = Fixed((2,), ("before_think",))
    limit = toy.spec(RateLimit(3, 0.001), at, then=(toy.spec(Kill(), at),))
    minimal = only(shrunk(tmp_path, toy.scenario(limit, target=toy.Toy(RETRY), checks=("files",))))
    assert minimal.was == "rate_limit@2/before_think+kill@2/before_think#0"
    assert minimal.case == "rate_limit:requests=1@0/before_think+kill@0/before_think#0", minimal
    assert (minimal.target, minimal.proven) == ({"steps": 1}, True), minimal


def test_a_budget_that_ends_before_is_told(tmp_path: Path) -> None:
    evict = toy.spec(Evict(0.0), Fixed((3,), ("after_commit",)))
    target = toy.Toy(AGAIN, steps=5)
    scenario = toy.scenario(evict, target=target, checks=("effects",), strategies=(toy.FORGETS,))
    minimal = only(shrunk(tmp_path, scenario, most=4))
    assert not minimal.proven
    assert minimal.runs <= 4
    assert minimal.why.startswith("not proven minimal: 3 runs were not enough")
    assert "not proven minimal" in minimal.sentence


def test_so_is_a_time_that_ends_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(failures, "SECONDS", -1.0)
    evict = toy.spec(Evict(0.0), Fixed((3,), ("after_commit",)))
    target = toy.Toy(AGAIN, steps=5)
    scenario = toy.scenario(evict, target=target, checks=("effects",), strategies=(toy.FORGETS,))
    minimal = only(shrunk(tmp_path, scenario))
    assert (minimal.proven, minimal.runs, minimal.case) == (False, 0, minimal.was)
    assert "the time was over" in minimal.why


def test_where_everything_is_broken_the_first_failures_are_shrunk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(failures, "SECONDS_IN_ALL", 0.0)
    evict = toy.spec(Evict(0.0), Fixed((1,), ("after_commit",)))
    cell = shrunk(tmp_path, toy.scenario(evict, target=toy.Toy(AGAIN), strategies=(toy.FORGETS,)))
    assert cell.minimal == ()
    assert cell.why.endswith("not made smaller: 0 s were spent on the failures of other cells")


def test_expected_failures_and_none_are_not_shrunk(tmp_path: Path) -> None:
    kill = toy.spec(Kill(), Fixed((2,), ("after_act",)))
    expected = ExpectedFailure("forgets", "kill", ("recovery",), (), "it keeps nothing")
    more: dict[str, Any] = {"strategies": (toy.FORGETS,), "expected": (expected,)}
    cell = shrunk(tmp_path / "expected", toy.scenario(kill, **more))
    assert (cell.passed, cell.minimal) == (True, ())
    cell = shrunk(tmp_path / "recovered", toy.scenario(toy.spec(Kill())))
    assert (cell.passed, cell.minimal) == (True, ())
    cell = shrunk(tmp_path / "none", toy.scenario(kill, strategies=(toy.FORGETS,)), most=0)
    assert (cell.passed, cell.minimal) == (False, ())


def test_each_different_failure_is_shrunk_once(tmp_path: Path) -> None:
    """From the e-mail on it is sent again; and after the last step a restart leaves a file behind as well."""
    code = f"if Path('2.txt').exists(): Path('noise').write_text('!')\n{AGAIN}"
    every = toy.spec(Kill(), Every(("after_act",)))
    target = toy.Toy(code, steps=3)
    cell = shrunk(tmp_path, toy.scenario(every, target=target, strategies=(toy.FORGETS,), checks=("effects", "files")))
    assert [run.broke for run in toy.runs(tmp_path)] == [(), ("effects",), ("effects", "files")]
    assert [(each.check, each.case, each.proven) for each in cell.minimal] == [
        ("effects", "kill@1/after_act#0", True),
        ("files", "kill@2/after_act#0", True),
    ], cell.minimal


def test_an_interrupt_leaves_the_result_of_the_cell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = Trial.run

    def interrupted(self: Trial, *arguments: Any, **options: Any) -> Any:
        if self.aside is not None:
            raise KeyboardInterrupt
        return made(self, *arguments, **options)

    monkeypatch.setattr(Trial, "run", interrupted)
    evict = toy.spec(Evict(0.0), Fixed((3,), ("after_commit",)), then=(toy.spec(Kill(), Recovery(("after_load",))),))
    with pytest.raises(KeyboardInterrupt):
        shrunk(tmp_path, toy.scenario(evict, target=toy.Toy(AGAIN, steps=5), strategies=(toy.FORGETS,)))
    (cell,) = toy.cell_results(tmp_path)
    assert (cell.passed, cell.runs, cell.minimal) == (False, 1, ())
    assert len(toy.runs(tmp_path)) == 1


# -- planted bugs

SELDOM = """\
version: 1
scenario: compacts
target: {planted: {bug: compacts_in_place, steps: 13}}
strategies: [loop]
seed: 8412
faults: [{kind: evict, grace: 0s, at: {step: [6, 7], phase: [before_think, during_commit]}}]
"""


def test_one_phase_of_one_step_is_the_smallest_case(tmp_path: Path) -> None:
    path = tmp_path / "seldom.chaos.yaml"
    path.write_text(SELDOM)
    minimal = only(shrunk(tmp_path, load(path)))
    assert (minimal.case, minimal.target) == ("kill@7/during_commit#0", {"steps": 12}), minimal
    assert (minimal.check, minimal.proven) == ("finishes", True), minimal
    assert (tmp_path / minimal.bundle / "test_compacts_loop_evict.py").exists()


# -- through the front door

PLANTED = """\
version: 1
scenario: waits
target: {planted: {bug: waits_on_record, steps: 14}}
strategies: [loop]
seed: 8412
faults:
  - kind: rate_limit
    requests: 1
    retry_after: 1ms
    at: {step: 3, phase: before_think}
    then:
      - kind: kill
        at: {step: 3, phase: before_think}
        then: [{kind: evict, grace: 0s, at: {during: recovery, phase: after_load}}]
"""
CASE = "rate_limit@0/before_think+kill@0/before_think#0"  # as the bug's docstring has it
SHORTEST = {"steps": 12}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    found = Project(tmp_path_factory.mktemp("shrink") / "project")
    found.write("waits.chaos.yaml", PLANTED)
    return found


@pytest.fixture(scope="module")
def done(project: Project) -> Done:
    """The campaign."""
    return project.run("--chaos", "waits.chaos.yaml", CHAOS_SHRINK=str(MOST))


def test_a_planted_bug_is_shrunk_to_its_minimum(project: Project, done: Done) -> None:
    (cell,) = done.cells
    assert len(cell["minimal"]) == 1, done.out
    minimal = cell["minimal"][0]
    assert minimal["case"] == CASE, done.out
    assert (minimal["target"], minimal["proven"]) == (SHORTEST, True), done.out
    assert minimal["bundle"] == "failures/waits/loop-rate_limit"
    assert f"smallest: {CASE} with steps: 12 breaks effects (diverged)" in done.out
    assert "no single simplification of it fails in the same way" in done.out
    assert done.out.count(f"replay: {minimal['replay']}") == 2, "in the failure, and in the summary"
    assert f"{CASE} with steps: 12 breaks effects (diverged)" in html.unescape(done.report.read_text())
    assert project.sandboxes() == []


def test_its_bundle_is_complete_and_fails_in_the_same_way(project: Project, done: Done) -> None:
    (minimal,) = done.cells[0]["minimal"]
    bundle = project.folder / ".chaos" / minimal["bundle"]
    test = "test_waits_loop_rate_limit.py"
    names = ["README.md", "journal.jsonl", "reference.jsonl", "scenario.chaos.yaml", test]
    assert sorted(path.name for path in bundle.iterdir()) == names
    scenario = load(bundle / "scenario.chaos.yaml")
    assert (scenario.target.steps, scenario.seed, scenario.name) == (12, 8412, "waits")

    text = (bundle / test).read_text()
    assert len([line for line in text.splitlines() if line.strip()]) <= 11
    project.write(f"moved/{test}", text)
    project.write("moved/test_mended.py", text.replace("bug: waits_on_record", "bug: none"))
    alone = str(bundle / "scenario.chaos.yaml")
    tests, campaign, replayed = project.run_all(
        ["moved", "-p", "no:cacheprovider"],
        ["--chaos", alone, "--chaos-results", "alone", "--chaos-shrink", "0"],
        shlex.split(minimal["replay"])[1:],
    )
    assert re.search(r"1 failed, 1 passed", tests.out), tests.out
    assert f"{test}::test_rate_limit_at_0_before_think_then_kill_at_0_before_think" in tests.out
    assert f"effects: {minimal['finding']}" in tests.out
    assert re.search(rf"replay: pytest --chaos .*--chaos-case '{re.escape(CASE)}'", tests.out)

    assert campaign.code == 1
    alone_cell = results.read(project.folder / "alone").cells[0]
    assert (str(alone_cell.verdict), alone_cell.findings["effects"]) == (minimal["verdict"], minimal["finding"])
    assert alone_cell.minimal == ()

    again = results.read(project.folder / ".chaos" / "replay").cells[0]
    assert (replayed.code, again.findings, again.minimal) == (1, alone_cell.findings, ())
