"""Derived runs are what real ones are, cell by cell."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from chaos import journal, route
from chaos.campaign import Runner
from chaos.events.seen import Called, Operated
from chaos.explorers.every import Every
from chaos.explorers.fixed import Fixed
from chaos.faults import Fault
from chaos.faults.corrupt_delta import CorruptDelta
from chaos.faults.crash_loop import CrashLoop
from chaos.faults.evict import Evict
from chaos.faults.kill import Kill
from chaos.faults.rate_limit import RateLimit
from chaos.plan import STEP_PHASES, Plan, Point, parse_plan
from chaos.results import DERIVED, EQUAL, KILLED
from chaos.route import Speed
from chaos.sandbox.process import able
from chaos.scenario import StrategySpec
from chaos.targets.reference import Reference, media
from chaos.targets.reference.strategies.cow import Cow
from chaos.verdict import CellVerdict
from tests import toy
from tests.capture.recorded import Ran, Toy, planted, recorded, reference, run_scenario, setup_of, toying

EVERYWHERE = Every()
STEPS = 6  # enough for the toy to be equal twice in a row after most deaths


# -- equal verdicts, cell by cell


def agree(derived: Ran, other: Ran) -> None:
    assert derived.errors == other.errors == []
    assert derived.verdicts == other.verdicts
    assert (derived.cell.verdict, derived.cell.passed) == (other.cell.verdict, other.cell.passed)


@pytest.mark.parametrize("strategy", [toy.KEEPS, toy.FORGETS], ids=lambda strategy: strategy.name)
def test_the_toy_gives_the_same_verdicts_however_its_runs_are_made(tmp_path: Path, strategy: StrategySpec) -> None:
    scenario = toying(toy.spec(Kill(), EVERYWHERE), strategies=(strategy,))
    derived = run_scenario(tmp_path / "derived", scenario, Speed.FAST)
    assert len(derived.runs) == 4 * toy.STEPS and derived.cell.real_because == ""
    assert sorted({run.how for run in derived.runs}) == [DERIVED, EQUAL, KILLED]
    assert sum(run.how == KILLED for run in derived.runs) == 1, "one of twenty is killed for real"
    assert {run.like for run in derived.runs if run.how == EQUAL} <= {run.plan for run in derived.runs if not run.like}
    real = run_scenario(tmp_path / "real", scenario, Speed.REAL)
    assert {run.how for run in real.runs} == {KILLED}
    agree(derived, real)
    every = run_scenario(tmp_path / "every", scenario, Speed.FAST, prune=False)
    assert {run.how for run in every.runs} == {DERIVED, KILLED} and not any(run.like for run in every.runs)
    agree(every, real)


def test_an_old_journal_is_a_whole_run(tmp_path: Path) -> None:
    """What a derived run's journal holds, and names, gives the record that was judged."""
    with recorded(tmp_path, setup_of(Toy(steps=STEPS), "keeps")) as made:
        for plan in ("kill@1/after_act", "kill@5/after_commit"):
            derived = made.derive(plan)
            assert tuple(derived.record.events) == journal.read(derived.journal)
            assert (derived.rest is None) == (plan == "kill@5/after_commit")


COMMIT, TICKET, PAYMENT = 9, 10, 12
BUGS = {
    "none": (Fixed((PAYMENT,), STEP_PHASES), set[str]()),
    "effect_without_key": (Fixed((PAYMENT,), ("before_act", "after_act", "after_commit")), {"effects"}),
    "record_before_effect": (
        Fixed((TICKET,), ("before_act", "after_act", "after_commit")),
        {"effects", "goal", "files", "state", "budget"},
    ),
    "stale_snapshot": (Fixed((PAYMENT,), ("before_act", "after_commit")), {"recovery"}),
    "checkpoint_in_place": (Fixed((COMMIT,), ("during_commit", "after_commit")), {"finishes"}),
}


@pytest.mark.parametrize("bug", BUGS)
def test_a_planted_bug_is_found_at_the_same_points_however_runs_are_made(tmp_path: Path, bug: str) -> None:
    at, breaks = BUGS[bug]
    scenario = planted(toy.spec(Kill(), at), bug)
    derived = run_scenario(tmp_path / "derived", scenario, Speed.FAST, verify=True)
    assert derived.errors == [] and len(derived.runs) == len(at.steps) * len(at.phases)
    assert {name for run in derived.runs for name in run.broke} == breaks
    assert sum(run.how == KILLED for run in derived.runs) == 1


