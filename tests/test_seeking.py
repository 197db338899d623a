"""Searches, pairs and repeats in real runs of the toy: what counts, what is discarded, what is kept for next time."""

from __future__ import annotations

from pathlib import Path

import pytest

from chaos.campaign import Runner
from chaos.cell import starts_of, taken
from chaos.examples import FOLDER, Examples
from chaos.explorers.fixed import Fixed
from chaos.explorers.pairs import Pairs
from chaos.explorers.recovery import Recovery
from chaos.explorers.repeat import Repeat
from chaos.explorers.search import Search
from chaos.faults.corrupt_delta import CorruptDelta
from chaos.faults.kill import Kill
from chaos.faults.oom_kill import OomKill
from chaos.plan import Case, parse_case, parse_plan
from chaos.results import CellResult
from chaos.route import Speed
from chaos.scenario import FaultSpec
from chaos.variants import Variants
from chaos.verdict import CellVerdict, Outcome
from tests import toy

BUG = """
if len(load()) == 2 and Path('2.txt').exists():  # killed at 2/after_act, and at no other point
    with open(toy.LOG, 'a') as log: log.write('"made up"\\n')
work()
"""
NEVER = CorruptDelta(which="covered")  # of a log without snapshots no record is covered


def run(folder: Path, fault: FaultSpec, code: str = "work()", seed: int = 7, runs: int = 40) -> CellResult:
    folder.mkdir(exist_ok=True)
    made = toy.scenario(fault, runs=runs, target=toy.Toy(code))
    for name in ("results.jsonl", "cells.jsonl"):  # as the beginning of a campaign does
        (folder / name).unlink(missing_ok=True)
    runner = Runner(folder, "campaign", seed, speed=Speed.REAL)
    try:
        return runner.run_cell(toy.cells(made)[0])
    finally:
        runner.close()


def test_a_search_ends_with_what_it_finds_and_begins_with_it_the_next_time(tmp_path: Path) -> None:
    searched = toy.spec(Kill(), Search(1, ("after_act", "after_commit")))
    cell = run(tmp_path, searched, BUG)
    *before, found = toy.runs(tmp_path)
    assert (cell.passed, cell.verdict) == (False, CellVerdict.DIVERGED)
    assert f"state broke in 1 of {cell.runs} runs; searched {cell.runs} plans" in cell.why
    assert found.plan == "kill@2/after_act"
    assert {each.verdict for each in before} == {CellVerdict.RECOVERED}
    assert [each.run for each in toy.runs(tmp_path)] == list(range(cell.runs))
    examples = Examples(tmp_path, toy.cells(toy.scenario(searched))[0])
    known = Variants({"kill": Kill()})
    assert examples.kept(known) == (Case(parse_plan("kill@2/after_act"), found.run),)

    again = run(tmp_path, searched, BUG, seed=8)
    (only,) = toy.runs(tmp_path)
    assert (again.passed, only.plan, only.run) == (False, found.plan, found.run)
    assert again.why.endswith("1 plan of an earlier campaign tried first, of which 1 broke it again")

    healed = run(tmp_path, searched, runs=3)
    assert healed.passed, healed.why
    assert "1 plan of an earlier campaign tried first; searched 3 plans" in healed.why
    assert toy.runs(tmp_path)[0].plan == found.plan
    assert len({each.run for each in toy.runs(tmp_path)}) == healed.runs
    assert examples.kept(known) == ()


def test_a_plan_that_did_not_come_about_neither_counts_nor_fails(tmp_path: Path) -> None:
    cell = run(tmp_path, toy.spec(Kill(), Search(2), then=(toy.spec(NEVER, label="never"),)), runs=6)
    assert (cell.passed, cell.verdict) == (True, CellVerdict.RECOVERED), cell.why
    runs = toy.runs(tmp_path)
    assert cell.why.startswith(f"all {len(runs)} runs recovered; searched 6 plans, ")
    assert 0 < len(runs) < 6
    assert all(each.landed and not each.missed and "never" not in each.plan for each in runs)
    assert cell.planned == cell.landed


def test_a_search_of_which_nothing_came_about_is_not_exercised(tmp_path: Path) -> None:
    cell = run(tmp_path, toy.spec(NEVER, Search(1)), runs=2)
    assert (cell.passed, cell.verdict, cell.runs) == (False, CellVerdict.NOT_EXERCISED, 0)
    assert cell.why == "no planned fault hit in any run"


