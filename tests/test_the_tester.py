"""Test the tester: agents with one planted bug each are caught by the right check, their correct sibling never.

Everything is real here: processes, sandbox, faults, the campaign's own path from a scenario file to results.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec
import pytest

from chaos import registry
from chaos.campaign import Cell, Runner
from chaos.plan import parse_case
from chaos.results import CellResult, RunResult
from chaos.sandbox.process import able
from chaos.scenario.loader import load
from chaos.targets.planted import NONE, bug_names
from chaos.variants import name_of
from chaos.verdict import CellVerdict, Outcome

SEED = 8412
STEPS = 16  # the shortest script with a payment, a commit and a temporary file

# The steps of the script at that length.
MAIL, BAIT, ENGINE, COMMIT, TICKET, KEEP, PAYMENT, LATE = 2, 5, 7, 9, 10, 11, 12, 14

SCENARIO = """\
version: 1
scenario: {name}
target: {{planted: {{bug: {bug}, steps: {steps}{options}}}}}
strategies: [loop]
faults:
  - kind: kill
    then:
      - {{kind: rate_limit, requests: 9, retry_after: 1ms, at: {{during: recovery, phase: after_load}}}}
  - {{kind: evict, grace: 0s}}
  - {{kind: corrupt_delta, how: truncate, which: first}}
  - {{kind: clock_jump, direction: back, seconds: 1h}}
  - {{kind: changed_code, what: prompt}}
  - kind: rate_limit
    name: told_to_wait
    requests: 2
    retry_after: 300ms
    then:
      - {{kind: kill, at: {{step: {late}, phase: before_think}}}}
  - {{kind: overloaded, requests: 5}}
  - {{kind: stream_cut}}
  - {{kind: context_overflow}}
  - {{kind: false_dead, wakes: finished}}
  - {{kind: power_loss}}
  - {{kind: disk_full}}
  - {{kind: io_error, times: 2, then: [{{kind: power_loss}}]}}
