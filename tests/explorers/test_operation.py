"""Where faults are put among counted operations, and how they are hit one after the other until none is left."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaos.campaign import Runner
from chaos.explorers import Covered, Explorer, Tried, until_none
from chaos.explorers.fixed import Fixed
from chaos.explorers.operation import Operation
from chaos.explorers.syscall import Syscall
from chaos.explorers.until_none import UntilNone
from chaos.faults.kill import Kill
from chaos.faults.rate_limit import RateLimit
from chaos.placement import held, operations
from chaos.plan import COUNTED, OPERATIONS, SYSCALLS, Case, Plan, PlannedFault, Point, parse_case
from chaos.results import CellResult
from chaos.sandbox import syscalls
from chaos.scenario import FaultSpec
from chaos.scenario.loader import load
from chaos.scenario.placing import explorer, problems
from chaos.scenario.schema import At
from chaos.verdict import CellVerdict
from tests import toy

POINTS = [Point(1, "model_call"), Point(0, "after_act"), Point(2, "model_call"), Point(1, "effect"),
          Point(3, "model_call")]  # fmt: skip


def at(**given: object) -> At:
    return At.model_validate({key: given[key] for key in given}, strict=False)


def hit(explorer: Explorer, points: list[Point], runs: int = 3) -> list[Point]:
    plans = explorer.plans(points, "kill", runs, random.Random(1))
    return [planned.point for plan in plans for planned in plan.faults]


# What is said in a scenario and in a plan

counted = st.builds(Point, st.integers(1, 99) | st.none(), st.sampled_from(COUNTED), st.booleans())
plans = st.lists(st.builds(PlannedFault, st.just("kill"), counted), max_size=4).map(lambda faults: Plan(tuple(faults)))


@given(plans, st.integers(0, 99))
def test_a_plan_of_operations_prints_as_what_it_is_read_from(plan: Plan, run: int) -> None:
    assert parse_case(str(Case(plan, run))) == Case(plan, run)


@given(plans)
def test_a_plan_holds_what_it_is_placed_at_and_nothing_else(plan: Plan) -> None:
    phases = {planned.point.phase for planned in plan.faults}
    assert plan.operations == phases & set(OPERATIONS)
    durable = {"fsync", "rename"} if "checkpoint_write" in phases else set()
    assert plan.syscalls == (phases & set(SYSCALLS)) | durable


def test_the_forms_in_a_scenario() -> None:
    assert hit(explorer(at(operation="model_call", n=3)), POINTS) == [Point(3, "model_call")]
    assert hit(explorer(at(operation="model_call", n=[1, 4])), POINTS) == [Point(1, "model_call")]
    assert hit(explorer(at(operation="effect", n="every")), POINTS) == [Point(1, "effect")]
    assert len(hit(explorer(at(operation="model_call")), POINTS, runs=5)) == 5
    later = explorer(at(operation="checkpoint_write", n=3, during="recovery"))
    assert hit(later, POINTS) == [Point(3, "checkpoint_write", recovery=True)]
    assert explorer(at(operation="effect", n="until_none")) == UntilNone("effect")
    assert explorer(at(operation="effect", n="every", during="recovery"), first=False) == UntilNone("effect", True)
    assert explorer(at(syscall="fsync", n="every"), first=False) == UntilNone("fsync")
    assert explorer(at(syscall="fsync", n="every")) == Syscall("fsync", every=True)


@pytest.mark.parametrize(
    ("given", "key", "says"),
    [
        ({"n": 3}, "n", "`operation: model_call`, `model_reply`, `service_call`, `effect`, `checkpoint_write`"),
        ({"operation": "effect", "step": 3}, "step", "'operation' of the world's; keep one of them"),
        ({"operation": "effect", "syscall": "fsync"}, "syscall", "keep one of them"),
        ({"operation": "effect", "during": "recovery", "n": "every"}, "during", "under the `then:` of another one"),
        ({"operation": "effect", "during": "recovery"}, "n", "or hit them all: `n: until_none`"),
    ],
)
def test_what_makes_no_sense(given: dict[str, object], key: str, says: str) -> None:
    assert says in dict(problems(at(**given), 10, first=True))[key]


@pytest.mark.parametrize("given", [{"operation": "mail"}, {"operation": "effect", "n": "until"}, {"n": 0}])
def test_what_is_no_operation_and_no_number(given: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"operation|'n' is a whole number from 1"):
        at(**given)


# A search, with agents that are a number of operations for each incarnation


def chained(*explorers: Explorer, fault: object = None) -> FaultSpec:
    spec: FaultSpec | None = None
    for number, one in reversed(list(enumerate(explorers))):
        made = fault if number == 0 and fault else Kill()
        spec = toy.spec(made, one, f"f{number}", (spec,) if spec else ())  # type: ignore[arg-type]
    assert spec is not None
    return spec


def searched(spec: FaultSpec, hits: Callable[[Plan], int], points: list[Point]) -> tuple[list[str], Covered]:
    tried: list[str] = []

    def attempt(plan: Plan) -> Tried:
        tried.append(str(plan))
        unreached = len(plan.faults) - hits(plan)
        return Tried(not unreached, frozenset(), unreached)

    seeker = next(each.at for each in until_none._chain(spec) if isinstance(each.at, UntilNone))
    return tried, seeker.seek(points, spec, 2, random.Random(1), attempt)


@given(st.integers(1, 12))
def test_each_number_is_tried_until_one_never_comes(made: int) -> None:
    points = [Point(number, "effect") for number in range(1, made + 1)]
    tried, covered = searched(
        chained(UntilNone("effect")), lambda plan: int((plan.faults[0].point.step or 0) <= made), points
    )
    assert tried == [f"f0@{number}/effect" for number in range(1, made + 2)]
    numbers = f"1 to {made}" if made > 1 else "1"
    assert covered == Covered(f"f0 hit at effect {numbers}, and {made + 1} never came")


@given(st.lists(st.integers(0, 4), min_size=1, max_size=4).filter(any))
def test_a_recovery_is_swept_behind_each_plan_of_those_before(recoveries: list[int]) -> None:
    """After a kill at the n-th effect its recovery has as many effects as the n-th of the list says."""

    def hits(plan: Plan) -> int:
        first, second = (planned.point.step or 0 for planned in plan.faults)
        if first > len(recoveries):
            return 0
        return 2 if second <= recoveries[first - 1] else 1

    points = [Point(number, "effect") for number in range(1, len(recoveries) + 1)]
    tried, covered = searched(chained(UntilNone("effect"), UntilNone("effect", recovery=True)), hits, points)
    expected = [
        f"f0@{first}/effect+f1@recovery/{second}/effect"
        for first, count in enumerate([*recoveries, 0], start=1)
        for second in range(1, count + 2)
    ]
    assert tried == expected
    assert covered.gap == ""
    assert f"and {len(recoveries) + 1} never came" in covered.told


def test_a_fault_that_was_to_hit_and_did_not_is_a_gap() -> None:
    spec = chained(Fixed((2,)), UntilNone("effect", recovery=True))
    _, covered = searched(spec, lambda plan: 0, [Point(2, "after_act")])
    assert covered.gap == "the agent never came to f0@2/after_act"


def test_an_agent_that_lives_on_has_left_the_first_numbers_behind() -> None:
    points = [Point(number, "model_call") for number in range(1, 5)]
    spec = chained(Operation("model_call", (2,)), UntilNone("model_call"), fault=RateLimit())
    tried, covered = searched(spec, lambda plan: 2 if (plan.faults[1].point.step or 0) <= 6 else 1, points)
    assert tried == [f"f0@2/model_call+f1@{number}/model_call" for number in (3, 4, 5, 6, 7)]
    assert covered.told == "f1 hit at model_call 3 to 6, and 7 never came"


# In real runs


def run(folder: Path, *faults: FaultSpec, code: str = "work()", **more: object) -> CellResult:
    made = toy.scenario(*faults, target=toy.Toy(code), **more)
    with closing(Runner(folder, "campaign", toy.SEED)) as runner:
        return runner.run_cell(toy.cells(made)[0])


def test_the_run_without_a_hit_is_the_proof(tmp_path: Path) -> None:
    cell = run(tmp_path, toy.spec(Kill(), UntilNone("effect")))
    assert (cell.verdict, cell.passed, cell.runs, cell.planned, cell.landed) == (CellVerdict.RECOVERED, True, 2, 1, 1)
    assert cell.why == "all 2 runs recovered; kill hit at effect 1, and 2 never came"
    last = toy.runs(tmp_path)[-1]
    assert (last.plan, last.unreached, last.missed) == ("kill@2/effect", ("kill@2/effect",), ())
    assert last.replay.endswith("--chaos-case 'no fault#1'")


def test_every_operation_of_a_recovery_is_hit(tmp_path: Path) -> None:
    again = toy.spec(Kill(), UntilNone("model_call", recovery=True), "again")
    cell = run(tmp_path, toy.spec(Kill(), Fixed((0,)), then=(again,)))
    assert (cell.passed, cell.runs, cell.landed) == (True, 4, 7)
    assert "again hit at recovery/model_call 1 to 3, and 4 never came" in cell.why


def test_a_recovery_that_never_had_one_was_not_exercised(tmp_path: Path) -> None:
    again = toy.spec(Kill(), UntilNone("effect", recovery=True), "again")
    cell = run(tmp_path, toy.spec(Kill(), Fixed((2,)), then=(again,)))  # the e-mail was sent in step 1
    assert (cell.verdict, cell.passed) == (CellVerdict.NOT_EXERCISED, False)
    assert "again never hit: no recovery/effect came" in cell.why


def test_the_proof_must_recover_as_promised(tmp_path: Path) -> None:
    again = toy.spec(Kill(), UntilNone("effect", recovery=True), "again")
    code = "if load(): toy.write(9, 'too much')\nwork()"
    cell = run(tmp_path, toy.spec(Kill(), Fixed((1,)), then=(again,)), code=code)
    assert (cell.verdict, cell.passed) == (CellVerdict.DIVERGED, False)
    assert "files broke in" in cell.why


def test_an_agent_that_never_stops_asking_is_not_covered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(until_none, "BESIDES", 1)
    code = """
