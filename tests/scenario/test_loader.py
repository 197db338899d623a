"""Scenario files: what is read, and what is said about the wrong ones."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from chaos.checks import Terms
from chaos.errors import ScenarioError
from chaos.explorers.every import Every
from chaos.explorers.fixed import Fixed
from chaos.explorers.recovery import RECOVERY_PHASES, Recovery
from chaos.explorers.sampled import Sampled
from chaos.plan import STEP_PHASES
from chaos.scenario import ExpectedFailure, Limits, Scenario
from chaos.scenario.loader import load

Loads = Callable[..., Scenario]
Errors = Callable[..., list[str]]

SMALL = "version: 1\nscenario: small\ntarget: toy\nstrategies: [restart]\nfaults: [{kind: kill}]\n"

BROKEN = """\
version: 1
scenario: Broken
taget: toy
target:
  toy: {length: "40"}
strategies: [restat, {delta: {evry: 5}}]
runs: 0
faults:
  - kind: evikt
    at: {step: random}
  - kind: evict
    at: {step: randm, phase: after_akt}
    grace: 5
    lose_disc: true
expect:
  checks: [stat, files]
  effects: exactly_once
expected_failures:
limits: {deadline: 60}
"""


def test_every_key_arrives(loads: Loads, good: str) -> None:
    scenario = loads(good)
    assert (scenario.name, scenario.tags, scenario.runs, scenario.seed) == ("kill-at-random-steps", ("demo",), 5, 8412)
    assert scenario.target.steps == 40
    assert [each.label for each in scenario.strategies] == ["restart", "delta:every=5", "delta:durability=async"]
    late, evict = scenario.faults
    assert (late.label, late.kind, late.at) == ("kill-late", "kill", Sampled(("after_act",), 5, 30))
    assert late.then[0].at == Recovery(("after_load",), draw=False)
    assert (evict.label, evict.at) == ("evict", Fixed((4, 8), ("after_act",)))
    assert [getattr(evict.fault, name) for name in ("grace", "keep", "codes")] == [0.25, 2 << 20, (1, 2)]
    assert scenario.checks == ("state", "files")
    assert scenario.terms == Terms(2, 2000, 10.0, "at-least-once")
    assert scenario.volatile == ("workspace/*.log",)
    assert scenario.limits == Limits(2, 0.01, 60.0, 512 << 20)
    because, issue = "it stores messages only", "https://example.org/1"
    assert scenario.expected == (ExpectedFailure("delta", "kill", ("files",), ("state",), because, issue),)
    assert scenario.expectation(scenario.strategies[1], late) == scenario.expected
    assert scenario.expectation(scenario.strategies[0], late) == ()


def test_a_short_scenario_has_defaults(loads: Loads) -> None:
    scenario = loads(SMALL)
    assert scenario.checks == ("effects", "files", "processes", "state")
    assert (scenario.terms, scenario.limits, scenario.runs, scenario.seed) == (Terms(), Limits(), 3, None)
    assert scenario.faults[0].at == Sampled()
    assert loads(SMALL, 7).seed == 7


@pytest.mark.parametrize(
    ("at", "explorer"),
    [
        ("{}", Sampled(STEP_PHASES)),
        ("{step: random}", Sampled(STEP_PHASES)),
        ("{phase: every}", Sampled(STEP_PHASES)),
        ("{step: random, phase: [before_act, after_act]}", Sampled(("before_act", "after_act"))),
        ("{step: 3}", Fixed((3,), ("after_act",))),
        ("{step: 3, phase: random}", Fixed((3,), STEP_PHASES, draw=True)),
        ("{step: [3, 1], phase: every}", Fixed((3, 1), STEP_PHASES)),
        ("{step: every, before: 9}", Every(STEP_PHASES, 0, 9)),
        ("{step: every, phase: random}", Every(STEP_PHASES, draw=True)),
        ("{phase: finished}", Fixed((None,), ("finished",))),
    ],
)
def test_where(loads: Loads, at: str, explorer: object) -> None:
    assert loads(SMALL.replace("{kind: kill}", f"{{kind: kill, at: {at}}}")).faults[0].at == explorer


@pytest.mark.parametrize(
    ("at", "explorer"),
    [
        ("{during: recovery}", Recovery(RECOVERY_PHASES, draw=True)),
        ("{during: recovery, phase: every}", Recovery(RECOVERY_PHASES, draw=False)),
        ("{during: recovery, step: 3, phase: after_act}", Recovery(("after_act",), (3,), draw=False)),
    ],
)
def test_where_during_recovery(loads: Loads, at: str, explorer: object) -> None:
    text = SMALL.replace("{kind: kill}", f"{{kind: kill, then: [{{kind: kill, at: {at}}}]}}")
    assert loads(text).faults[0].then[0].at == explorer


def test_all_errors_in_one_pass(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("broken.chaos.yaml").write_text(BROKEN)
    with pytest.raises(ScenarioError) as caught:
        load(Path("broken.chaos.yaml"))
    golden = Path(__file__).with_name("broken.txt").read_text()
    assert str(caught.value) + "\n" == golden


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "1:1: the file is empty; a scenario begins with 'version: 1'"),
        ("# nothing\n", "1:1: the file is empty; a scenario begins with 'version: 1'"),
        ("- version: 1\n", "1:1: a scenario is a mapping that begins with 'version: 1'"),
        (b"\xff\xfe\x00", "1:1: not UTF-8 text; a scenario is a YAML file in UTF-8"),
        ("a: b\nc: \x07", "2:4: this character is not allowed in YAML"),
        ("a:\n\t- b", "2:1: a tab cannot indent YAML; use spaces"),
        ("a: &x 1\nb: *x", "1:4: anchors and aliases (&x) are not used here; repeat it, or use vars"),
        ("&a [*a]", "1:1: anchors and aliases (&a) are not used here; repeat it, or use vars"),
        ("<<: {a: 1}", "1:1: anchors, aliases and merge keys are not used here; repeat the keys"),
        ("a: !!python/name:os.system x", "1:4: tags such as !!python/name:os.system are not used here"),
        ("1: a", "1:1: keys are text; put '1' in quotes if it is meant"),
        ("a: 1\na: 2", "2:1: 'a' is there twice; first in line 1"),
        ("a: {{ vars.n }}", "1:5: a mapping cannot be a key; an expression is written ${{ ... }}, with the dollar"),
        ("? [a]\n: b", "1:3: a list cannot be a key"),
        ("a: 1\n---\na: 2", "2:1: a second document begins here; one file is one scenario"),
        ('a: "\\UFFFFFFFF"', "1:1: not YAML: Python int too large to convert to C int"),
        ('a: "\\uD800"', "1:4: half of a surrogate pair is no character"),
        ("a: " + "[" * 99 + "]" * 99, "1:36: nested too deeply for a scenario"),
        ("a: " + "[" * 3000, "1:1: nested too deeply for a scenario"),
    ],
)
def test_what_is_no_scenario(errors: Errors, text: str | bytes, says: str) -> None:
    assert says in errors(text)


def test_quotes_hint_for_expressions_in_flow_style(errors: Errors) -> None:
    assert errors("a: [${{ x }}]")[0].endswith("inside [ ] and { } put quotes around ${{ ... }}")


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("version: 1", "version: 2", "1:10: must be 1, not 2"),
        ("runs: 5", 'runs: "5"', "9:7: must be a whole number, not the text '5'; remove the quotes"),
        ("runs: 5", "runs: 5.5", "9:7: must be a whole number"),
        ("runs: 5", "runs:", "9:1: 'runs' has no value; give it one or remove the key"),
        ("tags: [demo]", "tags: demo", "4:7: must be a list, not the text 'demo'"),
        ("tags: [demo]", "tags: [7]", "4:8: must be text, not 7; put it in quotes"),
        ("target:\n  toy: {", "target:\n  toi: {", "7:3: unknown target 'toi'; did you mean 'toy'?"),
        ("workload: sales", "worklaod: sales", "7:9: unknown key 'worklaod'; did you mean 'workload'?"),
        ("{n: 40}", "{n: 1}", "7:34: length must be at least 2 (got 1)"),
        ("{n: 40}", "{m: 40}", "7:34: no variable 'n'; known: m"),
        ("{n: 40}", "{n: 20}", "14:60: the target has no step 30; it runs 20, from 0 to 19"),
        ("[restart, ", "[restat, ", "8:14: no 'restat' among the strategies; did you mean 'restart'?"),
        ("[restart, ", "[{delta: 5}, ", "8:14: the options of 'delta' are a mapping"),
        ("[restart, ", "[{delta: {every: 5}}, ", "8:35: 'delta:every=5' is there twice"),
        ("{every: 5}", "{every: five}", "8:39: must be a whole number, not the text 'five'"),
        (
            "durability: async",
            "durability: asinc",
            "8:65: must be 'sync' or 'async', not the text 'asinc'; did you mean",
        ),
        ("name: kill-late", "name: kill late", "13:11: 'kill late' must be letters, digits"),
        ("name: kill-late", "name: evict", "18:5: two faults are called 'evict'; give this one a `name:` of its own"),
        ("step: random", "step: rando", "14:16: write a step number, a list of them, 'random' or 'every'"),
        (
            "step: random, phase: after_act, after: 5, before: 30",
            "step: 6, after: 5",
            "14:26: 'after' goes with `step: random` or `step: every` only",
        ),
        ("phase: after_act", "phase: after_akt", "14:31: no phase 'after_akt'; did you mean 'after_act'?"),
        ("before: 30", "before: 3", "14:60: no step is after 5 and before 3; both ends are included"),
        ("step: [4, 8]", "step: []", "22:16: an empty list names no step; give at least one"),
        ("step: [4, 8]", "step: [4, 40]", "22:16: the target has no step 40; it runs 40, from 0 to 39"),
        ("step: [4, 8]", "step: 8, phase: finished", "22:26: 'finished' belongs to no step; leave out `step`"),
        ("step: [4, 8]", "during: recovery", "22:18: nothing has failed yet"),
        ("grace: 250ms", "grace: 5", "19:12: 5 needs a unit: write '5s' or '5ms'"),
        ("grace: 250ms", "grace: 2m", "19:12: grace must be at most one minute (got 120.0)"),
        ("grace: 250ms", "grase: 250ms", "19:5: unknown key 'grase'; did you mean 'grace'?"),
        ("grace: 250ms", "expect: 250ms", "19:5: unknown key 'expect'"),
        ("codes: [1, 2]", "codes: &c [1]", "21:12: anchors and aliases (&c) are not used here"),
        ("codes: [1, 2]", "codes: [1, x]", "21:16: must be a whole number, not the text 'x'"),
        ("kind: evict", "kin: evict", "18:5: unknown key 'kin'; did you mean 'kind'?"),
        ("kind: evict", "name: other", "18:5: 'kind' is required here"),
        ("max_recovery: 10s", "max_recovery: soon", "28:17: write a duration with a unit"),
        ("max_lost_steps: 2", "max_lost_steps: -1", "26:19: must be at least 0, not -1"),
        ("checks: [state, files]", "checks: [state, filez]", "24:19: no check 'filez'; did you mean 'files'?"),
        ("checks: [state, files]", "checks: []", "24:11: 'checks' is empty; give at least 1"),
        ("strategy: delta", "strategy: dleta", "31:15: no strategy of this scenario is called 'dleta'; did you mean"),
        ("fault: kill\n", "fault: oom\n", "32:12: no fault of this scenario is called 'oom'; known: evict, kill"),
        ("breaks: [files]", "breaks: [effects]", "33:14: no check of this scenario is called 'effects'"),
        ("may_break: [state]", "may_break: [files]", "34:16: 'files' cannot both have to break and be allowed to"),
        ("    because: it stores messages only\n", "", "31:5: 'because' is required here"),
        ("    because: it stores messages only\n", "    because:\n", "35:5: 'because' has no value"),
        ("memory: 512MiB", "memory: 512", "37:65: 512 needs a unit: write '512MiB' or '512B'"),
        ("deadline: 1m", "deadline: 0s", "37:53: must be more than 0"),
        ("limits: {", "limits: 5 #", "37:9: must be a mapping (key: value), not 5"),
    ],
)
def test_one_error(errors: Errors, good: str, old: str, new: str, says: str) -> None:
    assert old in good
    found = errors(good.replace(old, new, 1))
    assert len(found) == 1, found
    assert found[0].startswith(says), found


def test_a_following_fault_with_the_same_label_is_the_same_fault(errors: Errors, loads: Loads) -> None:
    twice = SMALL.replace("{kind: kill}", "{kind: kill, then: [{kind: kill, signal: SIGTERM}]}")
    assert errors(twice) == ["5:29: 'kill' is another fault elsewhere; give this one a `name:` of its own"]
    assert loads(twice.replace("signal:", "name: term, signal:")).faults[0].then[0].label == "term"


def test_what_a_plug_in_refuses_stands_at_the_option_it_speaks_of(errors: Errors, good: str) -> None:
    assert (
        errors(good.replace("codes: [1, 2]", "codes: [0]"))
        == ["21:12: codes cannot be 0", "18:5: and this is bad"][::-1]
    )


def test_an_unreadable_file(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "none.yaml", Path("a\0b")):
        with pytest.raises(ScenarioError, match="cannot be read"):
            load(path)


def test_a_long_line_is_cut_around_the_caret(loads: Loads) -> None:
    with pytest.raises(ScenarioError) as caught:
        loads(SMALL + f"tags: [{', '.join(['x' * 30] * 30)}, 5]\n")
    _, line, caret = str(caught.value).splitlines()
    assert line[caret.index("^")] == "5"
    assert len(line) < 120


quick = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@quick
@given(text=st.one_of(st.text(), st.binary(), st.text(alphabet="-:{}[]&*!|>'\"%@`#, \n\tab1?<$")))
def test_anything_is_a_scenario_or_a_scenario_error(loads: Loads, text: str | bytes) -> None:
    if isinstance(text, str):
        text = text.encode("utf-8", "surrogatepass")
    with pytest.raises(ScenarioError, match=r"s\.chaos\.yaml:\d+:\d+: "):
        loads(text)


@quick
@given(data=st.data())
def test_a_damaged_scenario_is_read_or_refused(loads: Loads, good: str, data: st.DataObject) -> None:
    rng = random.Random(data.draw(st.integers(0, 1 << 32)))
    text, pieces = (
        good,
        ["null", "[]", "{}", "-1", "1e400", "x", "'", ": ", "${{ ", "}}", "\n", "- ", "true", '""', "&a "],
    )
    for _ in range(rng.randint(1, 3)):
        start = rng.randrange(len(text))
        text = text[:start] + rng.choice([*pieces, ""]) + text[start + rng.choice([0, 1, 4, 12]) :]
    try:
        assert loads(text).name
    except ScenarioError as error:
        assert "s.chaos.yaml:" in str(error)


@pytest.mark.parametrize(
    ("given", "own", "default", "chosen"), [(1, 2, 3, 1), (None, 2, 3, 2), (None, None, 3, 3), (None, None, None, None)]
)
def test_which_seed_counts(
    tmp_path: Path, given: int | None, own: int | None, default: int | None, chosen: int | None
) -> None:
    path = tmp_path / "seed.chaos.yaml"
    line = "" if own is None else f"seed: {own}\n"
    path.write_text(f"version: 1\nscenario: s\n{line}target: toy\nstrategies: [restart]\nfaults: [{{kind: kill}}]\n")
    assert load(path, given, default).seed == chosen
