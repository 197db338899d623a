"""A half outside the sandbox that is made anew over the zones of a run goes on like the one that lived through it."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from chaos.events.seen import Asked, Effected, Exited, HostDid, Observed, Reached, Reloaded, Started
from chaos.host import Host, Report
from chaos.plan import parse_plan
from chaos.record import Record
from chaos.run import execute
from chaos.sandbox import Sandbox
from chaos.sandbox.process import ProcessSandbox
from chaos.scenario import Limits
from chaos.targets.reference import Reference
from chaos.targets.reference.semantic import criu
from chaos.targets.reference.strategies import semantic
from tests.cells import SEED, ReferenceCell

STEPS = 14
PLAN = (
    "kill@0/before_think+kill@1/before_act+evict@4/after_act+kill@6/before_think+kill@8/during_commit"
    "+evict@10/after_commit+kill@recovery/after_load"
)
no_criu = criu.trouble(criu.named())
needs_criu = pytest.mark.skipif(bool(no_criu), reason=no_criu or "-")


class Anew:
    """A host that forgets everything between two incarnations: another one is made over the same zones."""

    def __init__(self, make: Callable[[], Host]) -> None:
        self._make, self._host, self.made = make, make(), 1

    def starting(self, attempt: int) -> None:
        if attempt > 1:
            assert self._host.tied == ""
            written = self._host.written_bytes()
            self._host.close()
            self._host, self.made = self._make(), self.made + 1
            assert self._host.written_bytes() == written, "it has written what the other one had written"
        self._host.starting(attempt)

    def asked(self, turn: int) -> None:  # it is bound before the first incarnation
        self._host.asked(turn)

    def __getattr__(self, name: str) -> object:
        return getattr(self._host, name)


def told(record: Record, *, memory: bool) -> list[object]:
    """Return what was seen in a run.

    Where *memory* is dumped, equal runs differ in what that takes, and in the turns in which it has changed.
    """
    found: list[object] = []
    for event in record.events:
        match event:
            case HostDid(what="snapshot" | "turns") if memory:
                if event.what == "turns" or event.figures["files"]:
                    same = {what: event.figures.get(what) for what in ("turns", "files", "false_negatives")}
                    found.append((event.attempt, event.what, same))
            case HostDid():
                found.append((event.attempt, event.what, event.figures))
            case Reached():
                found.append((event.attempt, event.step, event.phase, event.state))
            case Asked():
                found.append((event.attempt, event.turn, event.prompt))
            case Effected():
                found.append((event.attempt, event.identity))
            case Exited() if memory:
                found.append((event.attempt, event.status))
            case Exited():
                found.append((event.attempt, event.status, event.elsewhere_bytes, event.stored_bytes))
            case Observed():
                others = tuple(msgspec.structs.replace(one, pid=0) for one in event.seen.processes)
                seen = msgspec.structs.replace(event.seen, processes=others)
                found.append(
                    (event.attempt, event.step, event.phase, seen if event.phase == "finished" else seen.files)
                )
            case Reloaded():
                found.append((bytes(event.state), event.error))
            case Started():
                found.append((event.attempt, event.hostname))
    return found


@pytest.mark.parametrize(
    ("name", "workload", "processes"),
    [
        ("semantic", "quarterly_sales", "manifest"),
        ("layered", "quarterly_sales", "manifest"),
        pytest.param("semantic", "live_engine", "criu", marks=needs_criu),
    ],
)
def test_the_run_is_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, workload: str, processes: str
) -> None:
    cell = ReferenceCell(
        tmp_path, Reference(workload=workload, steps=STEPS), name, {"processes": processes, "audit": True}
    )
    setup = replace(cell.setup, limits=Limits(backoff_limit=len(parse_plan(PLAN).faults)))
    lived = execute(setup, parse_plan(PLAN), tmp_path / "lived", random.Random(SEED))
    half, hosts = semantic.half, list[Anew]()

    def anew(sandbox: Sandbox, report: Report, processes: semantic.Processes, *, audit: bool) -> Host:
        hosts.append(Anew(lambda: half(sandbox, report, processes, audit=audit)))
        return hosts[-1]  # type: ignore[return-value]  # by __getattr__

    monkeypatch.setattr(semantic, "half", anew)
    forgot = execute(setup, parse_plan(PLAN), tmp_path / "forgot", random.Random(SEED))
    assert [host.made for host in hosts] == [8]
    assert len(lived.injections) == 7 and lived.finished
    memory = processes == "criu"
    assert told(forgot, memory=memory) == told(lived, memory=memory)
    restored = [event for event in lived.events if isinstance(event, HostDid) and event.what == "restore"]
    assert len(restored) == 7 - 1, "the first kill came before there was anything to put back"


def test_snapshots_of_a_file_system_are_tied_to_it(tmp_path: Path) -> None:
    box = ProcessSandbox(tmp_path / "box", 0, "host")
    strategy = Reference().strategy("cow", {"snapshots": "reflink"})
    if reason := strategy.missing():
        pytest.skip(reason)
    host = strategy.host(box, lambda what, figures: None)
    assert host is not None
    try:
        assert host.tied.startswith("reflink snapshots")
    finally:
        host.close()
        box.close()
