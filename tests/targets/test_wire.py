"""The client against a real world: what it waits for, what it asks again, what it never takes for an answer."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaos.events.seen import Asked
from chaos.targets.reference.agent import Completion, start, think
from chaos.targets.reference.model import Model, PromptTooLong, parse
from chaos.targets.reference.stream import Stream
from chaos.targets.reference.wire import WAIT_FILE, Garbled, Unavailable
from chaos.targets.reference.workloads.quarterly_sales import GOAL
from chaos.world import Reply, openai_chat
from chaos.world.mishaps import Cut, Hold, Refuse
from chaos.world.openai_chat import Completion as Rendered


@pytest.fixture
def ask(bench: Any) -> Callable[..., Completion]:
    def once(**options: Any) -> Completion:
        model = Model(bench.env({}), **options)
        try:
            return model.ask(think(start(GOAL)))
        finally:
            model.close()

    return once


def times(bench: Any) -> list[float]:
    return [event.at for event in bench.journal.events if isinstance(event, Asked)]


def test_a_wait_outlives_the_process_that_was_told(ask: Any, bench: Any, tmp_path: Path) -> None:
    waits = tmp_path / WAIT_FILE

    class Killed(BaseException):
        pass

    def kill() -> None:
        assert float(waits.read_text()) > time.time()
        raise Killed

    bench.world.mishaps.arm(Refuse(retry_after=0.3))
    model = Model(bench.env({}), waits=waits)
    with pytest.raises(Killed):
        model.ask(think(start(GOAL)), kill)
    model.close()
    ask(waits=waits)
    refused, again = times(bench)
    assert again - refused >= 0.3
    assert not waits.exists()


def test_a_wait_file_that_makes_no_sense_is_no_wait(ask: Any, tmp_path: Path) -> None:
    (tmp_path / WAIT_FILE).write_text("17e")
    assert ask(waits=tmp_path / WAIT_FILE).message["role"] == "assistant"


def test_who_is_told_to_wait_too_long_says_so_and_asks_no_more(ask: Any, bench: Any, tmp_path: Path) -> None:
    bench.world.mishaps.arm(Refuse(retry_after=3600.0))
    for _ in range(2):
        with pytest.raises(Unavailable, match="asked to wait for 3"):
            ask(waits=tmp_path / WAIT_FILE)
    assert len(times(bench)) == 1


def test_a_used_up_quota_is_not_asked_for_again(ask: Any, bench: Any) -> None:
    bench.world.mishaps.arm(Refuse(quota=True), 2)
    with pytest.raises(Unavailable, match="insufficient_quota"):
        ask()
    assert len(times(bench)) == 1


def test_a_prompt_that_is_too_long_is_an_error_of_its_own(ask: Any, bench: Any) -> None:
    bench.world.window.arm(10)
    with pytest.raises(PromptTooLong, match="maximum context length"):
        ask()
    assert len(times(bench)) == 1


def test_a_time_limit_of_its_own(ask: Any, bench: Any) -> None:
    bench.world.mishaps.arm(Hold(30.0))
    began = time.monotonic()
    assert ask(timeout=0.1).message["role"] == "assistant"
    assert time.monotonic() - began < 10


def test_streamed_or_not_it_is_the_same_reply(ask: Any, bench: Any) -> None:
    whole = ask()
    bench.world.mishaps.arm(Cut(dropped=False, after=0.9))
    assert ask(stream=True) == whole
    assert [e.spoiled for e in bench.journal.events if isinstance(e, Asked)] == ["", "truncated", ""]


@given(
    content=st.text(max_size=80),
    arguments=st.lists(st.dictionaries(st.text(max_size=3), st.text(max_size=40), max_size=2), max_size=3),
    data=st.data(),
)
def test_a_stream_is_whole_or_it_is_nothing(content: str, arguments: list[Any], data: st.DataObject) -> None:
    """Cut anywhere, at any byte, it never looks whole; whole, it is what an unstreamed reply is."""
    calls: Any = tuple(
        {"id": f"c{n}", "type": "function", "function": {"name": "f", "arguments": json.dumps(one)}}
        for n, one in enumerate(arguments)
    )
    done = Rendered("m", "p", Reply(content, calls), 3, 4, include_usage=True)
    events = b"".join(openai_chat.events(done))
    stream = Stream()
    for line in events.splitlines(keepends=True):
        stream.feed(line)
    assert stream.ended and stream.completion() == parse(openai_chat.render(done))
    cut = Stream()
    end = data.draw(st.integers(0, len(events) - len(b"[DONE]\n\n")))
    try:
        for line in events[:end].splitlines(keepends=True):
            cut.feed(line)
    except Garbled:
        return
    assert not cut.ended
