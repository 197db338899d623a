"""Another release comes back: seen at the model endpoint, judged by what it does with the old work."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from chaos.campaign import Runner, landings
from chaos.checks import Terms
from chaos.checks.state import State
from chaos.events.done import Released, Signalled
from chaos.events.seen import Asked, Exited, Reached
from chaos.faults.changed_code import ChangedCode
from chaos.faults.kill import Kill
from chaos.journal import AnyEvent
from chaos.plan import parse_plan
from chaos.record import Record
from chaos.targets.reference import Reference
from chaos.verdict import CellVerdict, Outcome
from tests import toy
from tests.cells import SEED, Ran, ReferenceCell

TELLS = (
    "old = toy.post\n"
    "mine = {'x-chaos-release': os.environ['CHAOS_RELEASE']} if 'CHAOS_RELEASE' in os.environ else {}\n"
    "toy.post = lambda path, body, headers, where=toy.MODEL: old(path, body, headers | mine, where)\n"
    "work()"
)


def test_the_next_incarnation_is_another_release_and_tells_so(tmp_path: Path) -> None:
    ran = toy.run(tmp_path, TELLS, "new@1/after_act", {"new": ChangedCode(what="code")})
    assert ran.statuses == [-9, 0]
    assert [(asked.attempt, asked.release) for asked in ran.all(Asked)] == [(1, ""), (1, ""), (2, "code"), (2, "code")]
    (landed,) = ran.landed
    assert (landed.how, landed.evidence["turn"]) == ("killed, came back as another release", 1)


def test_a_target_that_comes_back_as_it_was_proves_nothing(tmp_path: Path) -> None:
    run, cell = toy.replay(tmp_path / "same", ChangedCode(what="code"), "changed_code@1/after_act")
    assert run.verdict is CellVerdict.NOT_EXERCISED
    assert run.missed == ("changed_code@1/after_act was injected and left no proof that it hit",)
    assert not cell.passed


def test_what_the_target_has_no_release_for_is_left_out(tmp_path: Path) -> None:
    (cell,) = toy.cells(toy.scenario(toy.spec(ChangedCode(what="prompt"))))
    why = Runner(tmp_path, "campaign", toy.SEED).unsuited(cell)
    assert why == "the target has no other release of the kind 'prompt'"


@pytest.fixture(scope="module")
def cell(tmp_path_factory: pytest.TempPathFactory) -> ReferenceCell:
    faults: dict[str, Any] = {what: ChangedCode(what=what) for what in ("prompt", "tools", "code")}  # type: ignore[arg-type]
    folder = tmp_path_factory.mktemp("cell")
    return ReferenceCell(folder, Reference(steps=12), "full_snapshot", {}, {"kill": Kill(), **faults})


def proofs(cell: ReferenceCell, ran: Ran, plan: str) -> list[str]:
    return [landed.how for landed in landings(ran.record, parse_plan(plan), cell.setup)]


@pytest.mark.parametrize("what", ["prompt", "tools"])
def test_a_new_prompt_and_new_tools_are_no_difference_by_themselves(cell: ReferenceCell, what: str) -> None:
    plan = f"{what}@6/after_act+kill@9/before_act"
    ran = cell.run(plan)
    assert proofs(cell, ran, plan) == ["killed, came back as another release", "killed"]
    before, after = ([a for a in ran.record.asked if (a.attempt > 1) is later] for later in (False, True))
    assert {a.tools for a in before}.isdisjoint({a.tools for a in after}) is (what == "tools")
    assert {a.beginning for a in before}.isdisjoint({a.beginning for a in after}) is (what == "prompt")
    assert ran.broken() == {}


def test_without_a_release_the_same_prompts_would_be_a_difference(cell: ReferenceCell) -> None:
    ran = cell.run("prompt@6/after_act")
    facts = Reference(steps=12).facts(SEED)

    def outcome(events: list[AnyEvent]) -> Outcome:
        return State().check(Record(events), ran.reference, Terms(), facts).outcome

    assert outcome(list(ran.record.events)) is Outcome.PASS
    assert outcome([event for event in ran.record.events if not isinstance(event, Released)]) is Outcome.FAIL
    # and from the release on, only the system's message may be another
    changed = [
        msgspec.structs.replace(event, messages=msgspec.Raw(bytes(event.messages).replace(b"Turn 3", b"Turn 4")))
        if isinstance(event, Asked) and event.attempt == 2
        else event
        for event in ran.record.events
    ]
    assert outcome(changed) is Outcome.FAIL


def test_langgraph_takes_a_thread_whose_node_is_gone_for_finished_and_the_agent_refuses(cell: ReferenceCell) -> None:
    plan = "code@6/after_act"
    ran = cell.run(plan)
    assert proofs(cell, ran, plan) == ["killed, came back as another release, which ended with an error"]
    assert ran.broken()["finishes"].startswith("refused to resume")
    assert len(ran.record.asked) == 7  # it never began anew


def asked(attempt: int, release: str = "", system: str = "s1", tools: str = "t1") -> Asked:
    return Asked(
        at=3.0, attempt=attempt, turn=0, status=200, prompt="p", opening=system, messages=msgspec.Raw(b"[]"),
        goal="", tools=tools, release=release,
    )  # fmt: skip


def ended(what: str) -> list[AnyEvent]:
    return [
        Signalled(at=1.0, attempt=1, pid=7, signal=9),
        Released(at=1.5, attempt=1, release=what, system="s1", tools="t1"),
        Exited(at=2.0, attempt=1, status=-9),
    ]


LOADED = Reached(at=3.0, attempt=2, step=0, phase="before_load", key="")


@pytest.mark.parametrize(
    ("what", "later", "lands"),
    [
        ("prompt", [asked(2, "prompt", system="s2")], True),
        ("prompt", [asked(2, "prompt")], False),  # it says so, and its prompt is the old one
        ("prompt", [asked(2, system="s2")], False),
        ("tools", [asked(2, "tools", tools="t2")], True),
        ("tools", [asked(2, "tools", system="s2")], False),
        ("code", [asked(2, "code")], True),
        ("code", [asked(2)], False),
        ("code", [asked(1, "code")], False),  # the old one, before it ended
        ("code", [LOADED, Exited(at=4.0, attempt=2, status=1)], True),  # it refused
        ("code", [LOADED], True),  # it is stuck
        ("code", [], False),
    ],
)
def test_what_is_a_proof(what: Any, later: list[AnyEvent], lands: bool) -> None:
    assert (ChangedCode(what=what).landed("1/after_act", [*ended(what), *later]) is not None) is lands
    assert ChangedCode(what=what).landed("1/after_act", later) is None
