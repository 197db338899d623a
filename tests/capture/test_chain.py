"""Many real kills in one run: each is what a single one there is."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from chaos import journal, route
from chaos.capture import deriver as engine
from chaos.capture.deriver import Real
from chaos.errors import HarnessError
from chaos.events.done import Injecting
from chaos.events.seen import Started
from chaos.explorers.every import Every
from chaos.explorers.fixed import Fixed
from chaos.explorers.recovery import Recovery
from chaos.faults import Fault
from chaos.faults.corrupt_delta import CorruptDelta
from chaos.faults.crash_loop import CrashLoop
from chaos.faults.kill import Kill
from chaos.plan import Plan, parse_plan
from chaos.results import DERIVED, EQUAL, KILLED
from chaos.route import Speed
from chaos.targets.planted import Planted
from chaos.verdict import CellVerdict, Outcome
from tests import toy
from tests.capture.recorded import Recorded, Toy, recorded, run_scenario, setup_of, toying

STEPS = 14


def kill(made: Recorded, folder: Path, *plans: str) -> dict[str, Real]:
    found = made.deriver.kill([parse_plan(plan) for plan in plans], random.Random(1), folder / "real")
    return {str(real.plan): real for real in found}


def passes(folder: Path) -> list[int]:
    """Return how many kills each run from the start had."""
    journals = sorted((folder / "real").glob("[0-9]/journal.jsonl"))
    return [sum(isinstance(event, Injecting) for event in journal.read(path)) for path in journals]


def test_each_of_many_kills_in_one_run_is_what_a_single_one_there_is(tmp_path: Path) -> None:
    plans = ("kill@0/after_act", "kill@3/before_act", "kill@6/after_commit", "kill@9/after_act", "kill@13/after_act")
    with recorded(tmp_path, setup_of(Toy(steps=STEPS), "keeps"), toy.CHECKS) as made:
        killed = kill(made, tmp_path, *plans)
        assert tuple(killed) == plans and passes(tmp_path) == [len(plans)]
        for plan, real in killed.items():
            assert (
                made.told(real.record, plan)
                == made.told(made.execute(plan), plan)
                == made.told(made.derive(plan).record, plan)
            )
            assert tuple(real.record.events) == journal.read(real.journal)
            pids = [event.pid for event in real.record.events if isinstance(event, Started)]
            assert len(set(pids)) == 2, "each was a process of its own"


def test_kills_of_an_agent_with_a_bug_are_told_apart(tmp_path: Path) -> None:
    """The payment is charged twice by the one kill, and by no other in the same run."""
    plans = ("kill@5/after_act", "kill@12/after_act", "kill@15/after_commit")
    with recorded(tmp_path, setup_of(Planted("effect_without_key"), "loop")) as made:
        killed = kill(made, tmp_path, *plans)
        assert passes(tmp_path) == [3]
        told = {plan: made.told(real.record, plan) for plan, real in killed.items()}
        assert [told[plan].checks["effects"] for plan in plans] == [Outcome.PASS, Outcome.FAIL, Outcome.PASS]
        assert told == {plan: made.told(made.derive(plan).record, plan) for plan in plans}


def test_a_kill_before_the_agent_has_recovered_is_left_for_the_next_run(tmp_path: Path) -> None:
    with recorded(tmp_path, setup_of(Toy(steps=STEPS), "keeps"), toy.CHECKS) as made:
        plans = ("kill@3/after_act", "kill@3/after_commit", "kill@4/after_act", "kill@9/after_act")
        killed = kill(made, tmp_path, *plans)
        assert passes(tmp_path) == [2, 1, 1] and set(killed) == set(plans)
        for plan, real in killed.items():
            assert made.told(real.record, plan) == made.told(made.derive(plan).record, plan)


FORGETFUL = "if toy.LOG.exists(): Path('resumed').write_text('x')\nwork()"


def test_an_agent_that_never_becomes_equal_again_is_killed_a_few_times_only(tmp_path: Path) -> None:
    plans = tuple(f"kill@{step}/after_act" for step in range(1, 13, 2))
    with recorded(tmp_path, setup_of(Toy(FORGETFUL, STEPS), "keeps"), toy.CHECKS) as made:
        killed = kill(made, tmp_path, *plans)
        assert tuple(killed) == plans[: engine.PASSES] and passes(tmp_path) == [1] * engine.PASSES
        for plan, real in killed.items():
            assert made.told(real.record, plan) == made.told(made.execute(plan), plan)


def test_restarts_are_counted_from_each_kill(tmp_path: Path) -> None:
    """An agent that dies while it comes up may do so as often after the last kill as after the first."""
    faults: Mapping[str, Fault] = {"crash_loop": CrashLoop(times=3)}
    plans = [f"crash_loop@{step}/after_act" for step in (1, 5, 9)]
    setup = setup_of(Toy(steps=STEPS), "keeps", faults, backoff_limit=3)
    with recorded(tmp_path, setup, toy.CHECKS) as made:
        killed = kill(made, tmp_path, *plans)
        assert passes(tmp_path) == [3]
        for plan, real in killed.items():
            told = made.told(real.record, plan)
            assert told == made.told(made.derive(plan).record, plan) and told.attempts == 4
    for plan in plans[1:]:
        limited = replace(setup, limits=replace(setup.limits, backoff_limit=2))
        with recorded(tmp_path / plan.partition("/")[0], limited, toy.CHECKS) as made:
            (real,) = kill(made, tmp_path / plan.partition("/")[0], plan).values()
            told = made.told(real.record, plan)
            assert told == made.told(made.execute(plan), plan) and told.checks["finishes"] is Outcome.FAIL


def test_a_restart_waits_as_after_a_first_crash(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import time

    slept: list[float] = []
    real = time.sleep
    monkeypatch.setattr(time, "sleep", lambda seconds: slept.append(seconds) or real(seconds))
    setup = setup_of(Toy(steps=STEPS), "keeps", backoff_seconds=0.0625)
    with recorded(tmp_path, setup, toy.CHECKS) as made:
        kill(made, tmp_path, "kill@1/after_act", "kill@5/after_act", "kill@9/after_act")
        assert passes(tmp_path) == [3] and slept.count(0.0625) == 3 and max(slept) == 0.0625


# -- which runs, and what comes of them


def test_the_result_of_a_run_that_was_killed_for_real_is_that_of_the_real_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of 12 deaths two are real as well, and say whether they stood for others."""
    monkeypatch.setattr(route, "SHARE", 6)
    scenario = toying(toy.spec(Kill(), Every(("after_act", "after_commit"))), target=Toy(steps=6))
    ran = run_scenario(tmp_path / "fast", scenario, Speed.FAST)
    assert ran.errors == [] and ran.cell.verdict is CellVerdict.RECOVERED
    killed = [run for run in ran.runs if run.how == KILLED]
    assert len(ran.runs) == 12 and len(killed) == 2
    assert all("real-from-" in run.journal and run.seconds > 0 for run in killed)
    assert {run.how for run in ran.runs if run not in killed} <= {DERIVED, EQUAL}


