"""Search: Hypothesis over whole plans, without a trace of Hypothesis."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from chaos.errors import HarnessError
from chaos.explorers import Seeker, Tried
from chaos.explorers._pool import ASKING
from chaos.explorers.fixed import Fixed
from chaos.explorers.recovery import Recovery
from chaos.explorers.search import Search
from chaos.faults.corrupt_delta import CorruptDelta
from chaos.faults.kill import Kill
from chaos.faults.rate_limit import RateLimit
from chaos.plan import Plan, Point, parse_plan
from chaos.variants import Variants, name_of
from tests.explorers.space import BROKE, EVICT, LIMIT, MISSED, POINTS, RIGHT, further, spec, tried

PLACES = {point: place for place, point in enumerate(POINTS)}


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("faults", [1, 3])
def test_plans_are_in_an_order_that_can_happen(seed: int, faults: int) -> None:
    search = Search(faults)
    plans = tried(search, spec(search, EVICT, LIMIT), 30, seed)
    assert {len(plan.faults) for plan in plans} == set(range(1, faults + 1))
    for plan in plans:
        certain, ended = -1, False
        for number, planned in enumerate(plan.faults):
            before = plan.faults[number - 1] if number else None
            if planned.point.recovery:
                assert ended, f"nothing recovers in {plan}"
            elif before is not None and planned.point == before.point:
                assert before.fault != "rate_limit" or planned.point.phase == ASKING, f"no second time in {plan}"
            else:
                assert PLACES[planned.point] > certain, f"{planned} is over in {plan}"
            certain = max(certain, PLACES.get(planned.point, -1))
            ended = ended or planned.fault != "rate_limit"


def test_no_plan_is_tried_twice_and_each_has_something_new() -> None:
    search = Search(2)
    plans = tried(search, spec(search, LIMIT), 60)
    assert len(set(plans)) == len(plans) == 60
    seen: set[object] = set()
    for plan in plans[:20]:
        assert not set(plan.faults) <= seen
        seen |= set(plan.faults)


def test_a_small_space_is_tried_out_and_no_more() -> None:
    search = Search(1, ("after_act",), after=2, before=4)
    plans = tried(search, spec(search), 500)
    assert sorted(map(str, plans)) == ["kill@2/after_act", "kill@3/after_act", "kill@4/after_act"]


def test_it_stops_at_the_first_that_breaks() -> None:
    search = Search(2)
    wanted = Point(3, "during_commit")

    def outcome(plan: Plan) -> Tried:
        return BROKE if any(planned.point == wanted for planned in plan.faults) else RIGHT

    plans = tried(search, spec(search), 500, outcome=outcome)
    assert [outcome(plan).broke for plan in plans[:-1]] == [frozenset()] * (len(plans) - 1)
    assert outcome(plans[-1]).broke


@pytest.mark.parametrize("runs", [1, 7, 50])
def test_there_are_no_more_runs_than_wanted(runs: int) -> None:
    search = Search()
    assert len(tried(search, spec(search, LIMIT), runs)) == runs
    assert len(tried(search, spec(search, LIMIT), runs, outcome=lambda plan: MISSED)) == runs


@pytest.mark.parametrize("runs", [1, 8, 20])
def test_fewer_runs_are_the_first_of_more(runs: int) -> None:
    search = Search()
    assert tried(search, spec(search, LIMIT), runs) == tried(search, spec(search, LIMIT), 30)[:runs]


def test_what_missed_is_told() -> None:
    search = Search()
    plans = iter(range(10))
    outcome = search.seek(POINTS, spec(search), 10, random.Random(1), lambda plan: MISSED if next(plans) % 2 else RIGHT)
    assert outcome.told == "searched 10 plans, 5 of which did not come about as a whole"
    nothing = search.seek([], spec(search), 10, random.Random(1), lambda plan: RIGHT)
    assert nothing == ("", "")


def test_a_miss_does_not_hide_what_the_other_faults_broke() -> None:
    search = Search(2)

    def outcome(plan: Plan) -> Tried:
        labels = [planned.fault for planned in plan.faults]
        return Tried("rate_limit" not in labels, frozenset({"state"} if "kill" in labels else ()))

    plans = tried(search, spec(search, LIMIT, EVICT), 100, 3, outcome)
    assert outcome(plans[-1]) == BROKE
    assert "rate_limit" not in str(plans[-1])


def test_fields_are_varied_and_told_in_the_label() -> None:
    search = Search(2)
    limit = further("rate_limit", RateLimit(), requests=(1, 2, 5))
    plans = tried(search, spec(search, limit, signal=("SIGKILL", "SIGTERM"), grace=(0.0, 0.25)), 60)
    labels = {planned.fault for plan in plans for planned in plan.faults}
    assert labels == {
        *("kill:grace=0s", "kill:grace=250ms", "kill:signal=SIGTERM,grace=0s", "kill:signal=SIGTERM,grace=250ms"),
        *("rate_limit", "rate_limit:requests=1", "rate_limit:requests=5"),
    }
    known = Variants({"kill": Kill(), "rate_limit": RateLimit()})
    assert known["kill:signal=SIGTERM,grace=0s"] == Kill("SIGTERM", 0.0)
    assert all(parse_plan(str(plan)) == plan for plan in plans)


def test_a_fault_that_says_where_it_hits_hits_nowhere_else() -> None:
    search = Search(3)
    again = further("again", Kill(), Recovery(("after_load",), draw=False))
    delta = further("corrupt_delta", CorruptDelta(), Fixed((2, 4), ("after_commit",)))
    plans = tried(search, spec(search, again, delta), 40)
    places: dict[str, set[str]] = {}
    for plan in plans:
        for planned in plan.faults:
            places.setdefault(name_of(planned.fault), set()).add(str(planned.point))
    assert places["again"] == {"recovery/after_load"}
    assert places["corrupt_delta"] == {"2/after_commit", "4/after_commit"}
    assert len(places["kill"]) > 10


@pytest.mark.parametrize("error", [HarnessError("no more disk"), KeyboardInterrupt(), SystemExit(3)])
def test_what_goes_wrong_in_a_run_comes_out_as_it_was(error: BaseException) -> None:
    def attempt(plan: Plan) -> Tried:
        raise error

    search = Search()
    with pytest.raises(type(error)) as told:
        search.seek(POINTS, spec(search), 10, random.Random(1), attempt)
    assert told.value is error


@settings(max_examples=5, suppress_health_check=[HealthCheck.nested_given], deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 3), st.integers(1, 12))
def test_equal_seeds_give_equal_plans(seed: int, faults: int, runs: int) -> None:
    search = Search(faults)
    fault = spec(search, LIMIT, signal=("SIGKILL", "SIGINT"))
    assert tried(search, fault, runs, seed) == tried(search, fault, runs, seed)
    assert search.plans(POINTS, "kill", runs, random.Random(seed)) == search.plans(
        POINTS, "kill", runs, random.Random(seed)
    )


ELSEWHERE = """\
import random, sys
{before}
from chaos.explorers.search import Search
from tests.explorers.space import LIMIT, spec, tried
search = Search()
print("\\n".join(map(str, tried(search, spec(search, LIMIT, grace=(0.0, 0.1, 0.2)), 25, 5))))
"""


def test_plans_do_not_depend_on_the_process_and_nothing_is_left_or_said(tmp_path: Path) -> None:
    """Not on its hashes, not on what is imported, not on CI, not on the user's settings for Hypothesis."""
    (tmp_path / "mine.py").write_text("NUMBERS = [0, 1, 2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31]\n")
    loaded = "import hypothesis; hypothesis.settings.load_profile('ci'); import mine; random.random()"
    runs = {}
    for name, before, env in (("plain", "", {}), ("loaded", loaded, {"CI": "1"})):
        folder = tmp_path / name
        folder.mkdir()
        path = f"{Path(__file__).parents[2]}:{tmp_path}"
        done = subprocess.run(
            [sys.executable, "-c", ELSEWHERE.format(before=before)],
            cwd=folder,
            env={"PYTHONPATH": path, "PYTHONHASHSEED": str(len(runs)), **env},
            capture_output=True,
            text=True,
            check=True,
        )
        runs[name] = done.stdout
        assert done.stderr == ""
        assert list(folder.iterdir()) == []
    assert runs["plain"] == runs["loaded"]
    search = Search()
    here = tried(search, spec(search, LIMIT, grace=(0.0, 0.1, 0.2)), 25, 5)
    assert runs["plain"].splitlines() == list(map(str, here))


def test_it_seeks() -> None:
    assert isinstance(Search(), Seeker)