def test_a_fault_that_does_more_than_to_kill_is_real(tmp_path: Path) -> None:
    """An eviction loses the container's files, which this agent trusts."""
    scenario = planted(toy.spec(Evict(grace=0.0), Fixed((PAYMENT,))), "tmp_trusted")
    ran = run_scenario(tmp_path / "fast", scenario, Speed.FAST, verify=True)
    assert ran.runs[0].broke == ("files",) and ran.runs[0].how == KILLED
    assert ran.cell.real_because == "evict does more than to end the agent: there is no crash state to begin with"


LIGHT = ("restart", "in_memory", "chat_history", "full_snapshot", "selective", "cow")
HEAVY = ("delta", "deep_agents", "semantic", "events", "segmented", "layered")


@pytest.mark.parametrize("strategy", LIGHT)
def test_every_embedded_strategy_gives_the_same_verdicts(tmp_path: Path, strategy: str) -> None:
    scenario = reference(toy.spec(Kill(), Fixed((5,), STEP_PHASES)), strategy)
    ran = run_scenario(tmp_path / "fast", scenario, Speed.FAST, verify=True)
    assert ran.errors == [] and ran.cell.real_because == ""
    assert len(ran.runs) == (3 if strategy == "restart" else 5)  # it commits nothing
    assert sum(run.how == KILLED for run in ran.runs) == 1 and DERIVED in ran.how.values()


@dataclass(frozen=True)
class Stairs:
    """Each phase once, at another step, with room to recover in between."""

    def plans(self, points: Sequence[Point], fault: str, runs: int, rng: random.Random) -> tuple[Plan, ...]:
        return tuple(parse_plan(f"{fault}@{2 * number + 1}/{phase}") for number, phase in enumerate(STEP_PHASES))


@pytest.mark.parametrize("strategy", HEAVY)
def test_heavy_ones_are_killed_for_real_in_one_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, strategy: str
) -> None:
    """A run of theirs takes a second: all five phases are verified, each at another step of the same run."""
    monkeypatch.setattr(route, "SHARE", 1)
    ran = run_scenario(tmp_path / "fast", reference(toy.spec(Kill(), Stairs()), strategy), Speed.FAST)
    assert ran.errors == [] and ran.cell.real_because == ""
    assert [run.how for run in ran.runs] == [KILLED] * len(STEP_PHASES)
    assert all("/real-from-0/" in run.journal for run in ran.runs), "what a run with several of them gave was right"


