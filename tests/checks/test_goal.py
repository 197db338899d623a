from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest

from chaos.checks.goal import Goal
from chaos.targets import Facts
from chaos.verdict import PASS, Outcome, Verdict
from tests.journals import FACTS, GOAL, REPORT, SEEN, TERMS, Story, recovered, reference, refusing, seen


def judged(story: Story, facts: Facts = FACTS) -> Verdict:
    return Goal().check(story.record, reference().record, TERMS, facts)


def test_a_recovered_run_keeps_its_goal() -> None:
    assert judged(recovered()) == PASS


@pytest.mark.parametrize(
    ("goal", "how"), [("", "carries no goal"), ("Buy tulips.", "carries another goal: 'Buy tulips.'")]
)
def test_a_goal_that_changed_is_named_with_its_turn(goal: str, how: str) -> None:
    verdict = judged(Story().start().steps(0, 2).crash().start(2).step(2, goal=goal).steps(3).finish())
    assert verdict.outcome is Outcome.FAIL
    assert verdict.finding == f"the prompt of turn 2 (attempt 2) {how}"
    assert verdict.details == (f"the goal is: {GOAL}", "1 of 4 prompts differ")


def test_an_effect_beside_the_goal_is_named() -> None:
    verdict = judged(Story().start().steps(0).effect("tickets.close:7", off_goal=True).finish())
    assert verdict.finding == "tickets.close is off the goal (attempt 1, step 3)"


def test_a_deliverable_with_wrong_content_or_none_is_named() -> None:
    wrong = msgspec.structs.replace(REPORT, digest="x")
    assert judged(Story().start().steps(0).finish(seen=seen(files=(wrong,)))).finding == (
        "workspace/report.md has wrong content"
    )
    gone = judged(Story().start().steps(0).finish(seen=seen(files=SEEN.files[:3])), replace(FACTS, digests=()))
    assert gone.finding == "workspace/report.md was to be delivered and is missing"


def test_drift_of_a_run_that_did_not_finish_is_told() -> None:
    assert judged(refusing()).outcome is Outcome.UNKNOWN
    assert judged(Story().start().ask(0, goal="").exit(1).stop("gave up")).outcome is Outcome.FAIL


def test_unknown_where_nothing_could_be_looked_at() -> None:
    assert judged(Story().start().steps(0).finish(seen=None)).finding == "the run was not observed at its end"
    assert judged(Story().start().finish(), Facts(goal=GOAL)).outcome is Outcome.UNKNOWN
