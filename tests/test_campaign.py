"""Cells from references to results, with a toy agent: seeds, replays, unfit references, skips, errors."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaos import journal, results, run, trial
from chaos.campaign import Runner, landings
from chaos.errors import HarnessError, ScenarioError
from chaos.events.done import Injecting, StoreDamaged
from chaos.events.seen import Exited
from chaos.explorers.every import Every
from chaos.explorers.fixed import Fixed
from chaos.explorers.recovery import Recovery
from chaos.explorers.sampled import Sampled
from chaos.faults.corrupt_delta import CorruptDelta
from chaos.faults.kill import Kill
from chaos.faults.oom_kill import OomKill
from chaos.faults.rate_limit import RateLimit
from chaos.journal import AnyEvent
from chaos.plan import PHASES, Case, Plan, PlannedFault, Point, parse_case, parse_plan
from chaos.record import Record
from chaos.results import CellResult
from chaos.sandbox import Able, backends
from chaos.scenario import ExpectedFailure
from chaos.verdict import CellVerdict
from chaos.world import Answer, Message, Reply
from tests import toy

EVERYWHERE = Sampled()


def run_all(folder: Path, scenario: Any, seed: int = toy.SEED, **options: Any) -> list[CellResult]:
    folder.mkdir(exist_ok=True)
    with closing(Runner(folder, "campaign", seed, **options)) as runner:
        return [runner.run_cell(cell) for cell in toy.cells(scenario)]


def plans(folder: Path, strategy: str | None = None, fault: str | None = None) -> list[str]:
    return [r.plan for r in toy.runs(folder) if strategy in (None, r.strategy) and fault in (None, r.fault)]


# -- a case as a text

points = st.builds(
    Point, step=st.none() | st.integers(0, 10_000), phase=st.sampled_from(PHASES), recovery=st.booleans()
)
labels = st.text("abcdefghijklmnopqrstuvwxyzABC_0123456789.:=,-", min_size=1)
cases = st.builds(
    Case,
    plan=st.builds(Plan, st.lists(st.builds(PlannedFault, labels, points), max_size=4).map(tuple)),
    run=st.integers(0, 10_000),
)


@given(cases)
def test_a_case_is_what_it_prints_as(case: Case) -> None:
    assert parse_case(str(case)) == case


def test_the_run_may_be_left_out() -> None:
    assert parse_case("kill@1/after_act") == Case(parse_plan("kill@1/after_act"), 0)


@pytest.mark.parametrize("text", ["", "kill", "kill@1/after_act#x", "kill@1/after_act#1#2", "kill@1/aftr_act", "#1"])
def test_a_text_that_is_no_case_is_an_error_that_shows_one(text: str) -> None:
    with pytest.raises(ScenarioError, match=r"kill@17/after_act|did you mean"):
        parse_case(text)


def test_a_number_is_of_plain_digits() -> None:
    with pytest.raises(ScenarioError, match="PLAN#RUN"):
        parse_case("kill@1/after_act#²")


# -- from cell to result


def test_a_correct_agent_recovers_and_keeps_what_it_claims(tmp_path: Path) -> None:
    (cell,) = run_all(tmp_path, toy.scenario(toy.spec(Kill())))
    assert (cell.verdict, cell.passed, cell.expected) == (CellVerdict.RECOVERED, True, False)
    assert (cell.runs, cell.planned, cell.landed) == (1, 1, 1)
    (run,) = toy.runs(tmp_path)
    assert run.verdict is CellVerdict.RECOVERED
    assert run.claims == {"files": "kept", "messages": "kept"}
    assert (run.attempts, run.steps, run.rpo_steps) == (2, 3, 1)
    assert (tmp_path / run.journal).exists()
    assert (tmp_path / run.reference).exists()


def test_a_run_says_the_most_that_its_faults_take_away(tmp_path: Path) -> None:
    later = toy.spec(RateLimit(requests=1), Fixed((2,), ("before_think",)), label="limit")
    faults = [toy.spec(Kill(), then=(later,)), toy.spec(RateLimit(requests=1), Fixed((1,), ("before_think",)))]
    run_all(tmp_path, toy.scenario(*faults))
    assert [(run.fault, run.survival) for run in toy.runs(tmp_path)] == [("kill", "process"), ("rate_limit", "none")]


def test_an_agent_that_forgets_starts_over(tmp_path: Path) -> None:
    scenario = toy.scenario(toy.spec(Kill(), Fixed((2,), ("after_act",))), strategies=(toy.FORGETS,))
    (cell,) = run_all(tmp_path, scenario)
    assert cell.verdict is CellVerdict.RECOVERED_WITH_LOSS
    assert not cell.passed
    assert "recovery" in cell.why
    (run,) = toy.runs(tmp_path)
    assert run.rpo_steps == 3
    assert run.claims == {}


def test_an_expected_failure_passes(tmp_path: Path) -> None:
    expected = ExpectedFailure("forgets", "kill", ("recovery",), (), "it keeps nothing")
    scenario = toy.scenario(
        toy.spec(Kill(), Fixed((2,), ("after_act",))), strategies=(toy.FORGETS,), expected=(expected,)
    )
    (cell,) = run_all(tmp_path, scenario)
    assert (cell.passed, cell.expected) == (True, True)
    assert toy.runs(tmp_path)[0].because == "it keeps nothing"


def test_every_cell_and_run_is_appended(tmp_path: Path) -> None:
    faults = toy.spec(Kill()), toy.spec(RateLimit(1, 0.001), Fixed((1,), ("before_think",)))
    cells = run_all(tmp_path, toy.scenario(*faults, strategies=(toy.KEEPS, toy.FORGETS)))
    assert toy.cell_results(tmp_path) == cells
    names = [(one.strategy, one.fault) for one in cells]
    assert names == [(run.strategy, run.fault) for run in toy.runs(tmp_path)]
    assert names == [(s, f) for s in ("keeps", "forgets") for f in ("kill", "rate_limit")]


def test_the_reference_runs_twice_for_each_strategy(tmp_path: Path) -> None:
    run_all(tmp_path, toy.scenario(toy.spec(Kill()), toy.spec(Kill(), label="again")))
    journals = sorted(path.parent.name for path in (tmp_path / "runs/reference").rglob("journal.jsonl"))
    assert journals == ["0", "1"]
    assert len({run.reference for run in toy.runs(tmp_path)}) == 1


def test_two_workers_do_not_mix_their_reference_journals(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    together = threading.Barrier(2)

    def execute(*given: Any) -> Record:
        together.wait(20)
        return run.execute(*given)

    monkeypatch.setattr(trial, "execute", execute)
    scenario = toy.scenario(toy.spec(Kill()))
    with ThreadPoolExecutor(2) as workers:
        list(workers.map(lambda _: run_all(tmp_path, scenario), range(2)))
    for result in toy.runs(tmp_path):
        assert toy.kinds(journal.read(tmp_path / result.reference)).count("Started") == 1


# -- seeds


def test_a_scenario_s_own_seed_counts_for_its_cells(tmp_path: Path) -> None:
    scenario = toy.scenario(toy.spec(Kill(), EVERYWHERE), runs=2)
    for name, own, seed in (("given", None, 5), ("own", 5, toy.SEED)):
        run_all(tmp_path / name, replace(scenario, seed=own), seed=seed)
    given, own = toy.runs(tmp_path / "given"), toy.runs(tmp_path / "own")
    assert [(run.plan, run.seed) for run in own] == [(run.plan, run.seed) for run in given]
    assert all("--chaos-seed 5 " in run.replay for run in own)


def test_an_interrupt_is_not_hidden_by_a_failing_clean_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        try:
            raise KeyboardInterrupt
        finally:
            raise HarnessError("the cgroup is busy")

    scenario = toy.scenario(toy.spec(Kill(), EVERYWHERE))
    monkeypatch.setattr("chaos.trial.execute", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run_all(tmp_path / "out", scenario)


def test_the_same_seed_gives_the_same_plans_and_verdicts(tmp_path: Path) -> None:
    scenario = toy.scenario(toy.spec(Kill(), EVERYWHERE), strategies=(toy.KEEPS, toy.FORGETS), runs=3)
    told = []
    for name in ("first", "second"):
        run_all(tmp_path / name, scenario)
        told.append([(r.strategy, r.plan, r.seed, r.verdict, r.broke) for r in toy.runs(tmp_path / name)])
    assert told[0] == told[1]
    run_all(tmp_path / "other", scenario, seed=toy.SEED + 1)
    assert plans(tmp_path / "other") != [plan for _, plan, *_ in told[0]]


def test_all_strategies_are_broken_at_the_same_places(tmp_path: Path) -> None:
    scenario = toy.scenario(toy.spec(Kill(), EVERYWHERE), strategies=(toy.KEEPS, toy.FORGETS), runs=3)
    run_all(tmp_path, scenario)
    assert plans(tmp_path, "keeps") == plans(tmp_path, "forgets")
    assert len(set(plans(tmp_path, "keeps"))) == 3


def test_another_strategy_or_fault_changes_no_other_cell(tmp_path: Path) -> None:
    kill = toy.spec(Kill(), EVERYWHERE)
    run_all(tmp_path / "alone", toy.scenario(kill, runs=2))
    more = (toy.spec(Kill(), EVERYWHERE, label="other"), kill)
    run_all(tmp_path / "among", toy.scenario(*more, strategies=(toy.FORGETS, toy.KEEPS), runs=2))
    among = [run for run in toy.runs(tmp_path / "among") if (run.strategy, run.fault) == ("keeps", "kill")]
    alone = toy.runs(tmp_path / "alone")
    assert [(run.plan, run.seed) for run in among] == [(run.plan, run.seed) for run in alone]
    assert plans(tmp_path / "among", "keeps", "other") != plans(tmp_path / "among", "keeps", "kill")


def test_more_runs_begin_with_the_same_ones(tmp_path: Path) -> None:
    scenario = toy.scenario(toy.spec(Kill(), EVERYWHERE))
    run_all(tmp_path / "two", scenario, runs=2)
    run_all(tmp_path / "three", scenario, runs=3)
    assert plans(tmp_path / "three")[:2] == plans(tmp_path / "two")


def test_a_replay_has_the_plan_and_the_randomness_of_its_run(tmp_path: Path) -> None:
    """Which bit is flipped depends on the run, so the number of the run belongs to the case."""
    scenario = toy.scenario(toy.spec(CorruptDelta("flip"), Fixed((2,), ("before_think",))), runs=1)
    run_all(tmp_path / "first", scenario)
    (run,) = toy.runs(tmp_path / "first")
    assert run.replay.endswith("--chaos-case 'corrupt_delta@2/before_think#0'")
    run_all(tmp_path / "again", scenario, case=parse_case(run.replay.split("'")[-2]))
    (again,) = toy.runs(tmp_path / "again")
    assert (again.seed, again.verdict, again.landed[0].evidence["digest"]) == (
        run.seed, run.verdict, run.landed[0].evidence["digest"],
    )  # fmt: skip
    run_all(tmp_path / "other", scenario, case=parse_case("corrupt_delta@2/before_think#1"))
    assert toy.runs(tmp_path / "other")[0].landed[0].evidence["digest"] != run.landed[0].evidence["digest"]


def test_a_replay_does_not_miss_what_it_was_not_asked_for(tmp_path: Path) -> None:
    """An expected failure that shows in another run of the cell is not unexpectedly kept."""
    expected = ExpectedFailure("keeps", "kill", ("recovery",), (), "")
    scenario = toy.scenario(toy.spec(Kill()), expected=(expected,))
    (kept,) = run_all(tmp_path / "all", scenario)
    assert not kept.passed
    assert "unexpectedly kept: recovery" in kept.why
    (replayed,) = run_all(tmp_path / "one", scenario, case=parse_case("kill@1/after_act"))
    assert replayed.passed


def test_a_case_of_another_cell_is_an_error_of_ours(tmp_path: Path) -> None:
    (cell,) = run_all(tmp_path, toy.scenario(toy.spec(Kill())), case=parse_case("evict@1/after_act"))
    assert cell.verdict is CellVerdict.HARNESS_ERROR
    assert "the case names what this cell has not: no fault 'evict'; known: kill" in cell.why


# -- assumptions


@dataclass(frozen=True)
class Whimsical(toy.CountingBrain):
    """Says something else each time."""

    def reply(self, messages: Sequence[Message]) -> Reply:
        return Reply(uuid.uuid4().hex)


@dataclass(frozen=True)
class WhimsicalToy(toy.Toy):
    def brain(self, seed: int) -> toy.CountingBrain:
        return Whimsical()


@pytest.mark.parametrize(
    ("target", "why"),
    [
        (WhimsicalToy(), "two crash-free runs differ"),
        (toy.Toy("Path('when').write_text(str(time.time_ns())); work()"), "files: workspace/when has other content"),
        (toy.Toy("toy.GOAL = 'Rule the world.'; work()"), "the crash-free run breaks goal by itself"),
        (
            toy.Toy("work(); os.unlink('2.txt'); finish([])"),
            "breaks goal by itself: workspace/2.txt was to be delivered",
        ),
        (toy.Toy("begin(); sys.exit(1)"), "the crash-free run breaks"),
        (toy.Toy("sys.exit(0)"), "the crash-free run breaks"),  # it finishes, and nothing can be judged
    ],
    ids=["model", "time", "goal", "deliverable", "fails", "idle"],
)
def test_a_reference_that_is_no_measure_makes_its_cells_unknown(tmp_path: Path, target: Any, why: str) -> None:
    (cell,) = run_all(tmp_path, toy.scenario(toy.spec(Kill()), target=target))
    assert cell.verdict is CellVerdict.UNKNOWN
    assert not cell.passed
    assert why in cell.why
    assert (cell.runs, cell.landed) == (0, 0)
    assert not (tmp_path / results.RUNS).exists()  # nothing is broken in vain


def test_what_is_declared_volatile_may_differ(tmp_path: Path) -> None:
    target = toy.Toy("Path('when').write_text(str(time.time_ns())); work()")
    scenario = toy.scenario(toy.spec(Kill()), target=target, volatile=("workspace/when",))
    (cell,) = run_all(tmp_path, scenario)
    assert cell.passed


@pytest.mark.parametrize("at", [Fixed((99,), ("after_act",)), Every(("during_commit",)), Sampled(after=50)])
def test_no_point_is_no_pass(tmp_path: Path, at: Any) -> None:
    (cell,) = run_all(tmp_path, toy.scenario(toy.spec(Kill(), at)))
    assert cell.verdict is CellVerdict.NOT_EXERCISED
    assert not cell.passed
    assert cell.why == "the reference run reached no point where 'kill' should hit"


def test_a_fault_during_recovery(tmp_path: Path) -> None:
    then = toy.spec(Kill(), Recovery(("after_load",)), label="again")
    (cell,) = run_all(tmp_path, toy.scenario(toy.spec(Kill(), then=(then,))))
    assert cell.verdict is CellVerdict.RECOVERED
    assert (cell.planned, cell.landed) == (2, 2)
    assert plans(tmp_path) == ["kill@1/after_act+again@recovery/after_load"]


# -- skips


def lacking(**missing: str) -> Able:
    return Able(**missing)  # type: ignore[arg-type]


def test_what_the_machine_lacks_is_a_skip_with_the_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backends, "able", lambda: Able(memory_limit="no memory cgroup; run as root"))
    oom, kill = run_all(tmp_path, toy.scenario(toy.spec(OomKill()), toy.spec(Kill())), backend="process")
    assert oom.skipped == "no memory cgroup; run as root"
    assert oom.verdict is CellVerdict.NOT_EXERCISED
    assert not kill.skipped
    assert plans(tmp_path, fault="oom_kill") == []


def test_what_the_machine_lacks_may_be_demanded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backends, "able", lambda: Able(memory_limit="no memory cgroup; run as root"))
    scenario = toy.scenario(toy.spec(OomKill()), toy.spec(CorruptDelta()), strategies=(toy.FORGETS,))
    oom, corrupt = run_all(tmp_path, scenario, backend="process", no_skip=True)
    assert not oom.skipped and not oom.passed and oom.verdict is CellVerdict.NOT_EXERCISED
    assert oom.why == "this machine cannot run it: no memory cgroup; run as root"
    assert corrupt.skipped and corrupt.passed, "no machine can do what makes no sense"


def test_what_follows_must_be_possible_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backends, "able", lambda: Able(memory_limit="no memory cgroup"))
    then = toy.spec(OomKill(), Recovery(("after_load",)))
    (cell,) = run_all(tmp_path, toy.scenario(toy.spec(Kill(), then=(then,))), backend="process")
    assert cell.skipped == "no memory cgroup"


def test_what_makes_no_sense_for_a_strategy_is_a_skip(tmp_path: Path) -> None:
    (cell,) = run_all(tmp_path, toy.scenario(toy.spec(CorruptDelta()), strategies=(toy.FORGETS,)))
    assert cell.skipped == "the strategy stores no deltas"


# -- errors of ours


@dataclass(frozen=True)
class BrokenToy(toy.Toy):
    """A target with a mistake in one of its methods."""

    method: str = "facts"

    def __getattribute__(self, name: str) -> Any:
        if name != "method" and name == object.__getattribute__(self, "method"):
            raise ZeroDivisionError(f"in {name}")
        return object.__getattribute__(self, name)


@pytest.mark.parametrize("method", ["facts", "brain", "watch", "prepare", "launch", "reload"])
def test_a_mistake_in_a_target_is_recorded_and_comes_out(tmp_path: Path, method: str) -> None:
    with pytest.raises(ZeroDivisionError):
        run_all(tmp_path, toy.scenario(toy.spec(Kill()), target=BrokenToy(method=method)))
    (cell,) = toy.cell_results(tmp_path)
    assert cell.verdict is CellVerdict.HARNESS_ERROR
    assert not cell.passed
    assert cell.why == f"ZeroDivisionError: in {method}"


@dataclass(frozen=True)
class Nonsense(toy.CountingBrain):
    def serve(self, service: str, operation: str, payload: Mapping[str, Any]) -> Answer:
        raise KeyError(operation)


@dataclass(frozen=True)
class NonsenseToy(toy.Toy):
    def brain(self, seed: int) -> toy.CountingBrain:
        return Nonsense()


def test_a_reference_that_cannot_run_is_an_error_of_ours(tmp_path: Path) -> None:
    (cell,) = run_all(tmp_path, toy.scenario(toy.spec(Kill()), target=NonsenseToy()))
    assert cell.verdict is CellVerdict.HARNESS_ERROR
    assert "the world failed: KeyError('send')" in cell.why


GARBAGE = "from chaos import probe\nif toy.LOG.exists(): probe._connect().sendall(b'x\\n'); time.sleep(1000)\nwork()"


def test_a_run_that_cannot_be_made_spoils_its_cell_only(tmp_path: Path) -> None:
    """The agent sends garbage when it comes back; a fault that it does not come back from is judged as ever."""
    faults = toy.spec(Kill()), toy.spec(RateLimit(1, 0.001), Fixed((1,), ("before_think",)))
    broken, fine = run_all(tmp_path, toy.scenario(*faults, target=toy.Toy(GARBAGE)))
    assert broken.verdict is CellVerdict.HARNESS_ERROR
    assert not broken.passed
    assert fine.passed
    first, _ = toy.runs(tmp_path)
    assert first.verdict is CellVerdict.HARNESS_ERROR
    assert "it takes lines like" in first.error


# -- landings of several faults


def damaged(before: str, after: str) -> StoreDamaged:
    return StoreDamaged(
        at=2.0, attempt=1, store="Jsonl", how="flip", where="delta 1 of 1",
        bytes_before=1, bytes_after=1, digest_before=before, digest_after=after,
    )  # fmt: skip


def injecting(index: int) -> Injecting:
    return Injecting(at=1.0, attempt=index + 1, index=index, fault="corrupt_delta", point="1/after_act")


def test_the_proof_of_one_fault_is_not_the_proof_of_another() -> None:
    """The first damage found no record; the second one did."""
    killed = Exited(at=3.0, attempt=1, status=-9)
    events: list[AnyEvent] = [injecting(0), killed, injecting(1), damaged("a", "b"), killed]
    setup = toy.setup(toy.Toy(), {"corrupt_delta": CorruptDelta()})
    plan = parse_plan("corrupt_delta@1/after_act+corrupt_delta@recovery/1/after_act")
    assert len(landings(Record(events), plan, setup)) == 1


def test_the_names_of_cells_are_told_apart() -> None:
    scenario = toy.scenario(toy.spec(Kill()), toy.spec(Kill(), label="late"), strategies=(toy.KEEPS, toy.FORGETS))
    assert [cell.name for cell in toy.cells(scenario)] == ["keeps-kill", "keeps-late", "forgets-kill", "forgets-late"]