if load():
    for number in range(50):
        toy.post("/search/ping", {}, {}, toy.SERVICES)
work()
"""
    again = toy.spec(Kill(), UntilNone("service_call", recovery=True), "again")
    cell = run(tmp_path, toy.spec(Kill(), Fixed((1,), ("after_commit",)), then=(again,)), code=code)
    assert (cell.passed, cell.verdict, cell.runs) == (False, CellVerdict.DIVERGED, 3)  # each ping is an effect, too
    assert "again still hit at recovery/3/service_call, and nobody looked further: no end is in sight" in cell.why


@pytest.mark.skipif(bool(syscalls.missing()), reason=syscalls.missing())
def test_it_works_for_system_calls_as_well(tmp_path: Path) -> None:
    code = "for _ in range(2): os.fsync(os.open(toy.DURABLE, os.O_RDONLY))\nwork()"
    cell = run(tmp_path, toy.spec(Kill(), UntilNone("fsync")), code=code)
    assert (cell.passed, cell.runs, cell.landed) == (True, 3, 2)
    assert cell.why.endswith("kill hit at fsync 1 to 2, and 3 never came")


def test_where_two_references_ask_for_other_things_nothing_is_judged(tmp_path: Path) -> None:
    counter = tmp_path / "counter"
    counter.touch()
    code = f"""
