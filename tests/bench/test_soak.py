"""The soak: plans are the same for the same seed, some are really run, and what stays behind is really found."""

from __future__ import annotations

import dataclasses
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Annotated, Any, Literal, get_type_hints

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import Field

from chaos import leftovers, registry
from chaos.plan import STEP_PHASES, parse_case
from chaos.probe import GATE
from chaos.scenario.units import Bytes, Seconds
from tests.bench import draws, remains, soak

PLANS = 25
STRATEGIES, FAULTS = tuple(registry.names("strategies")), tuple(registry.names("faults"))


def test_some_plans_leave_nothing_and_no_error(capsys: pytest.CaptureFixture[str]) -> None:
    """On strategies without heavy imports and servers: `make soak` is for the others."""
    status = soak.main(
        [str(PLANS), "--seed", "11", "--strategies", "restart,chat_history,cow", "--faults", ",".join(QUICK)]
    )
    told = capsys.readouterr().out
    assert "harness errors: 0; left behind: 0" in told, told
    assert (status, f"seed 11: {PLANS} plans" in told) == (0, True), told


SLOW = {"hang", "power_loss", "disk_full", "false_dead", "timeout"}  # each has tests of its own
QUICK = sorted(set(registry.names("faults")) - SLOW)


@settings(max_examples=25, deadline=None)
@given(number=st.integers(0, 10**6), seed=st.integers(0, 2**32))
def test_a_plan_is_a_function_of_its_seed_and_number_and_can_be_printed(seed: int, number: int) -> None:
    one, other = (draws.draw(seed, number, 0, STRATEGIES, FAULTS) for _ in range(2))
    assert one == other
    assert parse_case(str(one.case)) == one.case
    steps = [p.point.step for p in one.case.plan.faults if p.point.phase in STEP_PHASES and not p.point.recovery]
    assert steps == sorted(steps)  # type: ignore[type-var]
    assert [spec.label for spec in one.faults] == [planned.fault for planned in one.case.plan.faults]


def test_every_fault_and_strategy_is_drawn_sometime() -> None:
    plans = [draws.draw(1, number, 0, STRATEGIES, FAULTS) for number in range(150)]
    assert {spec.kind for plan in plans for spec in plan.faults} == set(FAULTS)
    assert {plan.cell.strategy.name for plan in plans} == set(STRATEGIES)


@pytest.mark.parametrize("name", FAULTS)
def test_every_field_of_a_fault_has_values(name: str) -> None:
    kind = registry.load("faults", name)
    hints = get_type_hints(kind, include_extras=True)
    rng = draws.seeds.rng(1, name)
    for field in dataclasses.fields(kind):
        assert draws.drawn(hints[field.name], rng) is not ..., (
            f"{name}.{field.name} is never drawn: {hints[field.name]}"
        )


@pytest.mark.parametrize(
    ("hint", "right"),
    [
        (bool, {False, True}),
        (Seconds, set(draws.SECONDS)),
        (Bytes | None, {None, *draws.SIZES}),
        (Literal["a", 503], {"a", 503}),
        (Annotated[int, Field(ge=2)], {2, 3}),
        (Annotated[int, Field(ge=100)], {...}),
        (dict[str, int], {...}),
    ],
)
def test_values_are_of_their_type(hint: Any, right: set[Any]) -> None:
    rng = draws.seeds.rng(1, "values")
    assert {draws.drawn(hint, rng) for _ in range(200)} == right


def test_all_that_a_run_may_leave_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remains, "SETTLE_SECONDS", 0.2)
    own = os.getpid()
    assert remains.of_a_run(own) == []
    folder = leftovers.folder()
    process = subprocess.Popen([sys.executable, "-c", "input()"], env={GATE: f"unix:@chaos-{own}-1"}, stdin=-1)
    inside = subprocess.Popen([sys.executable, "-c", "input()"], env={}, cwd=folder, stdin=-1)
    gate = socket.socket(socket.AF_UNIX)
    gate.bind(f"\0chaos-{own}-1-left")
    shared = Path("/dev/shm", folder.name)
    shared.touch()
    try:
        told = " | ".join(remains.of_a_run(own))
        for what in (
            f"process {process.pid}: ",
            f"process {inside.pid}: ",
            "socket ",
            "temporary folder ",
            "shared memory ",
        ):
            assert what in told, told
        kept = leftovers.folder("postgres-")  # a server's: it may stay as long as the harness does
        assert str(kept) not in " | ".join(remains.of_a_run(own))
        assert str(kept) in " | ".join(remains.of_a_harness(own))
        leftovers.remove(kept)
    finally:
        for one in (process, inside):
            one.kill()
            one.communicate()
        gate.close()
        shared.unlink()
        leftovers.remove(folder)
    assert remains.of_a_run(own) == []


def test_a_process_in_a_namespace_that_nobody_waits_for_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remains, "SETTLE_SECONDS", 0.2)
    before = remains.namespaces()
    if os.geteuid() != 0:
        pytest.skip("only root makes a mount namespace without a user namespace")
    made = subprocess.run(
        ["sh", "-c", "unshare --mount --fork sleep 60 & sleep 0.3"], stdout=-3, stderr=-3, check=False
    )
    assert made.returncode == 0
    found = remains.orphans(before)
    try:
        assert found and "mnt:[" in found[0]
    finally:
        for line in found:
            os.kill(int(line.split()[1]), 9)


def test_what_is_wrong_is_told_with_its_command(capsys: pytest.CaptureFixture[str]) -> None:
    options = soak._options(["2", "--seed", "5", "--faults", "kill"])
    fine = soak.Ran(0, "recovered", ("kill",), 1, 1.0)
    assert soak.report(options, [fine, fine._replace(number=1)], [], 2.0) == 0
    bad = soak.Ran(1, "harness error", ("kill",), 0, 1.0, error="it broke", left=("mount /x",), what="plan 1: kill")
    assert soak.report(options, [fine, bad], [], 2.0) == 1
    told = capsys.readouterr().out
    assert "again: python -m tests.bench.soak 1 --seed 5 --first 1 --jobs 1 --faults kill" in told
    assert "it broke" in told and "left behind: mount /x" in told
    assert soak.report(options, [fine], [], 2.0) == 1  # one is missing
    assert soak.report(options, [fine, fine], ["temporary folder /y"], 2.0) == 1
