"""Two doors into one world: who came by which is known, and when somebody last came."""

from __future__ import annotations

import threading
import time
import urllib.request

import pytest

from chaos.events.seen import Effected
from chaos.journal import Journal
from chaos.world import Message, Reply
from chaos.world.door import Door
from chaos.world.server import World
from tests import toy


class Thinking(toy.CountingBrain):
    """Answers when it is let."""

    def __init__(self) -> None:
        self.asked, self.may = threading.Event(), threading.Event()

    def reply(self, messages: list[Message]) -> Reply:  # type: ignore[override]
        self.asked.set()
        assert self.may.wait(20)
        return Reply("yes")


def post(door: Door, path: str, body: bytes = b"{}") -> int:
    request = urllib.request.Request(f"http://127.0.0.1:{door.port}{path}", body, method="POST")
    with urllib.request.urlopen(request, timeout=20) as answer:
        return int(answer.status)


def test_what_comes_by_a_door_belongs_to_its_attempt(journal: Journal) -> None:
    with World(toy.CountingBrain(), journal) as world:
        first, second = world.door, world.open_door()
        journal.attempt = 1
        post(first, "/services/email/send")
        journal.attempt, first.attempt = 2, 1  # taken for dead
        post(second, "/services/email/send")
        post(first, "/services/email/send")
    assert [event.attempt for event in journal.events if isinstance(event, Effected)] == [1, 2, 1]


def test_the_environment_names_the_door(journal: Journal) -> None:
    with World(toy.CountingBrain(), journal) as world:
        second = world.open_door()
        assert second.port != world.door.port
        assert f":{world.door.port}/" in world.env()["OPENAI_BASE_URL"]
        for variable in ("OPENAI_BASE_URL", "ANTHROPIC_BASE_URL", "CHAOS_SERVICES_URL"):
            assert f":{second.port}" in world.env(second)[variable]


def test_a_closed_world_has_no_door_left_open(journal: Journal) -> None:
    with World(toy.CountingBrain(), journal) as world:
        doors = world.door, world.open_door()
    for door in doors:
        with pytest.raises(OSError, match=r"refused|reset"):
            post(door, "/services/email/send")


def test_somebody_who_waits_for_an_answer_is_not_silent(journal: Journal) -> None:
    brain = Thinking()
    with World(brain, journal) as world:
        door = world.door
        time.sleep(0.02)
        assert door.silent() >= 0.02
        body = b'{"model": "m", "messages": [{"role": "user", "content": "?"}]}'
        asking = threading.Thread(target=post, args=(door, "/v1/chat/completions", body))
        asking.start()
        assert brain.asked.wait(20)
        assert door.silent() == 0.0
        brain.may.set()
        asking.join(20)
        time.sleep(0.02)
        assert door.silent() > 0.0


def test_acting_for_another_attempt_is_the_thread_s_own_matter(journal: Journal) -> None:
    journal.attempt = 5
    with journal.acting(2):
        journal.add(Effected, service="a", operation="b", identity="c", payload="")
        other = threading.Thread(
            target=lambda: journal.add(Effected, service="a", operation="b", identity="c", payload="")
        )
        other.start()
        other.join()
        with journal.acting(0):
            journal.add(Effected, service="a", operation="b", identity="c", payload="")
    journal.add(Effected, service="a", operation="b", identity="c", payload="")
    assert [event.attempt for event in journal.events] == [2, 5, 5, 5]
