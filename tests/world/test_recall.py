"""A world that goes on for another run, from what it remembered at some instant of a recorded one."""

from __future__ import annotations

import http.client
import json
import socket
import tempfile
import threading
from collections.abc import Callable
from contextlib import suppress
from email.message import Message as Headers
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chaos.events.seen import Asked, Effected
from chaos.journal import AnyEvent, Journal
from chaos.world.memory import Memory, Past
from chaos.world.mishaps import Refuse
from chaos.world.server import World
from tests.world.conftest import TeaBrain

Request = tuple[str, tuple[str, ...], str | None]

REQUESTS = st.one_of(
    st.tuples(st.just("model"), st.lists(st.sampled_from("abc"), min_size=1, max_size=5).map(tuple), st.none()),
    st.tuples(
        st.sampled_from(("shop", "casino")), st.sampled_from((("x",), ("y",), ())), st.sampled_from((None, "k", "l"))
    ),
)


def ask(world: World, request: Request) -> tuple[int, bytes]:
    where, words, key = request
    headers = Headers()
    if where == "model":
        messages = [{"role": "user", "content": word} for word in words]
        body, path = {"model": "m", "messages": messages}, "/v1/chat/completions"
    else:
        body, path = dict.fromkeys(words, 1), f"/services/{where}/book"  # type: ignore[assignment]
        if key:
            headers["Idempotency-Key"] = key
    response = world.respond("POST", path, headers, msgspec.json.encode(body))
    assert isinstance(response.body, bytes)
    return response.status, response.body


def bare(events: list[AnyEvent]) -> list[AnyEvent]:
    return [msgspec.structs.replace(event, at=0.0) for event in events]