with open({str(counter)!r}, "a+") as counter:
    counter.write("x"); counter.flush(); counter.seek(0)
    toy.post(f"/search/{{counter.read()}}", {{}}, {{"Idempotency-Key": ""}}, toy.SERVICES)
work()
"""
    cell = run(tmp_path / "results", toy.spec(Kill(), Operation("service_call")), code=code)
    assert (cell.verdict, cell.passed) == (CellVerdict.UNKNOWN, False)
    assert "make other requests (service_call 1: search.x in one, search.xx in the other)" in cell.why


SCENARIO = """\
version: 1
scenario: operations
target: {{planted: {{bug: {bug}, steps: {steps}}}}}
strategies: [loop]
faults: [{{kind: kill, at: {{operation: {operation}, n: {n}}}}}]
{more}
"""


def planted(folder: Path, bug: str, operation: str, steps: int, more: str = "", n: str = "until_none") -> CellResult:
    path = folder / "operations.chaos.yaml"
    path.write_text(SCENARIO.format(bug=bug, operation=operation, steps=steps, more=more, n=n))
    (cell,) = toy.cells(load(path))
    assert operations(cell, None) | held(cell, None) == {operation}
    with closing(Runner(folder, "campaign", toy.SEED)) as runner:
        return runner.run_cell(cell)


def test_a_correct_agent_survives_every_effect_and_every_model_call(tmp_path: Path) -> None:
    asked = planted(tmp_path, "none", "model_call", 12)
    assert (asked.passed, asked.runs, asked.why) == (
        True, 13, "all 13 runs recovered; kill hit at model_call 1 to 12, and 13 never came",
    )  # fmt: skip
    # an e-mail has no key in this work: it may go twice, and nothing else does
    done = planted(tmp_path, "none", "effect", 12, "expect: {effects: at-least-once}")
    assert (done.passed, done.runs) == (True, 3)
    assert done.why.endswith("kill hit at effect 1 to 2, and 3 never came")


def test_an_effect_without_a_key_is_seen_at_effects_only(tmp_path: Path) -> None:
    before = planted(tmp_path, "effect_without_key", "service_call", 16, n="5")  # the payment, not made yet
    assert (before.verdict, before.landed) == (CellVerdict.RECOVERED, 1)
    after = planted(tmp_path, "effect_without_key", "effect", 16, n="3")  # made, and nobody knows
    assert (after.verdict, after.landed, set(after.findings)) == (CellVerdict.DIVERGED, 1, {"effects"})
    assert "payments.charge happened 2 times instead of once" in after.findings["effects"]