TIRED = (
    "with open(toy.DURABLE / 'starts', 'a') as file: file.write('x')\n"
    "if len((toy.DURABLE / 'starts').read_text()) > 2: sys.exit('I have been started too often')\n"
    "work()"
)


def test_what_only_several_deaths_together_break_is_no_contradiction(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The agent gets over one crash and refuses after the second: one run with several kills says nothing then."""
    monkeypatch.setattr(route, "SHARE", 4)
    scenario = toying(toy.spec(Kill(), Every(("after_act",))), target=Toy(TIRED, 12))
    ran = run_scenario(tmp_path / "fast", scenario, Speed.FAST)
    assert ran.errors == [] and ran.cell.verdict is CellVerdict.RECOVERED
    journals = [run.journal for run in ran.runs if run.how == KILLED]
    assert sorted("real-from-" in journal for journal in journals) == [False, True, True], journals


def test_what_draws_by_chance_or_has_several_faults_is_killed_alone(tmp_path: Path) -> None:
    """With the same draws: the bit that was flipped is the same."""
    then = (toy.spec(Kill(), Recovery(("after_load",)), label="again"),)
    for name, spec in {
        "damage": toy.spec(CorruptDelta("flip"), Fixed((5, 6))),
        "twice": toy.spec(Kill(), Fixed((5, 6)), then=then),
    }.items():
        ran = run_scenario(tmp_path / name, toying(spec, target=Toy(steps=9)), Speed.FAST)
        assert ran.errors == []
        (killed,) = (run for run in ran.runs if run.how == KILLED)
        assert killed.journal.endswith(f"{killed.run}/real/journal.jsonl")
        real = run_scenario(tmp_path / f"{name}-real", toying(spec, target=Toy(steps=9)), Speed.REAL)
        assert real.verdicts == ran.verdicts


@pytest.mark.parametrize("error", [HarnessError, KeyboardInterrupt])
def test_what_is_finished_is_kept_when_real_kills_cannot_be_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: type[BaseException]
) -> None:
    """The whole chain fails: then each is made by itself. An interrupt ends the cell, and costs no result."""

    def fails(*_: Any) -> Any:
        raise error("no sandbox")

    monkeypatch.setattr(engine.Deriver, "kill", fails)
    scenario = toying(toy.spec(Kill(), Every(("after_act",))))
    if error is KeyboardInterrupt:
        with pytest.raises(KeyboardInterrupt):
            run_scenario(tmp_path / "fast", scenario, Speed.FAST)
        assert [run.how for run in toy.runs(tmp_path / "fast")].count(KILLED) == 0
    else:
        ran = run_scenario(tmp_path / "fast", scenario, Speed.FAST)
        assert ran.errors == [] and [run.how for run in ran.runs].count(KILLED) == 1
    assert len(toy.runs(tmp_path / "fast")) == toy.STEPS


def test_a_plan_that_cannot_be_chained_is_none(tmp_path: Path) -> None:
    faults: Mapping[str, Fault] = {"kill": Kill(), "damage": CorruptDelta()}
    with recorded(tmp_path, setup_of(Toy(), "keeps", faults)) as made:
        chained: dict[str, bool] = {
            text: made.deriver.chains(parse_plan(text))
            for text in ("kill@1/after_act", "damage@1/after_act", "kill@1/after_act+kill@recovery/after_load")
        }
    assert list(chained.values()) == [True, False, False] and not made.deriver.chains(Plan())
