"""Test the tester: agents with one planted bug each are caught by the right check, their correct sibling never.

Everything is real here: processes, sandbox, faults, the campaign's own path from a scenario file to results.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from chaos import registry
from chaos.campaign import Runner
from chaos.plugins import selftest
from chaos.results import CellResult, RunResult
from chaos.sandbox.process import able
from chaos.targets.planted import NONE, bug_names, catch_of
from chaos.targets.planted.catch import (
    BAIT,
    COMMIT,
    ENGINE,
    KEEP,
    LAST,
    LATE,
    LATE_MAIL,
    MAIL,
    PAYMENT,
    STEPS,
    TICKET,
    Catch,
)
from chaos.targets.reference.workloads.script import beats
from chaos.verdict import CellVerdict, Outcome

SEED = selftest.SEED
PLANTINGS = {bug: catch_of(bug) for bug in bug_names()}


class Lab:
    """Runs single plans through one runner, so that each agent's reference is made once."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.runner = Runner(folder, "the-tester", SEED)

    def run(self, catch: Catch, bug: str, checks: Sequence[str] = ()) -> tuple[CellResult, RunResult]:
        """Run the plan of *catch* on the agent with *bug*."""
        cell, runs = self.cell(catch.scenario(bug, checks), catch.plan)
        assert len(runs) == 1, cell.why
        return cell, runs[0]

    def cell(self, text: str, plan: str = "") -> tuple[CellResult, tuple[RunResult, ...]]:
        """Run the one cell of the scenario *text*, or its one run *plan*."""
        [ran] = selftest.cells(self.runner, self.folder, text, plan)
        if ran.cell.skipped:
            pytest.skip(ran.cell.skipped)
        return ran.cell, ran.runs


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    made = Lab(tmp_path_factory.mktemp("lab"))
    yield made
    made.runner.close()


def named(run: RunResult, outcome: Outcome) -> set[str]:
    return {name for name, verdict in run.checks.items() if verdict.outcome is outcome}


def told(run: RunResult) -> str:
    """Return every check that did not pass, for the message of a failing test."""
    lines = [f"{run.scenario}, {run.plan}: {run.verdict} {run.error}"]
    lines += [f"  {name} {v.outcome.name}: {v.finding}" for name, v in run.checks.items() if v.outcome]
    return "\n".join(lines)


def test_every_check_catches_a_bug() -> None:
    assert {catch.check for catch in PLANTINGS.values()} == set(registry.names("checks"))


def test_the_steps_of_the_script_are_what_they_are_called() -> None:
    script = beats(STEPS)
    assert [script[step] for step in (MAIL, BAIT, ENGINE, COMMIT, TICKET, KEEP, PAYMENT, LATE_MAIL, LATE, LAST)] == [
        "kickoff_mail", "distraction", "engine", "first_commit", "ticket", "keep", "payment", "late_mail", "report",
        "end",
    ]  # fmt: skip


@pytest.mark.parametrize("bug", PLANTINGS)
def test_a_planted_bug_is_caught_by_its_check(lab: Lab, bug: str) -> None:
    catch = PLANTINGS[bug]
    if catch.needs and (lacks := getattr(able(), catch.needs)):
        pytest.skip(f"the bug does not show here: {lacks}")
    cell, run = lab.run(catch, bug)
    assert selftest.missed(catch, selftest.Ran(cell, (run,))) == "", told(run)
    assert named(run, Outcome.FAIL) == catch.broke, told(run)
    assert (cell.passed, run.verdict) == (False, catch.verdict), told(run)


# Bugs that one run exposes share the run of their sibling.
CASES = {(catch.scenario(NONE), catch.plan): bug for bug, catch in PLANTINGS.items()}


@pytest.mark.parametrize("bug", CASES.values())
def test_the_correct_sibling_passes_everything_under_the_same_plan(lab: Lab, bug: str) -> None:
    cell, run = lab.run(PLANTINGS[bug], NONE)
    assert selftest.accused(selftest.Ran(cell, (run,))) == "", told(run)
    assert named(run, Outcome.PASS) == set(registry.names("checks")), told(run)
    assert (cell.passed, run.verdict) == (True, CellVerdict.RECOVERED), told(run)
    assert set(run.claims.values()) <= {"kept", *(() if run.attempts > 1 else ("not judged",))}, run.claims


# For each check, a bug that breaks nothing else, and does not end the run.
ALONE = {catch.check: bug for bug, catch in PLANTINGS.items() if not catch.breaks and catch.check != "finishes"}


@pytest.mark.parametrize("check", ALONE)
def test_without_its_check_nothing_else_would_have_caught_it(lab: Lab, check: str) -> None:
    bug = ALONE[check]
    cell, run = lab.run(PLANTINGS[bug], bug, [name for name in registry.names("checks") if name != check])
    assert check not in run.checks
    assert (cell.passed, run.verdict) == (True, CellVerdict.RECOVERED), told(run)


SWEEP = """\
version: 1
scenario: sweep
target: {{planted: {{steps: {steps}}}}}
strategies: [loop]
faults: [{fault}]
"""
# The kinds of steps that leave something behind: a file, variables, a process, a commit, a payment.
KILLS = (1, 4, ENGINE, COMMIT, PAYMENT)
EVICTIONS = (ENGINE, KEEP)


@pytest.mark.parametrize(
    ("fault", "plans"),
    [
        (f"{{kind: kill, at: {{step: {list(KILLS)}, phase: every}}}}", 25),
        (f"{{kind: evict, grace: 0s, at: {{step: {list(EVICTIONS)}, phase: [after_act, after_commit]}}}}", 4),
    ],
)
def test_the_correct_sibling_recovers_everywhere(lab: Lab, fault: str, plans: int) -> None:
    cell, runs = lab.cell(SWEEP.format(steps=STEPS, fault=fault))
    assert len({run.plan for run in runs}) == plans
    assert [told(run) for run in runs if run.verdict is not CellVerdict.RECOVERED] == []
    assert (cell.passed, cell.landed) == (True, plans), cell.why


@pytest.mark.parametrize(
    "plan",
    [
        f"kill@{COMMIT}/after_act+kill@recovery/before_load+kill@recovery/after_load",
        f"kill@{PAYMENT}/after_act+kill@recovery/{PAYMENT}/after_act",
    ],
)
def test_the_correct_sibling_recovers_from_a_kill_during_recovery(lab: Lab, plan: str) -> None:
    cell, run = lab.run(Catch(plan, "", ""), NONE)
    assert run.attempts == plan.count("kill@") + 1
    assert (cell.passed, run.verdict, len(run.landed)) == (True, CellVerdict.RECOVERED, run.planned), told(run)


def test_nobody_can_send_a_key_less_mail_exactly_once(lab: Lab) -> None:
    """The line that no client can cross is drawn, for the correct sibling too: the service knows no key."""
    _, run = lab.run(Catch(f"kill@{MAIL}/after_act", "", ""), NONE)
    assert named(run, Outcome.FAIL) == {"effects"}, told(run)
    assert run.checks["effects"].finding.startswith("email.send happened 2 times instead of once")