def test_pairs_are_all_run_and_one_that_never_hits_is_told(tmp_path: Path) -> None:
    both = Pairs(2, ("after_act",), after=2)
    again = toy.spec(Kill(), Recovery(("after_load",), draw=False), "again")
    cell = run(tmp_path / "all", toy.spec(Kill(), both, then=(again,)))
    assert cell.passed, cell.why
    assert "pairs, any 2 things together" in cell.why
    assert {each.planned for each in toy.runs(tmp_path / "all")} == {2}
    never = toy.spec(NEVER, Recovery(("after_load",), draw=False), "never")
    cell = run(tmp_path / "never", toy.spec(Kill(), both, then=(never,)))
    assert (cell.passed, cell.verdict) == (False, CellVerdict.NOT_EXERCISED)
    assert "never both hit: kill@" in cell.why


def test_equal_plans_that_go_the_same_way_keep_a_promise(tmp_path: Path) -> None:
    cell = run(tmp_path, toy.spec(Kill(), Repeat(Fixed((1, 2), ("after_act",)), 2)))
    assert (cell.passed, cell.runs) == (True, 2), cell.why
    for each in toy.runs(tmp_path):
        assert each.checks["determinism"].outcome is Outcome.PASS
        assert len(list((tmp_path / each.journal).parent.rglob("journal.jsonl"))) == 2


@pytest.mark.parametrize(
    ("twice", "says"),
    [
        ("for _ in lives: say('still here')", "points: after "),
        ("if lives: toy.post('/email/send', {'to': 'me'}, {}, toy.SERVICES)", "effects: email.send happened"),
        ("Path('lives').write_text(lives)", "files: workspace/lives has other content"),
    ],
)
def test_equal_plans_that_do_not_are_a_finding_that_says_what_differs(tmp_path: Path, twice: str, says: str) -> None:
    lives = tmp_path / "lives"
    lives.touch()
    code = f"""
lives = Path({str(lives)!r}).read_text()
if load():
    Path({str(lives)!r}).write_text(lives + 'x')
    {twice}
work()
"""
    cell = run(tmp_path / "r", toy.spec(Kill(), Repeat(Fixed((1,), ("after_act",)))), code)
    (only,) = toy.runs(tmp_path / "r")
    assert not cell.passed
    assert "determinism broke in 1 of 1 runs" in cell.why
    told = only.checks["determinism"]
    assert told.finding.startswith("2 runs of this plan, with the same random choices, differ: ")
    assert says in "\n".join((told.finding, *told.details))
    assert "determinism" in cell.findings


def test_a_variant_is_replayed_as_its_plan_says(tmp_path: Path) -> None:
    result, cell = toy.replay(tmp_path, Kill(), "kill:signal=SIGINT,grace=0s@1/after_act")
    assert cell.passed, cell.why
    assert result.landed[0].evidence["signal"] == "SIGINT"
    assert "kill:signal=SIGINT,grace=0s@1/after_act#0" in result.replay


@pytest.mark.parametrize(
    ("plan", "says"),
    [
        ("kil@1/after_act", "the case names what this cell has not: no fault 'kil'; did you mean 'kill'?"),
        ("kill:sgnal=x@1/after_act", "no field 'sgnal'; did you mean 'signal'?"),
    ],
)
def test_a_case_with_what_no_variant_says_is_refused(tmp_path: Path, plan: str, says: str) -> None:
    runner = Runner(tmp_path, "campaign", 7, case=parse_case(plan))
    cell = runner.run_cell(toy.cells(toy.scenario(toy.spec(Kill())))[0])
    assert (cell.passed, cell.verdict) == (False, CellVerdict.HARNESS_ERROR)
    assert says in cell.why


def test_what_a_variant_takes_away_is_its_own() -> None:
    spec = toy.spec(OomKill())
    assert taken(spec, parse_plan("oom_kill@1/after_act")) == "container"
    assert taken(spec, parse_plan("oom_kill:loses=process@1/after_act")) == "process"


def test_a_plan_of_a_search_may_begin_with_any_of_its_faults() -> None:
    further = (toy.spec(OomKill()),)
    assert starts_of(toy.spec(Kill(), Search(), then=further)) == ("kill", "oom_kill")
    assert starts_of(toy.spec(Kill(), then=further)) == ("kill",)


def test_examples_of_another_scenario_go(tmp_path: Path) -> None:
    (cell,) = toy.cells(toy.scenario(toy.spec(Kill())))
    examples = Examples(tmp_path, cell)
    known = Variants({"kill": Kill()})
    cases = [
        Case(parse_plan(text), 3) for text in ("kill@1/after_act", "kill:grace=1s@1/after_act", "evict@1/after_act")
    ]
    for case in cases:
        examples.keep(case)
    assert examples.kept(known) == tuple(sorted(cases[:2], key=str))
    held = [path.read_text() for path in (tmp_path / FOLDER).rglob("*") if path.is_file()]
    assert {str(case) for case in cases[:2]} <= set(held)
    assert str(cases[2]) not in held
