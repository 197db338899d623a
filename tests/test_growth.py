from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaos import growth
from chaos.events.done import Injecting
from chaos.events.seen import Ended, Exited, HostDid, Reached, Started
from chaos.growth import Row
from chaos.journal import AnyEvent
from chaos.record import Record

STEP_SECONDS = 0.010
LOAD_SECONDS = 0.250


class Story:
    """A run told at exact times: each incarnation loads, takes some steps, and ends."""

    def __init__(self) -> None:
        self.events: list[AnyEvent] = []
        self.now, self.attempt = 0.0, 0

    def add(self, kind: type[AnyEvent], seconds: float = 0.0, **fields: object) -> None:
        self.now += seconds
        self.events.append(kind(at=self.now, attempt=self.attempt, **fields))  # type: ignore[arg-type]

    def life(self, first: int, last: int, phase: str = "before_think", **exit_: object) -> Story:
        """Come up at step *first*, and end at *phase* of step *last*."""
        self.attempt += 1
        self.add(Started, 1.0, pid=1, hostname="h", thread_id="t")
        self.add(Reached, 0.5, step=0, phase="before_load", key="")
        self.add(Reached, LOAD_SECONDS / 2, step=first, phase="after_load", key="")
        for step in range(first, last + 1):
            seconds = LOAD_SECONDS / 2 if step == first else STEP_SECONDS
            self.add(Reached, seconds, step=step, phase="before_think", key="")
        if phase != "before_think":
            self.add(Reached, 0.0, step=last, phase=phase, key="")
        if exit_["status"]:
            self.add(Injecting, index=0, fault="kill", point=f"{last}/{phase}")
        self.add(Exited, 0.0, **exit_)
        return self

    @property
    def record(self) -> Record:
        return Record(self.events)


def two_kills() -> Story:
    story = Story()
    story.life(0, 5, status=-9, written_bytes=700, stored_bytes=520, log_bytes=20, elsewhere_bytes=40)
    story.life(5, 10, "after_commit", status=-9, written_bytes=600, stored_bytes=1100, elsewhere_bytes=90)
    return story


def test_each_crash_is_a_row() -> None:
    story = two_kills().life(11, 12, status=0, written_bytes=5, stored_bytes=1200, elsewhere_bytes=95)
    assert growth.rows(story.record) == (
        Row(n=5, stored_bytes=500, log_bytes=20, written_bytes=740, step_ms=10.0, resume_ms=250.0),
        Row(n=11, stored_bytes=1100, log_bytes=0, written_bytes=1390, step_ms=10.0, resume_ms=250.0),
    )


def test_a_crash_before_the_first_step_is_no_row() -> None:
    story = Story()
    story.life(0, 0, status=1, written_bytes=9, stored_bytes=9)
    assert growth.rows(story.life(0, 2, status=0).record) == ()


def test_an_end_that_no_fault_made_is_no_row() -> None:
    story = Story()
    story.life(0, 5, status=-9, stored_bytes=5)
    story.events = [event for event in story.events if not isinstance(event, Injecting)]  # the deadline came
    assert growth.rows(story.record) == ()


def test_what_comes_back_at_the_end_has_been_resumed_too() -> None:
    story = two_kills()
    story.attempt += 1
    story.add(Started, 1.0, pid=1, hostname="h", thread_id="t")
    story.add(Reached, 0.5, step=0, phase="before_load", key="")
    story.add(Reached, 0.125, step=11, phase="finished", key="")
    story.add(Exited, status=0)
    story.add(Ended, how="finished")
    assert growth.rows(story.record)[-1].resume_ms == 125.0


def test_an_agent_that_does_not_come_back_has_no_time_to_resume() -> None:
    assert growth.rows(two_kills().record)[-1].resume_ms is None


def test_what_the_other_half_does_between_two_lives_belongs_to_the_resume() -> None:
    story = two_kills()
    story.add(HostDid, 0.030, what="restore")
    story.life(11, 12, status=0)
    assert growth.rows(story.record)[-1].resume_ms == 280.0


def test_a_snapshot_in_the_next_life_does_not() -> None:
    story = two_kills().life(11, 12, status=0)
    story.add(HostDid, 0.030, what="snapshot")
    assert growth.rows(story.record)[-1].resume_ms == 250.0


def test_steps_done_again_are_steps() -> None:
    story = Story()
    story.life(0, 4, status=-9).life(0, 8, status=-9)
    row = growth.rows(story.record)[-1]
    assert (row.n, row.step_ms) == (8, 10.0)


def test_an_agent_that_announces_no_step_has_no_rows() -> None:
    assert growth.rows(Record([Exited(at=1.0, attempt=1, status=-9, stored_bytes=5)])) == ()


# -- the fit

SIZES = st.floats(1e3, 1e9)


@given(exponent=st.floats(0, 3), factor=SIZES, ns=st.lists(st.integers(1, 1000), min_size=2, max_size=8, unique=True))
def test_a_power_law_is_found(exponent: float, factor: float, ns: list[int]) -> None:
    found = growth.fit([(n, factor * n**exponent) for n in ns])
    assert found is not None
    assert found.exponent == pytest.approx(exponent, abs=1e-6)
    assert found.last == pytest.approx(exponent, abs=1e-6)
    if exponent > 0.01:
        assert found.r2 == pytest.approx(1.0, abs=1e-6)


@given(st.lists(st.tuples(st.integers(1, 1000), SIZES), min_size=2, max_size=8), st.floats(0.01, 1000))
def test_the_unit_does_not_matter(points: list[tuple[int, float]], unit: float) -> None:
    one, other = growth.fit(points), growth.fit([(n, size * unit) for n, size in points])
    assert (one is None) == (other is None)
    if one and other:
        assert other.exponent == pytest.approx(one.exponent, abs=1e-6)


@given(st.lists(st.tuples(st.integers(1, 1000), SIZES), max_size=8))
def test_it_is_the_line_with_the_least_squares(points: list[tuple[int, float]]) -> None:
    found = growth.fit(points)
    if found is None:
        assert len({n for n, _ in points}) < 2
        return

    def squares(exponent: float) -> float:
        rests = [math.log(size) - exponent * math.log(n) for n, size in points]
        return sum((rest - sum(rests) / len(rests)) ** 2 for rest in rests)

    for other in (found.exponent - 0.01, found.exponent + 0.01):
        assert squares(found.exponent) <= squares(other) + 1e-9
    assert found.r2 <= 1.0 + 1e-9


def test_a_quadratic_behind_a_constant_shows_in_the_last_doubling() -> None:
    ns = (50, 100, 150, 200, 300, 400)
    found = growth.fit([(n, 1_000_000 + n * n) for n in ns])
    assert found is not None
    assert found.exponent < found.last < 2
    assert found.last == pytest.approx(math.log2(1_160_000 / 1_040_000))


def test_without_a_doubling_the_last_two_count() -> None:
    found = growth.fit([(100, 10.0), (120, 12.0), (150, 30.0)])
    assert found is not None
    assert found.last == pytest.approx(math.log(30 / 12) / math.log(150 / 120))


@pytest.mark.parametrize("points", [[], [(50, 1.0)], [(50, 0.0), (100, 0.0)], [(50, 0.0), (100, 5.0)]])
def test_nothing_is_fitted_to_nothing(points: list[tuple[int, float]]) -> None:
    assert growth.fit(points) is None
