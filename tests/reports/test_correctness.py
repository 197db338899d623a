"""One number per strategy and survival class, whatever the scenario expects."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from chaos import results
from chaos.reports import html, terminal
from chaos.reports.correctness import Share, correctness
from chaos.results import Landed
from chaos.verdict import CellVerdict
from tests.reports.conftest import Sample

GOOD, LOSS, WRONG = CellVerdict.RECOVERED, CellVerdict.RECOVERED_WITH_LOSS, CellVerdict.DIVERGED


def add(sample: Sample, strategy: str, survival: str, *verdicts: CellVerdict, **changes: object) -> None:
    for number, verdict in enumerate(verdicts):
        sample.run(f"by-{survival}", strategy, "kill", number, verdict, survival=survival, **changes)


def test_it_is_the_share_that_recovered(build: Callable[[], Sample]) -> None:
    sample = build()
    add(sample, "cow", "process", GOOD, GOOD, GOOD)
    add(sample, "delta", "process", GOOD, LOSS, WRONG)
    found = correctness(results.read(sample.folder))
    assert found.classes == ("disk kept",)
    assert found.rows == (("cow", (Share(3, 0, 0, 3),)), ("delta", (Share(1, 1, 0, 3),)))
    assert [share.percent for _, shares in found.rows for share in shares if share] == [100, 33]
    assert found.spread == "disk kept: from 33 % (delta) to 100 % (cow)"


def test_a_lost_container_and_a_lost_node_are_one_class(build: Callable[[], Sample]) -> None:
    sample = build()
    add(sample, "cow", "container", GOOD)
    add(sample, "cow", "node", WRONG)
    add(sample, "cow", "none", GOOD)
    found = correctness(results.read(sample.folder))
    assert found.classes == ("disk lost", "no crash")
    assert found.rows == (("cow", (Share(1, 0, 0, 2), Share(1, 0, 0, 1))),)
    assert found.spread == ""  # one strategy has none


def test_an_expected_failure_did_not_recover(build: Callable[[], Sample]) -> None:
    sample = build()
    add(sample, "chat_history", "container", WRONG, broke=("files",), expected=("files",))
    assert correctness(results.read(sample.folder)).rows == (("chat_history", (Share(0, 0, 0, 1),)),)


def test_an_effect_outside_that_no_strategy_takes_back_is_told_apart(build: Callable[[], Sample]) -> None:
    sample = build()
    add(sample, "cow", "process", WRONG, broke=("effects",))
    add(sample, "cow", "process", WRONG, broke=("effects", "state"))
    assert correctness(results.read(sample.folder)).rows == (("cow", (Share(0, 0, 1, 2),)),)


@pytest.mark.parametrize(
    "changes",
    [
        {"landed": ()},
        {"planned": 2},  # half a plan tests something else
        {"planned": 0, "landed": ()},
        {"verdict": CellVerdict.HARNESS_ERROR},  # ours, not the agent's
        {"survival": ""},  # written by a version that did not know
    ],
)
def test_runs_that_prove_nothing_do_not_count(build: Callable[[], Sample], changes: dict[str, object]) -> None:
    sample = build()
    verdict = changes.pop("verdict", GOOD)
    assert isinstance(verdict, CellVerdict)
    sample.run("s", "cow", "kill", 0, verdict, **{"survival": "process", **changes})
    assert correctness(results.read(sample.folder)).rows == ()


def test_a_check_that_could_not_judge_is_no_recovery(build: Callable[[], Sample]) -> None:
    sample = build()
    add(sample, "cow", "process", CellVerdict.UNKNOWN, GOOD)
    assert correctness(results.read(sample.folder)).rows == (("cow", (Share(1, 0, 0, 2),)),)


def test_just_below_all_is_not_all() -> None:
    assert Share(299, 0, 0, 300).percent == 99


def test_it_stands_in_the_summary_and_on_the_page(build: Callable[[], Sample]) -> None:
    sample = build()
    add(sample, "cow", "container", GOOD, GOOD)
    add(sample, "chat_history", "container", WRONG, GOOD)
    campaign = results.read(sample.folder)
    text = terminal.render(campaign, None, 100)
    assert "cow           100 % 2/2" in text
    assert "chat_history   50 % 1/2" in text
    assert "spread, disk lost: from 50 % (chat_history) to 100 % (cow)" in text
    page = html.render(campaign, sample.folder)
    assert "Spread, disk lost: from 50 % (chat_history) to 100 % (cow)." in page
    assert '<b>50 %</b><small class="parts">1 of 2</small>' in page


def test_landed_faults_are_needed_one_by_one(build: Callable[[], Sample]) -> None:
    sample = build()
    one = Landed("kill", "5/after_act", "killed", {"status": -9})
    sample.run("s", "cow", "kill", 0, GOOD, survival="process", planned=2, landed=(one, one))
    assert correctness(results.read(sample.folder)).rows == (("cow", (Share(1, 0, 0, 1),)),)