"""


@dataclass(frozen=True)
class Planting:
    """A bug, the plan that exposes it, and the check that must catch it with a finding that says *says*.

    *breaks*: the other checks that the same damage must break. All that is not named must hold. *options* are the
    agent's, *more* is the end of the scenario.
    """

    bug: str
    plan: str
    check: str
    says: str
    breaks: frozenset[str] = frozenset()
    verdict: CellVerdict = CellVerdict.DIVERGED
    options: str = ""
    more: str = ""

    @property
    def broke(self) -> frozenset[str]:
        return self.breaks | {self.check}


PLANTINGS = (
    Planting("effect_without_key", f"kill@{PAYMENT}/after_act", "effects", "payments.charge happened 2 times instead"),
    Planting(
        "record_before_effect",
        f"kill@{TICKET}/after_commit",
        "effects",
        f"tickets.create never happened (step {TICKET})",
        # the made-up result is in every prompt and in the report, and what its step cost was to be counted with it
        breaks=frozenset({"goal", "files", "state", "budget"}),
    ),
    Planting(
        "state_in_global",
        f"kill@{COMMIT}/before_think",
        "state",
        f"the prompt of turn {COMMIT} (attempt 2) differs",
        breaks=frozenset({"goal", "files"}),  # the report is made from what the model was shown
    ),
    Planting(
        "budget_reset",
        f"kill@{COMMIT}/after_commit",
        "budget",
        f"the budget was reset: the agent counts 0 steps used at turn {COMMIT + 1}",
        breaks=frozenset({"state"}),  # the counters are part of it
    ),
    Planting(
        "goal_from_last_message",
        f"kill@{BAIT}/after_commit",
        "goal",
        f"the prompt of turn {BAIT + 1} (attempt 2) carries another goal",
        breaks=frozenset({"state", "effects", "files", "processes"}),  # Q2 all the way
    ),
    Planting(
        "checkpoint_in_place",
        f"kill@{COMMIT}/during_commit",
        "finishes",
        "refused to resume",
        verdict=CellVerdict.REFUSED,
    ),
    Planting(
        "compacts_in_place",
        "kill@7/during_commit",  # the eighth checkpoint, and no other point
        "finishes",
        "both copies of history.jsonl are",
        verdict=CellVerdict.REFUSED,
    ),
    Planting(
        "waits_on_record",
        f"told_to_wait:requests=1@{STEPS - 1}/before_think+kill@{STEPS - 1}/before_think",  # while it waits
        "state",
        f"attempt 2 resumed at step {STEPS} with a state that the reference had not there",
    ),
    Planting("tmp_trusted", f"evict@{PAYMENT}/before_think", "files", "tmp/control-sum is missing"),
    Planting("pid_in_state", f"kill@{TICKET}/before_think", "processes", "is not running"),
    Planting("key_per_attempt", f"kill@{PAYMENT}/after_act", "effects", "payments.charge happened 2 times instead"),
    Planting("environment_forgotten", f"kill@{COMMIT}/before_think", "environment", "REPORT_QUARTER is not set"),
    Planting(
        "exits_zero",
        f"kill@{COMMIT}/before_think+rate_limit@recovery/after_load",
        "finishes",
        "exited with status 0 and was not done",
        breaks=frozenset({"effects", "state"}),
    ),
    Planting(
        "stale_snapshot",
        f"kill@{PAYMENT}/before_act",
        "recovery",
        "2 steps lost by a crash; allowed: 1",
        verdict=CellVerdict.RECOVERED_WITH_LOSS,
    ),
    Planting(
        "restarts_on_release",
        f"changed_code@{COMMIT}/before_act",
        "effects",
        "email.send happened 2 times instead of once",
        breaks=frozenset({"recovery"}),
    ),
    Planting(
        "clock_trusted",
        f"clock_jump@{COMMIT}/after_commit",
        "state",
        "the state read back by another process differs",
    ),
    Planting(
        "no_fsync",
        f"power_loss@{COMMIT}/after_commit",
        "finishes",
        "CorruptStore: both copies of history.jsonl are damaged",
        verdict=CellVerdict.REFUSED,
    ),
    Planting(
        "fsync_ignored",
        f"io_error@{TICKET}/after_act+power_loss@{TICKET}/after_commit",  # the next step's would make up for it
        "finishes",
        "CorruptStore: both copies of history.jsonl are damaged",
        verdict=CellVerdict.REFUSED,
    ),
    Planting(
        "full_disk_ignored",
        f"disk_full@{STEPS - 1}/after_act",
        "state",
        "the state read back by another process differs",
    ),
    Planting(
        "silent_truncation",
        f"corrupt_delta@{TICKET}/after_commit",
        "corruption",
        "silent damage: truncate",
        breaks=frozenset({"state", "goal", "files"}),  # the first line has the rows that the report counts
    ),
    Planting(
        "ignores_retry_after",
        f"told_to_wait@{COMMIT}/before_think",
        "retries",
        "s after a 429 that said 0.3 s",
    ),
    Planting("retry_storm", f"overloaded@{COMMIT}/before_think", "retries", "retry storm: 5 requests for turn 9"),
    Planting(
        "truncated_stream_taken",
        f"stream_cut@{STEPS - 1}/before_think",  # the last word, or all that is left out would break with it
        "streams",
        "a reply that was truncated was taken for the last word",
        breaks=frozenset({"state"}),  # it has half a sentence at its end
        options=", stream: true",
    ),
    Planting(
        "tokens_forgotten",
        f"kill@{COMMIT}/after_commit",
        "budget",
        "tokens were forgotten: the agent counts 0 tokens at turn 10 (attempt 2)",
        breaks=frozenset({"state"}),  # the counters are part of it
    ),
    Planting(
        "goal_compacted",
        f"context_overflow@{COMMIT}/before_think",
        "goal",
        f"the prompt of turn {COMMIT} (attempt 1) carries no goal",
        breaks=frozenset({"finishes"}),  # without a goal the model has no answer
        verdict=CellVerdict.REFUSED,
        options=", workload: long_notes",
        more="expect: {volatile: [$.tokens]}\n",  # shorter prompts cost less
    ),
    Planting(
        "no_fence",
        f"false_dead@{LATE}/after_act",  # behind the last effect, or `effects` would break with it
        "fencing",
        f"committed by two workers that lived at the same time, from step {LATE} on",
    ),
)


class Lab:
    """Runs single plans through one runner, so that each agent's reference is made once."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.runner = Runner(folder, "the-tester", SEED)

    def scenario(self, text: str) -> Path:
        path = self.folder / "one.chaos.yaml"
        path.write_text(text)
        return path

    def run(self, bug: str, plan: str, more: str = "", options: str = "") -> tuple[CellResult, RunResult]:
        """Run *plan* on the agent with *bug* and *options*, under a scenario with *more* in it."""
        name = f"planted-{bug.replace('_', '-')}"
        text = SCENARIO.format(name=name, bug=bug, steps=STEPS, late=LATE, options=options)
        cell, runs = self.cell(text + more, plan)
        assert len(runs) == 1, cell.why
        return cell, runs[0]

    def cell(self, text: str, plan: str = "", fault: str = "") -> tuple[CellResult, list[RunResult]]:
        """Run the cell of the fault that *plan* begins with, or of *fault*; return what it left in the results."""
        scenario = load(self.scenario(text), SEED)
        self.runner.case = parse_case(plan) if plan else None
        label = fault or name_of(plan.partition("@")[0])
        [spec] = [spec for spec in scenario.faults if spec.label == label]
        results = self.folder / "results.jsonl"
        before = len(results.read_bytes().splitlines()) if results.exists() else 0
        cell = self.runner.run_cell(Cell(scenario, scenario.strategies[0], spec))
        if cell.skipped:
            pytest.skip(cell.skipped)
        lines = results.read_bytes().splitlines()[before:] if results.exists() else []
        return cell, [msgspec.json.decode(line, type=RunResult) for line in lines]


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


