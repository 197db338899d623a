"""Where points are in a shorter run: beside the same effects, at the same steps, as far from the end."""

from __future__ import annotations

from collections.abc import Mapping

from chaos.events.seen import Effected, Reached
from chaos.plan import STEP_PHASES, Point
from chaos.record import Record
from chaos.shrink.places import landmarks, moved


def record(steps: int, effects: Mapping[int, str]) -> Record:
    """Return a run that has *effects*, by step."""
    events: list[Reached | Effected] = []
    for step in range(steps):
        for phase in STEP_PHASES:
            events.append(Reached(at=0.0, attempt=1, step=step, phase=phase, key=f"step-{step}"))
            if phase == "before_act" and step in effects:
                service, _, operation = effects[step].partition(".")
                events.append(
                    Effected(at=0.0, attempt=1, service=service, operation=operation, identity=str(step), payload="{}")
                )
    return Record(events)


LONG = record(20, {2: "email.send", 10: "tickets.create", 14: "payments.charge", 18: "email.send"})
SHORT = record(12, {2: "email.send", 6: "tickets.create", 8: "payments.charge", 11: "email.send"})


def places(step: int, *more: Point) -> list[list[str]]:
    points = (Point(step, "after_act"), *more)
    return [[str(point) for point in found] for found in moved(points, LONG, 20, SHORT, 12)]


def test_the_second_mail_is_another_landmark_than_the_first() -> None:
    assert landmarks(SHORT) == {
        ("email.send", 0): 2, ("tickets.create", 0): 6, ("payments.charge", 0): 8, ("email.send", 1): 11,
    }  # fmt: skip


def test_beside_the_landmark_then_the_same_step_then_as_far_from_the_end() -> None:
    assert places(14) == [["8/after_act"], ["11/after_act"], ["6/after_act"]]
    assert places(15)[0] == ["9/after_act"], "one behind the payment"
    assert places(1)[0] == ["1/after_act"], "before the first landmark: where it was"


def test_what_belongs_to_no_step_stays_and_what_belongs_together_moves_together() -> None:
    recovery = Point(None, "after_load", recovery=True)
    again = Point(14, "after_act", recovery=True)
    assert places(14, recovery, again)[0] == ["8/after_act", "recovery/after_load", "recovery/8/after_act"]
    assert places(14, Point(7, "fsync"))[0] == ["8/after_act", "7/fsync"]


def test_less_data_moves_nothing() -> None:
    points = (Point(14, "after_act"),)
    assert list(moved(points, LONG, 20, LONG, 20)) == [points]
