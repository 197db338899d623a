"""Agents with the providers' own SDKs, streaming, under faults of the model; and a model that was recorded."""

from __future__ import annotations

from contextlib import closing
from http.client import HTTPMessage
from pathlib import Path
from typing import Any

import msgspec
import pytest

from chaos.campaign import Cell, Runner
from chaos.errors import ScenarioError
from chaos.events.seen import Asked
from chaos.journal import Journal
from chaos.results import CellResult
from chaos.scenario.loader import load
from chaos.targets.command import Command
from chaos.targets.command.recorded import Recorded, cassette
from chaos.targets.command.script import Script, Turn
from chaos.world import Message, steady_of, turn_of
from chaos.world.cassette import Exchange
from chaos.world.server import World
from chaos.world.volatile import Volatile
from tests.targets.test_command import SHIPPED

AGENT = Path(__file__).parent / "agents" / "sdks.py"
PACKAGES = {"responses": "openai", "gemini": "google.genai"}
SEED = 11


def scenario(folder: Path, provider: str, faults: str) -> Path:
    text = SHIPPED.read_text().partition("faults:\n")[0]
    text = text.replace("${{ here }}/own_agent/booking.py", f'{AGENT}", "{provider}')
    path = folder / "booking.chaos.yaml"
    path.write_text(text + faults)
    return path


def cells(folder: Path, path: Path) -> dict[str, CellResult]:
    """Run the cells of the scenario in *path*."""
    scenario, out = load(path), folder / "out"
    out.mkdir()
    with closing(Runner(out, "test", SEED)) as runner:
        return {one.label: runner.run_cell(Cell(scenario, scenario.strategies[0], one)) for one in scenario.faults}


@pytest.mark.parametrize(
    ("provider", "fault"),
    [("responses", "stream_cut, how: truncated"), ("gemini", "malformed_reply, how: bad_arguments")],
)
def test_one_with_a_providers_sdk_recovers(provider: str, fault: str, tmp_path: Path) -> None:
    """One fault each, of those that look different at each provider; `tests/world` has the others."""
    pytest.importorskip(PACKAGES[provider], reason=f"{PACKAGES[provider]} is not installed")
    faults = f"faults:\n  - {{kind: {fault}, at: {{operation: model_call, n: 2}}}}\n"
    (cell,) = cells(tmp_path, scenario(tmp_path, provider, faults)).values()
    assert (str(cell.verdict), cell.landed, dict(cell.findings)) == ("recovered", 1, {})


def shown(turn: int, *calls: str) -> Message:
    """Return the answer of a script's *turn* as a prompt shows it."""
    made: Any = [
        {"id": f"call_{turn}_{place}", "type": "function", "function": {"name": name, "arguments": "{}"}}
        for place, name in enumerate(calls)
    ]
    return Message(role="assistant", tool_calls=made)


@pytest.mark.parametrize(
    ("answers", "turn"),
    [
        ([], 0),
        ([shown(0, "find"), shown(1, "book")], 2),
        ([shown(1, "book")], 2),
        ([Message(role="assistant", content="(summary)"), shown(4, "pay", "find")], 5),
        ([shown(4, "pay"), Message(role="assistant", content="Done.")], 6),
        ([shown(0, "find"), shown(0, "find")], 1),
        ([Message(role="assistant", content="Hm."), Message(role="assistant", content="Done.")], 2),
    ],
)
def test_a_script_knows_its_turn_after_a_compaction(answers: list[Message], turn: int) -> None:
    script = Script([Turn(say=f"turn {number}") for number in range(7)], {}, "")
    prompt = [Message(role="user", content="go"), *answers]
    assert turn_of(script, prompt) == turn
    assert script.reply(prompt).content == f"turn {turn}"


def exchange(text: str, said: str) -> bytes:
    request = {"model": "m", "messages": [{"role": "user", "content": text}]}
    reply = {"choices": [{"message": {"role": "assistant", "content": said}}]}
    return msgspec.json.encode(Exchange("/v1/chat/completions", request=request, status=200, reply=reply)) + b"\n"


def test_a_recorded_model_says_what_it_said_and_nothing_else(tmp_path: Path) -> None:
    path, volatile = tmp_path / "talk.jsonl", Volatile((r"\d\d:\d\d",))
    path.write_bytes(exchange("hi", "hello") + exchange("it is 12:31", "late"))
    target = Command(run=("true",), cassette=str(path), volatile_prompts=volatile.patterns)
    brain = target.brain(0)
    assert isinstance(brain, Recorded) and target.steps == 2
    at: Any = [{"role": "user", "content": "it is 14:05"}]
    assert (turn_of(brain, at), brain.reply(at).content) == (1, "late")
    assert steady_of(brain, at)[0].get("content") == "it is (volatile)"
    other: Any = [{"role": "user", "content": "it is noon"}]
    with pytest.raises(ValueError, match=r"no such prompt in talk.jsonl; .* is 'user: it is noon' here"):
        brain.reply(other)
    with closing(Journal(tmp_path / "journal.jsonl")) as kept, World(brain, kept) as world:
        for text, status in (("it is noon", 400), ("it is 14:05", 200), ("it is 23:59", 200)):
            body = msgspec.json.encode({"model": "m", "messages": [{"role": "user", "content": text}]})
            answer = world.respond("POST", "/v1/chat/completions", HTTPMessage(), body)
            assert answer.status == status and (status == 200 or b"no such prompt in talk.jsonl" in bytes(answer.body))
    noon, *times = [event for event in kept.events if isinstance(event, Asked)]
    assert {event.prompt for event in times} == {times[0].prompt} != {noon.prompt}, "masked before they are compared"
    path.write_bytes(exchange("it is 12:31", "early"))
    assert cassette(str(path), volatile) is not brain.cassette and target.brain(0).reply(at).content == "early"


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"cassette": "none.jsonl"}, "target.command.cassette: no file none.jsonl; `pytest-chaos record` writes it"),
        ({"cassette": "x", "turns": (Turn(say="hi"),)}, "by its turns or from its cassette; give one of them"),
        ({"volatile_prompts": ("(",)}, "volatile_prompts: no regular expression: '('"),
        ({"volatile_prompts": ("",)}, "an empty regular expression is everywhere"),
    ],
)
def test_mistakes_are_told(fields: dict[str, Any], told: str) -> None:
    with pytest.raises(ScenarioError) as error:
        Command(run=("true",), **fields).strategy("own", {})
    assert told in str(error.value)