@settings(max_examples=60, deadline=None)
@given(st.lists(REQUESTS, max_size=10), st.lists(REQUESTS, max_size=6), st.data())
def test_from_any_instant_it_goes_on_as_the_recorded_run_did(
    recorded: list[Request], other: list[Request], data: st.DataObject
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        journal = Journal(Path(folder) / "recorded")
        world = World(TeaBrain(), journal)
        instants: list[tuple[Memory, int]] = []
        answers: list[tuple[int, bytes]] = []
        for request in recorded:
            instants.append((world.memory(), len(journal.own)))
            answers.append(ask(world, request))
        instants.append((world.memory(), len(journal.own)))
        for number, place in enumerate(data.draw(st.permutations(range(len(instants))))):
            stray = Journal(Path(folder) / f"stray-{number}")
            world.recall(instants[place][0], stray)
            world.mishaps.arm(Refuse(), 3)
            for request in other:  # what this run does is nothing to the next one
                ask(world, request)
            again = Journal(Path(folder) / f"again-{number}")
            world.recall(instants[place][0], again)
            assert [ask(world, request) for request in recorded[place:]] == answers[place:]
            assert bare(again.own) == bare(journal.own[instants[place][1] :])
            assert world.memory() == instants[-1][0]
            assert world.memory().ledger == instants[-1][0].ledger


def test_memories_differ_by_what_the_services_know_and_by_what_was_asked(tmp_path: Path) -> None:
    world = World(TeaBrain(), Journal(tmp_path / "journal"))
    book, same, free = ("shop", ("x",), "k"), ("shop", ("x",), "l"), ("shop", ("x",), None)
    seen = [world.memory()]
    for request in (book, same, free, ("model", ("a",), None), ("model", ("b",), None)):
        ask(world, request)
        seen.append(world.memory())
    assert len({(one.services, one.prompt, one.prompts) for one in seen}) == len(seen)
    assert seen[3].services == seen[4].services == seen[5].services
    before = world.memory()
    ask(world, book)  # recognised: nothing happens
    ask(world, ("model", ("b",), None))
    assert (world.memory(), world.memory().ledger) == (before, before.ledger)
    ask(world, free)  # once more without a key: no service answers otherwise for it, but it was done twice
    assert world.memory() == before
    assert world.memory().ledger != before.ledger


def test_the_order_of_effects_is_no_matter_to_the_services(tmp_path: Path) -> None:
    world = World(TeaBrain(), Journal(tmp_path / "journal"))
    start, requests = world.memory(), [("shop", ("x",), "k"), ("casino", ("y",), "l")]
    seen = []
    for order in (requests, requests[::-1]):
        world.recall(start, Journal(tmp_path / "again"))
        for request in order:
            ask(world, request)
        seen.append((world.memory().services, world.memory().ledger))
    assert seen[0] == seen[1]


def test_all_that_was_armed_is_gone(tmp_path: Path) -> None:
    world = World(TeaBrain(), Journal(tmp_path / "journal"))
    world.mishaps.arm(Refuse(), 5)
    world.window.arm(1)
    assert ask(world, ("model", ("break",), None))[0] == 429
    world.failure = KeyError("x")
    world.recall(world.memory(), Journal(tmp_path / "again"))
    assert world.failure is None
    assert ask(world, ("model", ("a",), None))[0] == 200


def test_the_port_stays_and_dead_agents_are_cut_off(tmp_path: Path) -> None:
    first, second = Journal(tmp_path / "first"), Journal(tmp_path / "second")
    with World(TeaBrain(), first) as world:
        port, other = world.port, world.open_door()
        world.door.attempt = 1  # it was taken for dead
        old = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
        old.request("POST", "/services/shop/book", b'{"x": 1}')
        assert old.getresponse().read()
        late = socket.create_connection(("127.0.0.1", port), timeout=20)
        late.sendall(b"POST /services/shop/book HTTP/1.1\r\nContent-Length: 8\r\n\r\n")  # the rest never comes
        world.recall(world.memory(), second)
        second.attempt = 7
        assert old.sock is not None
        for cut in (late, old.sock):
            with suppress(ConnectionResetError):  # what the server had not read yet makes it a reset
                assert cut.recv(1) == b""
        new = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
        new.request("POST", "/services/shop/book", b'{"z": 1}')
        assert json.loads(new.getresponse().read())["id"] == "T-1"
        assert world.port == port
        with pytest.raises(OSError, match=r"refused|reset"):
            socket.create_connection(("127.0.0.1", other.port), timeout=20)
        late.close(), old.close(), new.close()
    assert [(event.attempt, event.payload) for event in second.own if isinstance(event, Effected)] == [(7, '{"z":1}')]
    assert len(first.own) == 1


def test_a_request_that_is_under_way_when_its_run_is_over_belongs_to_no_other(tmp_path: Path) -> None:
    brain = TeaBrain()
    brain.hold = threading.Event()
    first, second = Journal(tmp_path / "first"), Journal(tmp_path / "second")
    with World(brain, first) as world:
        failed: list[BaseException] = []

        def post() -> None:
            try:
                connection = http.client.HTTPConnection("127.0.0.1", world.port, timeout=20)
                connection.request("POST", "/v1/chat/completions", body("hello"))
                connection.getresponse()
            except (OSError, http.client.HTTPException) as error:
                failed.append(error)

        asking = threading.Thread(target=post)
        asking.start()
        wait(lambda: world.door.silent() == 0.0)
        world.recall(world.memory(), second)
        brain.hold.set()
        asking.join(20)
        wait(lambda: world.door.silent() > 0.0)
    assert failed
    assert (first.own, second.own) == ([], [])


def body(word: str) -> bytes:
    return msgspec.json.encode({"model": "m", "messages": [{"role": "user", "content": word}]})


def wait(until: Callable[[], bool]) -> None:
    pause = threading.Event()
    for _ in range(2000):
        if until():
            return
        pause.wait(0.005)
    raise AssertionError("it never came")


@given(st.lists(st.tuples(st.integers(0, 5), st.integers()), max_size=20), st.integers(0, 20), st.integers(0, 20))
def test_a_past_at_an_instant_is_what_it_was(entries: list[tuple[int, int]], first: int, second: int) -> None:
    past: Past[int, int] = Past()
    right: dict[int, int] = {}
    for number, (key, value) in enumerate(entries):
        if number == first:
            branch, expected = Past(past.now()), dict(right)
        past.add(key, value)
        right.setdefault(key, value)
    if first >= len(entries):
        branch, expected = Past(past.now()), dict(right)
    for key, value in entries[:second]:
        branch.add(key, -value)
        expected.setdefault(key, -value)
    for kept, wanted in ((past, right), (branch, expected)):
        assert {key: kept.get(key) for key in range(6) if key in kept} == wanted
        assert {key: kept.now().get(key) for key in range(6) if key in kept.now()} == wanted


def test_asked_messages_that_the_prefix_had_are_not_journalled_again(tmp_path: Path) -> None:
    world = World(TeaBrain(), Journal(tmp_path / "journal"))
    ask(world, ("model", ("a", "b"), None))
    memory = world.memory()
    ask(world, ("model", ("a", "b", "c"), None))
    again = Journal(tmp_path / "again")
    world.recall(memory, again)
    ask(world, ("model", ("a", "b", "c", "d"), None))
    (asked,) = (event for event in again.own if isinstance(event, Asked))
    new: Any = msgspec.json.decode(asked.messages)
    assert [message["content"] for message in new] == ["c", "d"]
