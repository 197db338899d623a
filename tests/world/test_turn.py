"""The turn of a prompt: counted where it shows the whole conversation, told by the brain where it need not."""

from __future__ import annotations

from http.client import HTTPConnection
from typing import Any

from chaos.events.seen import Asked
from chaos.journal import Journal
from chaos.world import Message, turn_of
from chaos.world.server import World
from tests.world.conftest import TeaBrain

PROMPT: list[Message] = [
    {"role": "user", "content": "find the price of tea"},
    {"role": "assistant", "content": "turn 0"},
    {"role": "user", "content": "and then?"},
]


class Placed(TeaBrain):
    """A brain that knows where a prompt belongs."""

    def turn(self, messages: Any) -> int:
        return 41


def test_without_a_word_from_the_brain_the_answers_are_counted() -> None:
    assert turn_of(TeaBrain(), PROMPT) == 1
    assert turn_of(TeaBrain(), []) == 0


def test_a_brain_that_knows_the_turn_is_believed_everywhere(tmp_path: Any) -> None:
    assert turn_of(Placed(), PROMPT) == 41
    journal = Journal(tmp_path / "journal.jsonl")
    thought: list[int] = []
    with World(Placed(), journal) as world:
        world.thinking = thought.append
        body = b'{"model": "m", "messages": [{"role": "user", "content": "find the price of tea"}]}'
        connection = HTTPConnection("127.0.0.1", world.port, timeout=10)
        connection.request("POST", "/v1/chat/completions", body)
        assert connection.getresponse().status == 200
        connection.close()
    journal.close()
    assert [event.turn for event in journal.events if isinstance(event, Asked)] == [41]
    assert thought == [41]
