"""A candidate as a scenario: what is written is what is read."""

from __future__ import annotations

import random
from pathlib import Path
from typing import cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chaos import registry
from chaos.cell import Cell
from chaos.checks import Terms
from chaos.errors import HarnessError
from chaos.explorers.combine import combine
from chaos.faults import Fault
from chaos.faults.evict import Evict
from chaos.faults.kill import Kill
from chaos.faults.network import Network
from chaos.faults.overloaded import Overloaded
from chaos.faults.rate_limit import RateLimit
from chaos.plan import COUNTED, STEP_PHASES, Point
from chaos.scenario import ExpectedFailure, Limits, Scenario, StrategySpec
from chaos.scenario.loader import load
from chaos.shrink.candidate import Candidate, Hit
from chaos.shrink.document import WIDTH, block, compact, document, flow, labels, plan_of
from chaos.targets.reference import Reference
from chaos.targets.reference.strategies.delta import Delta
from tests import toy

STEPS = 14
FIRST = [
    *(Point(number, phase) for phase in COUNTED for number in range(1, 4)),
    *(Point(step, phase) for step in range(STEPS) for phase in STEP_PHASES),
]
POINTS = [*FIRST, *(Point(STEPS, phase) for phase in STEP_PHASES)]  # behind each place, all phases come once more
VARIED: list[Fault] = [
    Kill("SIGTERM", 0.25),
    Evict(0.0),
    RateLimit(7, 1.5, "anthropic"),
    Overloaded(1, 529, 0.001),
    Network("limit_data", bytes=2048),
]


def kind_of(fault: Fault) -> str:
    return toy.spec(fault).kind


def faults() -> st.SearchStrategy[Fault]:
    known = [cast(Fault, registry.load("faults", name)()) for name in registry.names("faults")]
    return st.sampled_from([*known, *VARIED])


later = st.builds(Point, st.none() | st.integers(0, 9), st.sampled_from(STEP_PHASES), st.just(value=True)) | st.builds(
    Point, st.none(), st.sampled_from(["before_load", "after_load", "finished"]), st.just(value=True)
)
hits = st.builds(lambda fault, at: Hit(kind_of(fault), kind_of(fault), fault, at), faults(), st.sampled_from(FIRST))
more = st.lists(st.builds(lambda fault, at: Hit("again", kind_of(fault), fault, at), faults(), later), max_size=2)
targets = st.builds(Reference, steps=st.integers(STEPS + 1, 40), bytes_per_step=st.integers(0, 300))
candidates = st.builds(lambda one, rest, target: Candidate((one, *rest), target), hits, more, targets)


def cell_of(candidate: Candidate, **given_: object) -> Cell:
    strategy = StrategySpec("delta:every=4,durability=exit", "delta", Delta(every=4, durability="exit"))
    made = toy.scenario(toy.spec(Kill()), target=candidate.target, strategies=(strategy,), **given_)
    return toy.cells(made)[0]


def read(folder: Path, text: str) -> Scenario:
    path = folder / "one.chaos.yaml"
    path.write_text(text)
    return load(path)


@pytest.mark.parametrize("write", [block, compact])
def test_what_is_written_is_what_is_read(tmp_path: Path, write: object) -> None:
    @settings(max_examples=60)
    @given(candidates)
    def same(candidate: Candidate) -> None:
        cell = cell_of(candidate, checks=tuple(registry.names("checks")))
        text = write(document(cell, candidate, 8412))  # type: ignore[operator]
        found = read(tmp_path, text)
        assert (found.target, found.seed, found.checks) == (candidate.target, 8412, cell.scenario.checks)
        assert found.strategies == (cell.strategy,)
        (spec,) = found.faults
        plan = plan_of(candidate)
        assert combine(spec, POINTS, 1, random.Random(1)) == (plan,)
        for hit, label in zip(candidate.hits, labels(candidate.hits), strict=True):
            assert (spec.label, spec.kind, spec.fault) == (label, hit.kind, hit.fault)
            spec = spec.then[0] if spec.then else spec

    same()


def test_the_terms_go_with_it(tmp_path: Path) -> None:
    """All that the check could judge by, and what may break besides."""
    candidate = Candidate((Hit("kill", "kill", Kill(), Point(3, "after_act")),), Reference())
    given_ = {
        "checks": ("effects", "state"),
        "terms": Terms(3, 1000, 2.5, "at-least-once"),
        "volatile": ("workspace/*.log", "$.session"),
        "limits": Limits(7, 0.5, 30.0, 512 << 20, 1.5),
        "expected": (
            ExpectedFailure("delta", "", ("state",), ("effects",), "because: it's so", "https://example.org/1"),
            ExpectedFailure("delta", "evict", ("effects",), (), "of another fault"),
        ),
    }
    cell = cell_of(candidate, **given_)
    found = read(tmp_path, block(document(cell, candidate, 1)))
    assert (found.checks, found.terms, found.volatile, found.limits) == (
        ("effects", "state"), cell.scenario.terms, cell.scenario.volatile, cell.scenario.limits,
    )  # fmt: skip
    label = "delta:every=4,durability=exit"
    assert found.expected == (
        ExpectedFailure(label, "", (), ("state", "effects"), "because: it's so", "https://example.org/1"),
    )


def test_two_faults_with_one_label_get_two(tmp_path: Path) -> None:
    one, other = (Hit("kill", "kill", Kill(signal), Point(3, "after_act")) for signal in ("SIGKILL", "SIGTERM"))
    candidate = Candidate((one, other, one), Reference())
    assert labels(candidate.hits) == ("kill", "kill-2", "kill")
    found = read(tmp_path, block(document(cell_of(candidate), candidate, 1)))
    assert found.faults[0].then[0].label == "kill-2"


def test_it_is_short() -> None:
    candidate = Candidate((Hit("kill", "kill", Kill(), Point(3, "after_act")),), Reference(steps=12))
    cell = cell_of(candidate, checks=tuple(registry.names("checks")), limits=Limits())
    text = compact(document(cell, candidate, 8412))
    assert text == (
        "{version: 1, scenario: toy, target: {reference: {steps: 12}},\n"
        "strategies: [{delta: {every: 4, durability: exit}}], seed: 8412,\n"
        "faults: [{kind: kill, at: {step: 3, phase: after_act}}]}\n"
    )
    assert all(len(line) <= WIDTH for line in text.splitlines())


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("yes", '"yes"'),
        ("5s", "5s"),
        ("1e5", '"1e5"'),
        ("0x1f", '"0x1f"'),
        ("a: b", '"a: b"'),
        ("$.tokens", "$.tokens"),
        ("workspace/*.log", "workspace/*.log"),
        ("", '""'),
        (None, "null"),
        (True, "true"),
        ([1, {"a": "b"}], "[1, {a: b}]"),
    ],
)
def test_plain_text_is_left_plain(value: object, said: str) -> None:
    assert flow(value) == said  # type: ignore[arg-type]


def test_what_no_scenario_can_say_is_an_error() -> None:
    candidate = Candidate((Hit("kill", "kill", Kill(), Point(3, "after_act")),), toy.Toy())
    with pytest.raises(HarnessError, match="the target Toy has no name"):
        document(cell_of(candidate), candidate, 1)
    nowhere = Candidate((Hit("kill", "kill", Kill(), Point(None, "after_act")),), Reference())
    with pytest.raises(HarnessError, match="no words for the point after_act"):
        document(cell_of(nowhere), nowhere, 1)
