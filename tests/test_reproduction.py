"""A failure as a plain test: what `reproduce` runs, says and leaves."""

from __future__ import annotations

import shlex
import subprocess
import sys
import unittest
from pathlib import Path

import pytest

import chaos
from chaos import leftovers, results, seeds
from chaos.errors import ScenarioError
from chaos.reproduction import reproduce
from chaos.sandbox import Able, backends
from chaos.verdict import CellVerdict

TEXT = """\
{{version: 1, scenario: again, target: {{planted: {{bug: {bug}, steps: 13}}}}, strategies: [loop], seed: 8412,
 faults: [{faults}], expect: {{checks: [effects]}}}}
"""
PAID = "{kind: kill, at: {step: 10, phase: after_act}}"
BROKEN, MENDED = (TEXT.format(bug=bug, faults=PAID) for bug in ("effect_without_key", "none"))
CASE = "kill@10/after_act#0"


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_a_broken_promise_is_an_assertion_with_all_that_is_known() -> None:
    with pytest.raises(AssertionError) as caught:
        reproduce(BROKEN, case=CASE)
    first, why, finding, journals, replay = str(caught.value).splitlines()
    assert first == "loop x kill: diverged (kill@10/after_act)"
    assert "effects broke in 1 of 1 runs" in why
    assert finding == "  effects: payments.charge happened 2 times instead of once (step 10)"
    kept = Path(".chaos/reproduced/again/loop-kill")
    assert journals == f"  journals: {kept}"
    assert (kept / "scenario.chaos.yaml").read_text() == BROKEN
    (run,) = results._lines(kept / results.RUNS, results.RunResult)
    assert (kept / run.journal).exists()
    assert (kept / run.reference).exists()
    words = shlex.split(replay.partition("replay: ")[2])
    assert words[:3] == ["pytest", "--chaos", str(kept / "scenario.chaos.yaml")]
    assert words[-2:] == ["--chaos-case", CASE]
    assert Path(".chaos/.gitignore").exists()
    assert [left for left in leftovers.folders(own=True) if "reproduce" in left.name] == []


def test_an_agent_that_is_mended_passes_and_leaves_nothing() -> None:
    run = reproduce(MENDED)
    assert (run.plan, run.run, run.verdict) == ("kill@10/after_act", 0, CellVerdict.RECOVERED)
    assert len(run.landed) == 1
    assert list(Path().iterdir()) == []


def test_the_seed_may_be_given_and_is_the_scenarios_otherwise(tmp_path: Path) -> None:
    path = tmp_path / "own.chaos.yaml"
    path.write_text(MENDED)
    assert reproduce(path).seed == seeds.derive(8412, "again", "loop", "kill", 0)
    assert reproduce(MENDED, seed=1).seed == seeds.derive(1, "again", "loop", "kill", 0)


def test_what_may_break_is_no_failure() -> None:
    allowed = "expected_failures: [{strategy: loop, may_break: [effects], because: the service knows no keys}],"
    run = reproduce(BROKEN.replace("expect:", f"{allowed} expect:"))
    assert (run.verdict, run.broke) == (CellVerdict.DIVERGED, ("effects",))


def test_a_fault_that_misses_proves_nothing() -> None:
    with pytest.raises(AssertionError, match="not exercised"):
        reproduce(MENDED, case="kill@10/after_act+kill@recovery/12/after_act+kill@recovery/1/before_think#0")


def test_what_the_machine_lacks_is_a_skip(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backends, "able", lambda: Able(sandbox="no namespaces"))
    monkeypatch.setattr(backends.DockerBackend, "able", lambda _: Able(sandbox="no engine"))
    with pytest.raises(unittest.SkipTest, match="no namespaces"):
        reproduce(MENDED)


@pytest.mark.parametrize(
    ("faults", "case", "says"),
    [
        (PAID, "evict@1/after_act", "the case names evict; the scenario has kill"),
        (f"{PAID}, {{kind: evict}}", "", "name one strategy, and one fault or a case"),
        (PAID, "kill@1", "write FAULT@STEP/PHASE"),
    ],
)
def test_what_is_no_single_run_is_an_error(faults: str, case: str, says: str) -> None:
    with pytest.raises(ScenarioError, match=says):
        reproduce(TEXT.format(bug="none", faults=faults), case=case)


def test_it_is_a_public_name_that_costs_nothing_until_it_is_used() -> None:
    code = "import sys, chaos; print('chaos.campaign' in sys.modules); from chaos import reproduce; print(reproduce)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("False\n<function reproduce")
    assert chaos.reproduce is reproduce
