"""Whole plans in a scenario: what `explore`, `rate`, `repeat` and `vary` mean, and what is said against them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from chaos.cell import chain_of
from chaos.errors import ScenarioError
from chaos.explorers import Explorer
from chaos.explorers.arrivals import Arrivals
from chaos.explorers.every import Every
from chaos.explorers.pairs import Pairs
from chaos.explorers.recovery import Recovery
from chaos.explorers.repeat import Repeat
from chaos.explorers.sampled import Sampled
from chaos.explorers.search import Search
from chaos.faults.kill import Kill
from chaos.plan import STEP_PHASES
from chaos.scenario import FaultSpec
from chaos.scenario.jsonschema import json_schema
from chaos.scenario.loader import load
from chaos.scenario.parse import parse
from chaos.scenario.positions import Problems

SCENARIO = """\
version: 1
scenario: exploring
target: {{planted: {{steps: 12}}}}
strategies: [loop]
faults:
  - {fault}
"""


def read(folder: Path, fault: str) -> FaultSpec:
    path = folder / "one.chaos.yaml"
    path.write_text(SCENARIO.format(fault=fault))
    (spec,) = load(path).faults
    return spec


@pytest.mark.parametrize(
    ("at", "explorer"),
    [
        ("explore: search", Search()),
        ("explore: search, faults: 2, phase: [before_act, after_act], after: 3, before: 9",
         Search(2, ("before_act", "after_act"), 3, 9)),
        ("explore: search, phase: every", Search()),
        ("explore: pairs, strength: 3, phase: after_act", Pairs(3, ("after_act",))),
        ("explore: bernoulli, rate: 0.25", Arrivals("bernoulli", 0.25)),
        ("explore: poisson, rate: 2, faults: 4, before: 5", Arrivals("poisson", 2, 4, STEP_PHASES, 0, 5)),
        ("explore: bernoulli", Arrivals()),
        ("repeat: 2", Repeat()),
        ("step: every, phase: after_act, repeat: 3", Repeat(Every(("after_act",)), 3)),
        ("explore: poisson, rate: 0.5, repeat: 2", Repeat(Arrivals("poisson", 0.5))),
    ],
)  # fmt: skip
def test_what_is_explored(tmp_path: Path, at: str, explorer: Explorer) -> None:
    assert read(tmp_path, f"{{kind: kill, at: {{{at}}}}}").at == explorer


def test_a_search_goes_over_all_that_stands_under_then(tmp_path: Path) -> None:
    spec = read(
        tmp_path,
        """kind: kill
    vary: {signal: [SIGKILL, SIGTERM], grace: {from: 0s, to: 1s}}
    at: {explore: search}
    then:
      - {kind: rate_limit, vary: {requests: {from: 1, to: 4}}}
      - {kind: kill, name: again, at: {during: recovery, phase: after_load}}
      - {kind: evict, vary: {grace: [0s, 250ms, 250ms]}}
      - {kind: stream_cut, vary: {after: {from: 0.0, to: 1.0}}}
      - {kind: crash_loop, vary: {times: {from: 2, to: 100}}}
      - {kind: corrupt_delta, vary: {how: [flip, delete], which: [latest]}}
