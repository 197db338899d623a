"""What the first milestone promises to show on the real reference agent, shown: by real faults, on real runtimes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from chaos import journal, registry
from chaos.campaign import Cell, Runner
from chaos.checks import Terms
from chaos.faults import Fault
from chaos.faults.corrupt_delta import CorruptDelta
from chaos.faults.evict import Evict
from chaos.faults.kill import Kill
from chaos.faults.oom_kill import OomKill
from chaos.plan import Case, parse_plan
from chaos.record import Record
from chaos.results import RunResult
from chaos.sandbox.process import able
from chaos.scenario import Limits, Scenario, StrategySpec
from chaos.targets.reference import Reference
from chaos.targets.reference.workloads.script import beats
from chaos.verdict import CellVerdict, Outcome
from tests import toy

SEED = 8412
STEPS = 24  # every kind of step once, and little more
BEATS = beats(STEPS)
MAIL = BEATS.index("kickoff_mail")  # sent without an idempotency key
LATE = BEATS.index("uncommitted")  # nearly everything is done, the report is not
EARLY = 15  # the delta strategy's first snapshot, after 20 updates, is yet to come
FLIPS = range(2, 14)  # runs 2 and 3 show both outcomes with today's bytes, the others are for those of tomorrow
ALL = ("state", "files", "processes", "environment", "effects", "goal", "budget", "finishes", "corruption", "recovery")

Broken = tuple[RunResult, Record]
Break = Callable[..., Broken]

needs_memory = pytest.mark.skipif(bool(able().memory_limit), reason=able().memory_limit or "-")
needs_hostname = pytest.mark.skipif(bool(able().hostname), reason=able().hostname or "-")


@pytest.fixture(scope="module")
def broken(tmp_path_factory: pytest.TempPathFactory) -> Break:
    """Break one strategy with one fault at one point; the crash-free runs are shared."""
    folder = tmp_path_factory.mktemp("campaign")
    runner = Runner(folder, "acceptance", SEED)

    def run(strategy: str, fault: Fault, plan: str, number: int = 0) -> Broken:
        made: StrategySpec = StrategySpec(strategy, strategy, registry.load("strategies", strategy)())
        scenario = Scenario(
            path=Path("acceptance.chaos.yaml"), name="acceptance", description="", tags=(),
            target=Reference(steps=STEPS), strategies=(made,), faults=(toy.spec(fault),), checks=ALL, terms=Terms(),
            volatile=(), expected=(), limits=Limits(backoff_limit=2), runs=1,
        )  # fmt: skip
        runner.case = Case(parse_plan(plan), number)
        cell = runner.run_cell(Cell(scenario, made, scenario.faults[0]))
        assert cell.landed == cell.planned == 1, f"the fault must land: {cell.why or cell.skipped}"
        result = toy.runs(folder)[-1]
        return result, Record(journal.read(folder / result.journal))

    return run


def found(result: RunResult, check: str) -> str:
    """Everything that *check* found, as one text."""
    verdict = result.checks[check]
    assert verdict.outcome is Outcome.FAIL, (check, verdict)
    return "\n".join((verdict.finding, *verdict.details))


@needs_hostname
def test_chat_history_loses_files_and_processes_when_evicted(broken: Break) -> None:
    result, record = broken("chat_history", Evict(grace=0.2), f"evict@{LATE}/before_act")
    assert result.verdict is CellVerdict.DIVERGED
    files, processes = found(result, "files"), found(result, "processes")
    assert "workspace/data/q1.csv is missing" in files
    assert "the git repository workspace is missing" in files
    assert "salesmath.engine" in processes
    assert result.claims == {"messages": "kept"}  # what it promised, it kept
    assert record.resumed_turn[2] == LATE


@pytest.mark.parametrize("strategy", ["in_memory", "restart"])
def test_a_strategy_that_keeps_nothing_starts_over(broken: Break, strategy: str) -> None:
    result, record = broken(strategy, Kill(), f"kill@{LATE}/before_think")
    assert record.resumed_turn[2] == 0
    assert result.rpo_steps == LATE  # all that had been done
    assert "recovery" in result.broke
    assert f"{LATE} steps lost" in found(result, "recovery")
    assert "email.send happened 2 times instead of once" in found(result, "effects")
    assert result.tokens.asked_again > 0


def test_full_snapshot_sends_the_mail_without_a_key_twice_and_breaks_nothing_else(broken: Break) -> None:
    result, record = broken("full_snapshot", Kill(), f"kill@{MAIL}/after_act")
    assert result.broke == ("effects",)
    assert result.verdict is CellVerdict.DIVERGED
    mails = [effect for effect in record.effects if effect.service == "email" and "begins" in effect.payload]
    assert [(mail.attempt, mail.key, mail.deduplicated) for mail in mails] == [(1, None, False), (2, None, False)]
    others = [effect.identity for effect in record.effects if effect not in mails and not effect.deduplicated]
    assert len(others) == len(set(others)) >= 3  # ticket, payment, late mail: once each
    assert result.rpo_steps == 1


def test_a_deleted_delta_is_silently_wrong(broken: Break) -> None:
    fault = CorruptDelta(how="delete", which="live")
    result, record = broken("delta", fault, f"corrupt_delta@{EARLY}/after_commit")
    assert result.verdict is CellVerdict.DIVERGED
    assert record.finished  # it went on as if nothing had been
    assert {"corruption", "state"} <= set(result.broke)
    assert "silent damage: delete in LanggraphSqlite at delta" in found(result, "corruption")
    assert result.claims["messages"] == "refuted"


def test_a_flipped_bit_is_silently_wrong_or_noticed_by_chance(broken: Break) -> None:
    """No checksum protects a delta: a bit of the text is missed by all, one of its frame fails to decode."""
    fault = CorruptDelta(how="flip", which="live")
    outcomes: dict[CellVerdict, RunResult] = {}
    for number in FLIPS:
        result, _ = broken("delta", fault, f"corrupt_delta@{EARLY}/after_commit", number)
        outcomes.setdefault(result.verdict, result)
        if {CellVerdict.DIVERGED, CellVerdict.REFUSED} <= outcomes.keys():
            break
    assert {CellVerdict.DIVERGED, CellVerdict.REFUSED} <= outcomes.keys()
    silent, loud = outcomes[CellVerdict.DIVERGED], outcomes[CellVerdict.REFUSED]
    assert "silent damage: flip" in found(silent, "corruption")
    assert "corruption" not in loud.broke
    assert "finishes" in loud.broke


def test_a_deleted_delta_behind_a_later_snapshot_harms_nobody(broken: Break) -> None:
    fault = CorruptDelta(how="delete", which="covered")
    result, record = broken("delta", fault, f"corrupt_delta@{LATE}/after_commit")
    assert len(record.damages) == 1
    assert result.verdict is CellVerdict.RECOVERED
    assert result.claims["messages"] == "kept"


@needs_memory
@pytest.mark.parametrize("strategy", ["restart", "chat_history", "delta"])
def test_every_oom_kill_is_counted_by_the_kernel(broken: Break, strategy: str) -> None:
    result, record = broken(strategy, OomKill(), f"oom_kill@{LATE}/before_act")
    (landed,) = result.landed
    assert landed.evidence["status"] == -9
    assert int(landed.evidence["oom_kill_after"]) > int(landed.evidence["oom_kill_before"])
    assert record.crashes[0].oom_kill == landed.evidence["oom_kill_after"]
