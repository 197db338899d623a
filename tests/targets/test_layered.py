"""Three layers restored to one step: at every phase, by every fault, and when one of the layers is damaged."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from chaos.durable import Durable
from chaos.errors import ScenarioError
from chaos.faults import Scene
from chaos.faults.corrupt_delta import CorruptDelta
from chaos.faults.kill import Kill
from chaos.targets.reference import Reference
from chaos.targets.reference.agent import Completion, State, canonical, fold, start
from chaos.targets.reference.history import FILE
from chaos.targets.reference.semantic import criu
from chaos.targets.reference.semantic.layers import redone
from chaos.targets.reference.semantic.steps import Entry, Line, chained, read, state_of
from chaos.targets.reference.snapshot import CorruptStore
from chaos.targets.reference.workloads.script import beats
from chaos.world import Message, ToolCall
from tests.cells import ReferenceCell

STEPS = 14
BEATS = beats(STEPS)
MAIL, ENGINE = BEATS.index("kickoff_mail"), BEATS.index("engine")
QUERY = ENGINE + 1
PHASES = ("before_think", "before_act", "after_act", "during_commit", "after_commit")
HOW = ("flip", "truncate", "delete", "duplicate")

needs_criu = pytest.mark.skipif(bool(criu.trouble(criu.named())), reason=criu.trouble(criu.named()) or "-")


@dataclass(frozen=True)
class Rewritten(Kill):
    """The agent is killed, and the last line of its log tells another result, with a right checksum."""

    def inject(self, scene: Scene) -> None:
        super().inject(scene)
        log = read(scene.durable.folder)
        entry = log[-1]["entry"]
        entry["messages"][-1]["content"] = "another result"
        log[-1]["chain"] = chained(log[-2]["chain"], entry)
        (scene.durable.folder / FILE).write_bytes(b"".join(canonical(line) + b"\n" for line in log))


@dataclass(frozen=True)
class Damaged(Kill):
    """The agent is killed, and a byte in the middle of its log is another one."""

    def inject(self, scene: Scene) -> None:
        super().inject(scene)
        log = scene.durable.folder / FILE
        data = bytearray(log.read_bytes())
        data[len(data) // 2] ^= 1
        log.write_bytes(data)


@pytest.fixture(scope="module")
def cell(tmp_path_factory: pytest.TempPathFactory) -> ReferenceCell:
    """A sandbox whose processes are recorded, every decision judged."""
    options = {"processes": "manifest", "audit": True}
    made = ReferenceCell(tmp_path_factory.mktemp("layered"), Reference(steps=STEPS), "layered", options)
    corrupt = {how: CorruptDelta(how=how) for how in HOW}  # type: ignore[arg-type]
    return replace(made, faults={**made.faults, **corrupt, "rewritten": Rewritten(), "damaged": Damaged()})


# -- redoing, without a sandbox


def log_of(tools: Sequence[str]) -> tuple[list[Line], State]:
    """Return the log of an agent that called *tools*, and its last state."""
    state = start("goal")
    lines = [Line(chain="", entry=Entry(**{**state, "messages": state["messages"]}))]
    for number, tool in enumerate(tools):
        before = len(state["messages"])
        called = ToolCall(id=f"c{number}", type="function", function={"name": tool, "arguments": "{}"})
        reply = Message(role="assistant", content="", tool_calls=[called])
        state = fold(state, Completion(reply, 5 + number), [f"result of {tool}"])
        lines.append(Line(chain="", entry=Entry(**{**state, "messages": state["messages"][before:]})))
    return lines, state


def test_only_calls_in_the_sandbox_are_redone() -> None:
    lines, last = log_of(["read_file", "call_service", "run"])
    acted: list[str] = []

    def act(call: ToolCall) -> str:
        acted.append(call["function"]["name"])
        return f"result of {acted[-1]}"

    states = redone(lines, 1, act)
    assert acted == ["run"] and len(states) == 3
    assert states[0] == state_of(lines[:2]) and states[-1] == last
    assert redone(lines, 3, act) == [last] and acted == ["run"]


def test_another_result_shows() -> None:
    lines, last = log_of(["run"])
    (_, state) = redone(lines, 0, lambda call: "error: new")
    assert state != last and state["messages"][-1]["content"] == "error: new"
    assert state["tokens"] == last["tokens"] and state["steps"] == last["steps"]


# -- options


def test_wrong_options_are_told() -> None:
    with pytest.raises(ScenarioError, match="every must be at least 1"):
        Reference().strategy("layered", {"every": 0})
    with pytest.raises(ScenarioError, match="processes must be auto, criu or manifest"):
        Reference().strategy("layered", {"processes": "none"})


# -- real runs


@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize(("fault", "step"), [("kill", MAIL), ("evict", ENGINE)])
def test_only_what_the_log_lacks_is_done_again(cell: ReferenceCell, fault: str, step: int, phase: str) -> None:
    ran = cell.run(f"{fault}@{step}/{phase}")
    unrecorded = phase == "after_act"
    assert set(ran.broken()) == ({"effects"} if unrecorded and step == MAIL else set())
    assert ran.rpo == unrecorded
    (restored,) = ran.told("restore")  # the sandbox itself may be a step behind
    assert restored["turns"] == (step - 1 if phase == "before_think" else step)
    (turns,) = ran.told("turns")
    assert turns["false_negatives"] == 0


def test_recovery_is_broken_again(cell: ReferenceCell) -> None:
    plan = f"evict@{QUERY}/during_commit+kill@recovery/after_load+evict@recovery/{QUERY + 2}/after_commit+kill@finished"
    ran = cell.run(plan)
    assert not ran.broken() and ran.rpo == 0
    assert [told["turns"] for told in ran.told("restore")] == [QUERY, QUERY, QUERY + 2, STEPS]


@pytest.mark.parametrize("how", HOW)
def test_damaged_deltas_are_healed_from_the_log(cell: ReferenceCell, how: str) -> None:
    ran = cell.run(f"{how}@{QUERY}/during_commit")
    assert not ran.broken() and ran.rpo == 0 and ran.record.damages


def test_a_damaged_log_is_refused(cell: ReferenceCell) -> None:
    ran = cell.run(f"damaged@{QUERY}/before_act")
    assert ran.record.ended == "gave up"
    assert "CorruptStore" in ran.record.exits[-1].log


@pytest.mark.parametrize("phase", ["during_commit", "after_commit"])
def test_a_step_that_comes_out_otherwise_when_it_is_redone_has_its_new_result(cell: ReferenceCell, phase: str) -> None:
    """The model has not seen the old one; thread and log are brought to the new one."""
    ran = cell.run(f"rewritten@{QUERY}/{phase}")
    assert not ran.broken() and ran.rpo == 0


def test_layers_that_do_not_fit_together_are_refused(tmp_path: Path) -> None:
    load = Reference().strategy("layered", {}).load  # type: ignore[attr-defined]
    lines, _ = log_of(["run", "run"])
    chain, text = "", b""
    for line in lines:
        chain = chained(chain, line["entry"])
        text += json.dumps({"chain": chain, "entry": line["entry"]}).encode() + b"\n"
    (tmp_path / FILE).write_bytes(text)
    with pytest.raises(CorruptStore, match="there is no manifest"):
        load(Durable(tmp_path))
    (tmp_path / FILE).write_bytes(text.split(b"\n")[0] + b"\n")
    assert load(Durable(tmp_path)) == start("goal")


@needs_criu
def test_memory_is_redone_on_top_of_what_came_back(tmp_path: Path) -> None:
    """The engine has removed the table that it answers from: its memory comes back, and the last step is redone."""
    target = Reference(workload="live_engine", steps=STEPS)
    cell = ReferenceCell(tmp_path, target, "layered", {"processes": "criu"})
    for plan in (f"evict@{ENGINE}/after_commit", f"evict@{QUERY}/during_commit+evict@recovery/{QUERY + 2}/after_act"):
        ran = cell.run(plan)
        assert not ran.broken()
        assert all(told["how"] == "restored" for told in ran.told("processes"))