""",
    )
    varied = {each.label: dict(each.vary) for each in chain_of(spec)}
    assert varied["kill"]["signal"] == ("SIGKILL", "SIGTERM")
    grace = varied["kill"]["grace"]
    assert (grace[0], grace[-1], len(grace)) == (0.0, 1.0, 16)
    assert varied["rate_limit"] == {"requests": (1, 2, 3, 4)}
    assert varied["evict"] == {"grace": (0.0, 0.25)}
    assert varied["stream_cut"]["after"][-1] == 1.0
    times = varied["crash_loop"]["times"]
    assert (times[0], times[-1], len(times)) == (2, 100, 16)
    assert varied["corrupt_delta"] == {"how": ("flip", "delete"), "which": ("latest",)}
    assert varied["again"] == {}
    assert [each.at for each in chain_of(spec)][:3] == [Search(), Sampled(), Recovery(("after_load",), draw=False)]
    assert spec.fault == Kill()


@pytest.mark.parametrize(
    ("fault", "says"),
    [
        ("{kind: kill, at: {explore: serch}}", "6:32: must be 'search', 'pairs', 'bernoulli' or 'poisson', not"),
        ("{kind: kill, at: {explore: search, step: 3}}", "6:46: 'step' is one place, `explore: search` looks for many"),
        ("{kind: kill, at: {explore: search, rate: 0.5}}", "'rate' goes with `explore: bernoulli`, `poisson` only"),
        ("{kind: kill, at: {faults: 2}}", "6:31: 'faults' goes with `explore: search`, `bernoulli`, `poisson` only"),
        ("{kind: kill, at: {explore: search, strength: 2}}", "'strength' goes with `explore: pairs` only"),
        ("{kind: kill, at: {explore: bernoulli, rate: 1.5}}", "the rate of `bernoulli` is a probability: at most 1"),
        ("{kind: kill, at: {explore: poisson, rate: 0}}", "must be at least 0.001, not 0"),
        ("{kind: kill, at: {explore: search, faults: 0}}", "must be at least 1, not 0"),
        ("{kind: kill, at: {explore: pairs, strength: 6}}", "must be at most 5, not 6"),
        ("{kind: kill, at: {explore: search, repeat: 2}}", "plans that depend on what became of others are not"),
        ("{kind: kill, at: {operation: effect, n: until_none, repeat: 2}}", "plans that depend on what became of"),
        ("{kind: kill, at: {repeat: 1}}", "must be at least 2, not 1"),
        ("{kind: kill, at: {explore: search, phase: after_load}}", "'after_load' belongs to no step; a recovery is"),
        ("{kind: kill, at: {explore: search, after: 5, before: 4}}", "no step is after 5 and before 4"),
        ("{kind: kill, at: {explore: search, before: 12}}", "the target has no step 12; it runs 12, from 0 to 11"),
        ("{kind: kill, then: [{kind: evict, at: {explore: pairs}}]}", "'pairs' is of whole plans; put it on the first"),
        ("{kind: kill, then: [{kind: evict, at: {repeat: 2}}]}", "whole plans are repeated; put it on the first fault"),
        ("{kind: kill, vary: {grace: [0s]}}", "6:24: 'vary' is for a search; its first fault has `at: {explore:"),
        ("{kind: kill, at: {explore: pairs}, vary: {grace: [0s]}}", "'vary' is for a search"),
        (
            "{kind: kill, vary: {grase: [0s, 1s]}, at: {explore: search}}",
            "6:25: no field 'grase'; did you mean 'grace'?",
        ),
        ("{kind: kill, vary: {grace: [0s, 5]}, at: {explore: search}}", "6:37: 5 needs a unit: write '5s' or '5ms'"),
        ("{kind: kill, vary: {grace: []}, at: {explore: search}}", "write a list of values, or {from: …, to: …} of a"),
        ("{kind: kill, vary: {grace: 1s}, at: {explore: search}}", "write a list of values, or {from: …, to: …} of a"),
        ("{kind: kill, vary: {grace: {from: 1s}}, at: {explore: search}}", "write a list of values, or {from: …, to:"),
        ("{kind: kill, vary: {grace: {from: 1s, to: 1s}}, at: {explore: search}}", "a range goes from a lesser value"),
        ("{kind: kill, vary: {signal: {from: SIGINT, to: SIGTERM}}, at: {explore: search}}", "only numbers, durations"),
        ("{kind: rate_limit, vary: {requests: [1, 0]}, at: {explore: search}}", "requests must be at least 1 (got 0)"),
        ("{kind: clock_jump, vary: {with_kill: {from: false, to: true}}, at: {explore: search}}", "only numbers, dur"),
    ],
)
def test_what_makes_no_sense_is_told_with_its_place(tmp_path: Path, fault: str, says: str) -> None:
    with pytest.raises(ScenarioError) as told:
        read(tmp_path, fault)
    assert says in str(told.value)


def test_editors_know_what_can_be_varied(tmp_path: Path) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    schema = json.loads(json.dumps(json_schema()))
    validator = jsonschema.Draft202012Validator(schema)
    for fields, right in (("grace: [0s]", True), ("grase: [0s]", False)):
        text = SCENARIO.format(fault=f"{{kind: kill, vary: {{{fields}}}, at: {{explore: search, faults: 2}}}}")
        tree = parse(text.replace("planted", "reference").replace("loop", "cow"), Problems(tmp_path / "s.yaml"))
        assert (list(validator.iter_errors(tree)) == []) is right
