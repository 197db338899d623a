"""Which cells have their runs derived, from which recorded run, and which of the runs are made for real as well."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaos import route
from chaos.campaign import Cell, Runner
from chaos.capture.deriver import Deriver
from chaos.capture.shelf import Capture, Shelf
from chaos.explorers.every import Every
from chaos.explorers.fixed import Fixed
from chaos.explorers.search import Search
from chaos.faults.evict import Evict
from chaos.faults.kill import Kill
from chaos.faults.rate_limit import RateLimit
from chaos.parts import Part
from chaos.plan import Case, parse_plan
from chaos.results import KILLED
from chaos.route import DERIVE_FROM, SHARE, Router, Speed, sampled
from chaos.run import Setup
from chaos.sandbox import Able
from chaos.sandbox.backends import ProcessBackend
from chaos.scenario import FaultSpec
from chaos.trial import Trial
from chaos.verdict import CellVerdict
from tests import toy
from tests.capture.recorded import Toy, run_scenario, setup_of, toying

PLAN = parse_plan("kill@1/after_act")


# -- which runs are real as well


@given(st.integers(0, 400), st.integers(0, 2**63))
def test_one_of_twenty_is_drawn_and_the_seed_says_which(runs: int, seed: int) -> None:
    cases = [Case(PLAN, 3 * run) for run in range(runs)]
    chosen = sampled(cases, random.Random(seed))
    assert chosen == sampled(cases, random.Random(seed))
    assert chosen <= set(cases) and len(chosen) == -(-runs // SHARE)
    for begin in range(0, runs, SHARE):
        share = cases[begin : begin + SHARE]
        (place,) = (number for number, case in enumerate(share) if case in chosen)
        assert place <= (len(share) - 1) // 2, "there must be room to recover before the next"


def test_another_seed_draws_others_and_each_of_them_in_the_end() -> None:
    cases = [Case(PLAN, run) for run in range(SHARE)]
    drawn = {case.run for seed in range(200) for case in sampled(cases, random.Random(seed))}
    assert drawn == set(range(SHARE // 2))


def test_the_same_seed_kills_the_same_runs_for_real(tmp_path: Path) -> None:
    scenario = toying(toy.spec(Kill(), Every(("before_act", "after_act"))))
    ran = [run_scenario(tmp_path / name, scenario, Speed.FAST) for name in ("one", "two")]
    assert ran[0].how == ran[1].how and [run.like for run in ran[0].runs] == [run.like for run in ran[1].runs]


# -- which cells are derived


@dataclass(frozen=True)
class Elsewhere(ProcessBackend):
    """The process back end of a machine without PID namespaces."""

    def able(self) -> Able:
        return Able(process_tree="no PID namespace")


@dataclass(frozen=True)
class Container:
    """Another kind of sandbox, which is not asked for one."""

    name: str = "container"


def cell_of(fault: FaultSpec) -> Cell:
    (cell,) = toy.cells(toying(fault))
    return cell


@pytest.fixture
def router(tmp_path: Path) -> Iterator[Router]:
    made = Router(tmp_path, Speed.AUTO)
    yield made
    made.close()


KILLS = toy.spec(Kill(), Every())
SEEKS = toy.spec(Kill(), Search(faults=1))


@pytest.mark.parametrize(
    ("speed", "fault", "runs", "why"),
    [
        (Speed.REAL, KILLS, 1000, "every run is made from its start (--chaos-speed real)"),
        (Speed.AUTO, KILLS, DERIVE_FROM - 1, f"too few runs to record one for them ({DERIVE_FROM - 1}; from"),
        (Speed.AUTO, KILLS, DERIVE_FROM, ""),
        (Speed.AUTO, SEEKS, 2, ""),  # a seeker asks for one after the other
        (Speed.FAST, KILLS, 1, ""),
        (Speed.FAST, toy.spec(Kill("SIGTERM")), 1000, "kill does more than to end the agent"),
        (Speed.FAST, toy.spec(Evict()), 1000, "evict does more than to end the agent"),
        (Speed.FAST, toy.spec(RateLimit()), 1000, "rate_limit does more than to end the agent"),
    ],
)  # fmt: skip
def test_what_is_derived(tmp_path: Path, speed: Speed, fault: FaultSpec, runs: int, why: str) -> None:
    router = Router(tmp_path, speed)
    try:
        deriver, told = router.of(cell_of(fault), setup_of(Toy(), "keeps"), runs)
        assert (deriver is None) == bool(why) and told.startswith(why) and bool(told) == bool(why)
    finally:
        router.close()


@pytest.mark.parametrize(
    ("backend", "why"),
    [
        (Elsewhere(), "a crash state is that of a tree that dies at once (no PID namespace)"),
        (Container(), "only the process back end captures crash states, not container"),
    ],
)
def test_where_nothing_can_be_derived(router: Router, backend: Any, why: str) -> None:
    setup = replace(setup_of(Toy(), "keeps"), backend=backend)
    assert router.of(cell_of(KILLS), setup, 1000) == (None, why)


def test_cells_with_the_same_crash_free_run_share_what_was_recorded(router: Router) -> None:
    one = setup_of(Toy(), "keeps")
    first, _ = router.of(cell_of(KILLS), one, 1000)
    again, _ = router.of(cell_of(toy.spec(Kill(), label="late")), replace(one, faults={"late": Kill()}), 1000)
    assert first is not None and again is first and set(again.setup.faults) == {"late"}


def test_there_is_one_recorded_run_at_a_time(router: Router, monkeypatch: pytest.MonkeyPatch) -> None:
    closed: list[Setup] = []
    close = Deriver.close
    monkeypatch.setattr(Deriver, "close", lambda self: closed.append(self.setup) or close(self))
    keeps, forgets = setup_of(Toy(), "keeps"), setup_of(Toy(), "forgets")
    first, _ = router.of(cell_of(KILLS), keeps, 1000)
    other, _ = router.of(cell_of(KILLS), forgets, 1000)
    assert first is not other and closed == [keeps]
    router.close()
    router.close()
    assert closed == [keeps, forgets]


@pytest.mark.parametrize(("steps", "phases"), [(6, Every()), (3, Every(("after_act",)))], ids=["large", "small"])
def test_auto_derives_the_runs_of_large_cells(tmp_path: Path, steps: int, phases: Every) -> None:
    scenario = toying(toy.spec(Kill(), phases), target=Toy(steps=steps))
    ran = run_scenario(tmp_path / "auto", scenario, Speed.AUTO)
    derived = len(ran.runs) >= DERIVE_FROM
    assert derived == (steps == 6) and ran.errors == []
    assert ({run.how for run in ran.runs} != {KILLED}) == derived == (ran.cell.real_because == "")


def test_a_case_that_is_replayed_is_made_from_its_start(tmp_path: Path) -> None:
    scenario = toying(toy.spec(Kill(), Every()), target=Toy(steps=6))
    ran = run_scenario(tmp_path / "auto", scenario, Speed.AUTO, case=Case(PLAN, 5))
    assert [(run.plan, run.run, run.how) for run in ran.runs] == [(str(PLAN), 5, KILLED)]


def test_parts_of_a_cell_give_what_the_whole_gives(tmp_path: Path) -> None:
    scenario = toying(toy.spec(Kill(), Fixed((0, 1, 2), ("before_act", "after_act"))))
    whole = run_scenario(tmp_path / "whole", scenario, Speed.FAST)
    (cell,) = toy.cells(scenario)
    (tmp_path / "parts").mkdir()
    runners = [Runner(tmp_path / "parts", "campaign", toy.SEED, speed=Speed.FAST) for _ in range(2)]
    try:
        for number, runner in enumerate(runners, 1):
            runner.run_cell(replace(cell, part=Part(number, 2)))
    finally:
        for runner in runners:
            runner.close()
    runs = sorted(toy.runs(tmp_path / "parts"), key=lambda run: run.run)
    assert [(run.run, run.plan, run.verdict) for run in runs] == [(r.run, r.plan, r.verdict) for r in whole.runs]
    assert [run.how for run in runs].count(KILLED) == 2, "one of each part is real"


def test_some_of_a_seeker_s_runs_are_killed_for_real_when_it_is_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has to know at once what became of a plan; so the runs stay what they are, and a contradiction is told."""
    scenario = toying(SEEKS, target=Toy(steps=6), runs=8)
    ran = run_scenario(tmp_path / "true", scenario, Speed.AUTO)
    assert len(ran.runs) == 8 and ran.errors == [] and ran.cell.passed
    assert KILLED not in ran.how.values()
    assert list((tmp_path / "true/runs").glob("toy/keeps/kill/real-from-*"))
    put_back = Shelf.put_back

    def torn(self: Shelf, capture: Capture) -> int:
        written = put_back(self, capture)
        (self.root / "durable" / "history.jsonl").unlink(missing_ok=True)
        return written

    monkeypatch.setattr(Shelf, "put_back", torn)
    late = toying(toy.spec(Kill(), Search(faults=1, after=4)), target=Toy(steps=6), runs=1)
    lied = run_scenario(tmp_path / "lied", late, Speed.AUTO)
    assert lied.cell.verdict is CellVerdict.HARNESS_ERROR and not lied.cell.passed
    assert "use --chaos-speed real" in lied.cell.why


def test_an_interrupt_costs_no_run_that_is_finished(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run, calls = Trial.run, iter(range(100))

    def interrupted(self: Trial, case: Case, **named: Any) -> Any:
        if next(calls) == 4:
            raise KeyboardInterrupt
        return run(self, case, **named)

    monkeypatch.setattr(Trial, "run", interrupted)
    monkeypatch.setattr(route, "sampled", lambda cases, rng: frozenset(cases))
    scenario = toying(toy.spec(Kill(), Every(("before_act", "after_act"))))
    with pytest.raises(KeyboardInterrupt):
        run_scenario(tmp_path / "fast", scenario, Speed.FAST)
    assert [result.run for result in toy.runs(tmp_path / "fast")] == [0, 1, 2, 3]
