"""Refused requests, proved by the statuses that went over the wire."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from chaos.events import NULL
from chaos.events.seen import Asked
from chaos.faults.rate_limit import RateLimit
from chaos.journal import AnyEvent
from chaos.verdict import CellVerdict
from tests import replies, toy

AT = "rate_limit@1/before_think"
BURST = 3
WAIT = 0.1  # seconds; what the agent is told


def statuses(ran: toy.Ran) -> list[int]:
    return [event.status for event in ran.all(Asked)]


def test_the_next_requests_are_refused(tmp_path: Path) -> None:
    ran = toy.run(tmp_path, plan=AT, faults={"rate_limit": RateLimit(BURST, retry_after=0.001)})
    assert statuses(ran) == [200, 429, 429, 429, 200, 200]
    assert ran.statuses == [0]  # memory and processes go on
    (landed,) = ran.landed
    assert landed.evidence == {"refused_429": BURST, "retry_after_seconds": 0.001}


def test_an_agent_that_waits_as_told_shows_it(tmp_path: Path) -> None:
    ran = toy.run(tmp_path, plan=AT, faults={"rate_limit": RateLimit(BURST, retry_after=WAIT)})
    pairs = itertools.pairwise(ran.all(Asked))
    waits = [after.at - before.at for before, after in pairs if before.status == 429]
    assert len(waits) == BURST
    assert min(waits) >= WAIT
    assert [event.retry for event in ran.all(Asked)] == [0, 0, 1, 2, 3, 0]


def test_an_agent_that_does_not_wait_fails_loudly_and_resumes(tmp_path: Path) -> None:
    """Told to come back in an hour, it dies, and its restart finds the endpoint open again."""
    code = "toy.patient = False\nwork()"
    ran = toy.run(tmp_path, code, AT, {"rate_limit": RateLimit(1, retry_after=3600.0)})
    assert ran.statuses == [1, 0]
    assert "Refused: 429" in ran.record.exits[0].log
    assert statuses(ran) == [200, 429, 200, 200]
    assert ran.landed


def test_an_agent_that_gives_up_before_the_burst_is_over_shows_too_little(tmp_path: Path) -> None:
    code = "toy.patient = False\nwork()"
    ran = toy.run(tmp_path, code, AT, {"rate_limit": RateLimit(5, retry_after=0.0)}, backoff_limit=1)
    assert statuses(ran) == [200, 429, 429]
    assert ran.landed == ()


@pytest.mark.parametrize("point", ["2/after_act", "finished"])
def test_a_burst_that_nobody_runs_into_proves_nothing(tmp_path: Path, point: str) -> None:
    run, cell = toy.replay(tmp_path, RateLimit(), f"rate_limit@{point}")
    assert run.landed == ()
    assert run.verdict is cell.verdict is CellVerdict.NOT_EXERCISED
    assert not cell.passed


def test_a_burst_that_is_only_begun_proves_nothing(tmp_path: Path) -> None:
    """One request is left to be made, and it is not made again."""
    target = toy.Toy("toy.patient = False\ntry: work()\nexcept Refused: finish(load() + ['answer 2'])")
    run, _ = toy.replay(tmp_path, RateLimit(requests=2), "rate_limit@2/before_think", target=target)
    assert run.landed == ()
    assert run.verdict is CellVerdict.NOT_EXERCISED


def test_a_quota_that_is_used_up_stops_the_agent_at_once_and_its_restart_goes_on(tmp_path: Path) -> None:
    wrong = replies.run(tmp_path, RateLimit(quota="sticky"), "it@9/before_think", "full_snapshot")
    refused = [event for event in wrong.asked if event.status != 200]
    assert [(event.status, event.refused, event.retry_after) for event in refused] == [(429, "quota", None)]
    assert wrong.statuses == [1, 0] and "insufficient_quota" in wrong.record.exits[0].log
    assert wrong.broken == {}
    assert wrong.landed[0].how == "quota used up"


@pytest.mark.parametrize(("strategy", "kept"), [("chat_history", True), ("restart", False)])
def test_a_kill_during_the_wait_does_not_end_it_for_who_keeps_anything(
    tmp_path: Path, strategy: str, kept: bool
) -> None:
    """The agent announces the point again before it waits for the next try."""
    plan = "it@9/before_think+kill@9/before_think"
    wrong = replies.run(tmp_path, RateLimit(2, retry_after=0.6), plan, strategy)
    assert wrong.statuses == [-9, 0] and len(wrong.landed) == 2
    (refused, again, *_) = [event for event in wrong.asked if event.turn == 9 or event.attempt == 2]
    assert (refused.attempt, again.attempt) == (1, 2)
    assert ("retries" not in wrong.broken) is kept, wrong.broken
    assert (again.at - refused.at >= 0.6) is kept


def test_nobody_runs_into_the_quota(tmp_path: Path) -> None:
    replies.not_exercised(tmp_path, RateLimit(quota="sticky"))
    replies.takes_none(RateLimit)


def asked(status: int) -> Asked:
    why = {429: "rate_limit", 503: "overloaded"}.get(status, "")
    return Asked(
        at=1.0, attempt=1, turn=0, status=status, prompt="p", prefixes=("p",), messages=NULL, goal="", refused=why
    )


@pytest.mark.parametrize(
    ("events", "lands"),
    [
        ([asked(429), asked(429), asked(200)], True),
        ([asked(429), asked(200), asked(429)], True),  # an agent may have two conversations
        ([asked(429), asked(200)], False),
        ([asked(503), asked(503)], False),  # an overload is another fault
        ([asked(200), asked(200)], False),
        ([], False),
    ],
)
def test_the_whole_burst_must_have_been_served(events: list[AnyEvent], lands: bool) -> None:
    assert (RateLimit(requests=2).landed("1/before_think", events) is not None) is lands
