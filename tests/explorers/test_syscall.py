"""Where faults are put among the system calls that the reference run made."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaos.explorers.syscall import Syscall
from chaos.plan import SYSCALLS, Plan, Point, parse_plan
from chaos.scenario.placing import explorer, problems
from chaos.scenario.schema import At

POINTS = [Point(1, "write"), Point(0, "after_act"), Point(1, "fsync"), Point(2, "write"), Point(2, "fsync")]

explorers = st.builds(
    Syscall, st.sampled_from(SYSCALLS), st.lists(st.integers(1, 9), unique=True).map(tuple), st.booleans()
)
reached = st.lists(st.builds(Point, st.integers(1, 9), st.sampled_from((*SYSCALLS, "after_act"))), max_size=30)


def hit(explorer: Syscall, points: list[Point], runs: int = 3) -> list[Point]:
    plans = explorer.plans(points, "kill", runs, random.Random(1))
    return [planned.point for plan in plans for planned in plan.faults]


@given(explorers, reached, st.integers(1, 20))
def test_only_calls_that_were_made_are_hit(explorer: Syscall, points: list[Point], runs: int) -> None:
    found = hit(explorer, points, runs)
    made = {point for point in points if point.phase == explorer.syscall}
    assert set(found) <= made
    if explorer.n:
        assert set(found) == {point for point in made if point.step in explorer.n}
    elif explorer.every:
        assert set(found) == made
    else:
        assert len(found) == (runs if made else 0)


def test_the_forms_in_a_scenario() -> None:
    assert hit(explorer(At(syscall="fsync", n="every")), POINTS) == [Point(1, "fsync"), Point(2, "fsync")]  # type: ignore[arg-type]
    assert hit(explorer(At(syscall="write", n=[2, 7])), POINTS) == [Point(2, "write")]  # type: ignore[arg-type]
    assert len(hit(explorer(At(syscall="write")), POINTS, runs=5)) == 5  # type: ignore[arg-type]
    later = explorer(At(syscall="rename", n=3, during="recovery"))  # type: ignore[arg-type]
    assert hit(later, POINTS) == [Point(3, "rename", recovery=True)]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("given", "key", "says"),
    [
        ({"n": 3}, "n", "say which: `syscall: write`, `fsync`, `rename`"),
        ({"syscall": "fsync", "step": 3}, "step", "'syscall' of the kernel's; keep one of them"),
        ({"syscall": "fsync", "phase": "after_act"}, "phase", "keep one of them"),
        ({"syscall": "fsync", "during": "recovery", "n": 1}, "during", "under the `then:` of another one"),
        ({"syscall": "fsync", "during": "recovery"}, "n", "give the number of one, as in `n: 1`"),
    ],
)
def test_what_makes_no_sense(given: dict[str, object], key: str, says: str) -> None:
    found = dict(problems(At.model_validate(given), 10, first=True))
    assert says in found[key]


@pytest.mark.parametrize("n", [0, "all", [], [1, 1], True, 1.5])
def test_what_is_no_number(n: object) -> None:
    with pytest.raises(ValueError, match="n"):
        At.model_validate({"syscall": "fsync", "n": n})


def test_a_plan_names_them() -> None:
    plan = parse_plan("kill@7/fsync+kill@recovery/1/rename")
    assert [str(planned.point) for planned in plan.faults] == ["7/fsync", "recovery/1/rename"]
    assert plan.syscalls == {"fsync", "rename"}
    assert Plan().syscalls == frozenset()