@pytest.mark.parametrize(
    ("strategy", "fault"),
    [
        ("full_snapshot", CrashLoop(times=2)),
        ("delta", CorruptDelta("truncate", "latest")),
        ("chat_history", CorruptDelta("flip")),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_other_deaths_give_the_same_verdicts(tmp_path: Path, strategy: str, fault: Fault) -> None:
    scenario = reference(toy.spec(fault, Fixed((5,), ("after_act", "after_commit"))), strategy)
    ran = run_scenario(tmp_path / "fast", scenario, Speed.FAST, verify=True)
    assert ran.errors == [] and len(ran.runs) == 2 and DERIVED in ran.how.values()
    assert all(len(run.landed) == 1 for run in ran.runs)


def test_what_is_kept_where_it_cannot_be_copied_is_run_from_its_start(tmp_path: Path) -> None:
    """Snapshots of a file system, taken outside of the sandbox, cannot be put back with the zones."""
    medium = next((name for name in ("reflink", "overlay", "btrfs") if not media.missing(name)), "")
    if not medium:
        pytest.skip(media.missing("overlay"))
    strategies = (StrategySpec("cow", "cow", Cow(snapshots=medium)),)  # type: ignore[arg-type]
    scenario = toying(toy.spec(Kill(), Fixed((5,))), target=Reference(steps=12), strategies=strategies)
    ran = run_scenario(tmp_path / "fast", scenario, Speed.FAST)
    assert ran.how == {"kill@5/after_act": KILLED} and ran.cell.verdict is CellVerdict.RECOVERED
    assert f"{medium} snapshots are a part of the file system that they were taken on" in ran.cell.real_because


# -- two cells whose crash-free run is the same


def test_cells_share_a_recorded_run_and_nothing_else(tmp_path: Path) -> None:
    faults = toy.spec(Kill(), EVERYWHERE), toy.spec(Kill(), EVERYWHERE, label="late")
    scenario = toying(*faults)
    folder = tmp_path / "out"
    folder.mkdir()
    runner = Runner(folder, "campaign", toy.SEED, speed=Speed.FAST)
    try:
        cells = [runner.run_cell(cell) for cell in toy.cells(scenario)]
    finally:
        runner.close()
    assert [cell.verdict for cell in cells] == [CellVerdict.RECOVERED] * 2, [cell.why for cell in cells]
    assert len(list((folder / "runs/reference").glob("*/recorded-*"))) == 1
    for run in toy.runs(folder):
        assert [one.fault for one in run.landed] == ["kill"] and run.error == ""
        assert run.plan.startswith(f"{run.fault}@") and (not run.like or run.like.startswith(f"{run.fault}@"))


# -- several faults


@pytest.mark.parametrize(
    ("plan", "landed"),
    [
        ("kill@1/after_act+kill@recovery/after_load", 2),
        ("kill@1/after_act+kill@recovery/3/after_act", 2),
        ("kill@2/after_commit+rate_limit@recovery/before_think", 2),
        ("kill@2/after_act+rate_limit@recovery/4/before_think", 2),
        ("kill@2/after_act+kill@recovery/99/before_think", 1),
        ("crash_loop@2/after_act+kill@recovery/3/after_commit", 2),
    ],
)
def test_what_happens_after_a_derived_death_is_real(tmp_path: Path, plan: str, landed: int) -> None:
    faults: Mapping[str, Fault] = {"kill": Kill(), "rate_limit": RateLimit(2, 0.001), "crash_loop": CrashLoop(2)}
    setup = setup_of(Toy(steps=STEPS), "keeps", faults, backoff_limit=6)
    with recorded(tmp_path, setup, toy.CHECKS) as made:
        assert made.deriver.obstacle(parse_plan(plan)) == ""
        told = made.told(made.derive(plan, prune=True).record, plan)
        assert told == made.told(made.execute(plan), plan)
        assert len(told.landed) == landed


def test_plans_that_cannot_be_derived_say_why(tmp_path: Path) -> None:
    faults: Mapping[str, Fault] = {"kill": Kill(), "rate_limit": RateLimit(2, 0.001), "evict": Evict(0.1)}
    with recorded(tmp_path, setup_of(Toy(), "keeps", faults)) as made:
        for plan, why in (
            ("kill@99/after_act", "no such point as 99/after_act"),
            ("kill@after_load", "no such point as after_load"),
            ("kill@recovery/1/after_act", "no such point as recovery/1/after_act"),
            ("rate_limit@1/before_think", "rate_limit does more than to end the agent"),
            ("evict@1/after_act+kill@recovery/after_load", "evict does more than to end the agent"),
            ("no fault", "nothing is to happen"),
        ):
            assert why in made.deriver.obstacle(parse_plan(plan))


def test_held_system_calls_and_operations_are_captured_too(tmp_path: Path) -> None:
    if missing := able().syscalls:
        pytest.skip(missing)
    code = (
        "def durably(answers):\n"
        "    with open(toy.DURABLE / 'copy', 'w') as file:\n"
        "        file.write(str(len(answers))); file.flush(); os.fsync(file.fileno())\n"
        "answers = begin()\n"
        "while len(answers) < toy.STEPS:\n"
        "    step(answers)\n"
        "    durably(answers)\n"
        "finish(answers)\n"
    )
    setup = replace(
        setup_of(Toy(code, STEPS), "keeps"),
        syscalls=frozenset({"fsync"}),
        operations=frozenset({"model_reply", "effect"}),
    )
    with recorded(tmp_path, setup, toy.CHECKS) as made:
        for plan in ("kill@3/fsync", "kill@2/model_reply", "kill@1/effect", "kill@1/fsync+kill@recovery/2/fsync"):
            assert made.deriver.obstacle(parse_plan(plan)) == ""
            told = made.told(made.derive(plan).record, plan)
            assert len(told.landed) == plan.count("kill") and told == made.told(made.execute(plan), plan), plan
        assert not any(made.deriver.chains(parse_plan(plan)) for plan in ("kill@1/effect", "kill@4/fsync"))
        plans = [parse_plan(plan) for plan in ("kill@1/after_act", "kill@4/after_act")]
        killed = list(made.deriver.kill(plans, random.Random(1), tmp_path / "real"))
        assert [real.plan for real in killed] == plans
        for real in killed:
            derived = made.derive(real.plan).record
            assert made.told(real.record, real.plan) == made.told(derived, real.plan)
            held = [[e.phase for e in run.events if isinstance(e, Called | Operated)] for run in (real.record, derived)]
            assert held[0] == held[1] and "fsync" in held[0]