ids = [planting.bug for planting in PLANTINGS]


def test_every_bug_is_in_the_table_and_every_check_catches_one() -> None:
    assert sorted(ids) == bug_names()
    assert {planting.check for planting in PLANTINGS} == set(registry.names("checks"))


@pytest.mark.parametrize("planting", PLANTINGS, ids=ids)
def test_a_planted_bug_is_caught_by_its_check(lab: Lab, planting: Planting) -> None:
    if planting.bug == "pid_in_state" and able().process_tree:
        pytest.skip(f"process ids come again only in a new namespace: {able().process_tree}")
    cell, run = lab.run(planting.bug, planting.plan, planting.more, planting.options)
    assert len(run.landed) == run.planned, told(run)
    caught = run.checks[planting.check]
    assert caught.outcome is Outcome.FAIL, told(run)
    assert planting.says in "\n".join((caught.finding, *caught.details)), told(run)
    assert named(run, Outcome.FAIL) == planting.broke, told(run)
    assert (cell.passed, run.verdict) == (False, planting.verdict), told(run)


@pytest.mark.parametrize("planting", PLANTINGS, ids=ids)
def test_the_correct_sibling_passes_everything_under_the_same_plan(lab: Lab, planting: Planting) -> None:
    cell, run = lab.run(NONE, planting.plan, planting.more, planting.options)
    assert len(run.landed) == run.planned, told(run)
    assert named(run, Outcome.PASS) == set(registry.names("checks")), told(run)
    assert (cell.passed, run.verdict) == (True, CellVerdict.RECOVERED), told(run)
    assert set(run.claims.values()) <= {"kept", *(() if run.attempts > 1 else ("not judged",))}, run.claims


alone = [planting for planting in PLANTINGS if not planting.breaks and planting.check != "finishes"]


@pytest.mark.parametrize("planting", alone, ids=[planting.bug for planting in alone])
def test_without_its_check_nothing_else_would_have_caught_it(lab: Lab, planting: Planting) -> None:
    others = ", ".join(name for name in registry.names("checks") if name != planting.check)
    cell, run = lab.run(planting.bug, planting.plan, f"expect: {{checks: [{others}]}}\n", planting.options)
    assert planting.check not in run.checks
    assert (cell.passed, run.verdict) == (True, CellVerdict.RECOVERED), told(run)


SWEEP = """\
version: 1
scenario: sweep
target: {{planted: {{steps: {steps}}}}}
strategies: [loop]
faults:
  - {{kind: kill, at: {{step: [{kills}], phase: every}}}}
  - {{kind: evict, grace: 0s, at: {{step: [{evictions}], phase: [after_act, after_commit]}}}}
"""
# The kinds of steps that leave something behind: a file, variables, a process, a commit, a payment.
KILLS = (1, 4, ENGINE, COMMIT, PAYMENT)
EVICTIONS = (ENGINE, KEEP)


@pytest.mark.parametrize(("fault", "plans"), [("kill", 25), ("evict", 4)])
def test_the_correct_sibling_recovers_everywhere(lab: Lab, fault: str, plans: int) -> None:
    text = SWEEP.format(steps=STEPS, kills=", ".join(map(str, KILLS)), evictions=", ".join(map(str, EVICTIONS)))
    cell, runs = lab.cell(text, fault=fault)
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
    cell, run = lab.run(NONE, plan)
    assert run.attempts == plan.count("kill@") + 1
    assert (cell.passed, run.verdict, len(run.landed)) == (True, CellVerdict.RECOVERED, run.planned), told(run)


def test_nobody_can_send_a_key_less_mail_exactly_once(lab: Lab) -> None:
    """The line that no client can cross is drawn, for the correct sibling too: the service knows no key."""
    _, run = lab.run(NONE, f"kill@{MAIL}/after_act")
    assert named(run, Outcome.FAIL) == {"effects"}, told(run)
    assert run.checks["effects"].finding.startswith("email.send happened 2 times instead of once")
