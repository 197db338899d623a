"""Records add up to the state, a replay is silent, and a runtime's threads never keep the agent from ending."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaos.durable import Durable
from chaos.targets.reference import CONFIG, Reference
from chaos.targets.reference.agent import Session, State, canonical, digest, done, start
from chaos.targets.reference.incarnation import Agent
from chaos.targets.reference.model import Model
from chaos.targets.reference.replay import Foreground, Recorded, Replay, Stopped, applied, record
from chaos.targets.reference.tools import Tools, Zones
from chaos.world import Message

texts = st.text(max_size=20)
messages = st.builds(
    lambda role, content: Message(role=role, content=content), st.sampled_from(["user", "tool"]), texts
)
sessions = st.builds(
    lambda cwd, environment, packages, services: Session(
        cwd=cwd, environment=environment, packages=packages, services=services
    ),
    texts,
    st.dictionaries(texts, texts, max_size=3),
    st.lists(texts, max_size=3),
    st.lists(st.lists(texts, max_size=3), max_size=3),
)
states = st.builds(
    lambda goal, messages, steps, tokens, session: State(
        goal=goal, messages=messages, steps=steps, tokens=tokens, session=session
    ),
    texts,
    st.lists(messages),
    st.integers(0, 99),
    st.integers(0, 99),
    sessions,
)
increments = st.tuples(st.lists(messages, max_size=4), st.integers(0, 9), sessions)


def stepped(state: State, new: list[Message], tokens: int, session: Session) -> State:
    """Return the state after a step; it is a new object, as that of `fold` is."""
    return State(
        goal=state["goal"],
        messages=[*state["messages"], *new],
        steps=state["steps"] + 1,
        tokens=state["tokens"] + tokens,
        session=session,
    )


@given(begin=states, steps=st.lists(increments, max_size=6))
def test_records_that_went_through_json_add_up_to_the_state(begin: State, steps: list[Any]) -> None:
    state, replayed = begin, begin
    for new, tokens, session in steps:
        after = stepped(state, new, tokens, session)
        replayed = applied(replayed, json.loads(json.dumps(record(state, after))))
        state = after
    assert replayed == state and digest(replayed) == digest(state)


@given(before=states, more=states, step=increments)
def test_a_record_does_not_grow_with_the_conversation(before: State, more: State, step: Any) -> None:
    longer = State(**{**before, "messages": [*before["messages"], *more["messages"]]})  # type: ignore[typeddict-item]
    assert canonical(record(before, stepped(before, *step))) == canonical(record(longer, stepped(longer, *step)))


@pytest.fixture
def agents(make_bench: Callable[..., Any]) -> Iterator[Callable[[], Agent]]:
    """Return a maker of the incarnations of one real agent in this process, at work in real zones."""
    bench = make_bench(Reference(steps=12))
    launch = bench.target.launch(Reference().strategy("restart", {}), 7, bench.root)
    env = bench.env(launch.env)
    zones = Zones(*(Path(env[f"CHAOS_{zone}"]) for zone in ("DURABLE", "WORKSPACE", "TMP", "ASSETS")))
    with ExitStack() as stack:

        def make() -> Agent:
            tools = Tools(zones, "t-1", env)
            agent = Agent(json.loads(env[CONFIG]), zones, Durable(zones.durable), "t-1", Model(env), tools)
            stack.callback(agent.close)
            return agent

        yield make


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """Return what will be announced."""
    said: list[tuple[str, int]] = []
    monkeypatch.setattr(
        "chaos.targets.reference.incarnation.point", lambda phase, step, **more: said.append((phase, step))
    )
    return said


def run(agent: Agent, log: list[Recorded], steps: int) -> State:
    """Be the runtime: answer from *log* as far as it goes, and do *steps* steps after that, or all to the end."""
    replay, state, place = Replay(agent), start(agent.goal), 0
    while not done(state):
        if place == len(log):
            if not steps:
                return state
            steps -= 1
            log.append(json.loads(json.dumps(replay.execute(state))))
        state = replay.returned(state, log[place])
        place += 1
    replay.finished(state)
    return state


STEP = ("before_think", "before_act", "after_act", "during_commit", "after_commit")


def test_only_what_is_done_is_announced(agents: Callable[[], Agent], said: list[tuple[str, int]]) -> None:
    log: list[Recorded] = []
    run(agents(), log, 3)
    assert said == [("before_load", 0), ("after_load", 0), *((phase, step) for step in range(3) for phase in STEP)]
    said.clear()
    final = run(agents(), log, -1)
    rest = [(phase, step) for step in range(3, 12) for phase in STEP]
    assert said == [("before_load", 0), ("after_load", 3), *rest, ("finished", 12)]
    said.clear()
    assert run(agents(), log, -1) == final
    assert said == [("before_load", 0), ("after_load", 12), ("finished", 12)]


def test_a_step_that_is_tried_twice_is_committed_once(agents: Callable[[], Agent], said: list[tuple[str, int]]) -> None:
    agent = agents()
    replay, state = Replay(agent), start(agent.goal)
    replay.execute(state)
    state = replay.returned(state, replay.execute(state))
    replay.execute(state)
    replay.committed()
    replay.committed()
    assert said[2:] == [*((phase, 0) for phase in STEP[:-1]), *((phase, 0) for phase in STEP), *((p, 1) for p in STEP)]


def test_who_was_overtaken_does_not_say_that_its_step_is_on_record(
    agents: Callable[[], Agent], said: list[tuple[str, int]]
) -> None:
    """Another worker has gone on from the same record: which of the two outcomes was taken is not known here."""
    agent, log = agents(), list[Recorded]()
    overtaken = Replay(agent)
    overtaken.execute(start(agent.goal))
    final = run(agents(), log, -1)
    said.clear()
    overtaken.finished(final)
    assert said == [("finished", 12)]


def in_a_thread(work: Callable[[], Any]) -> Future[Any]:
    """Have *work* done as a thread of a runtime does it."""
    future: Future[Any] = Future()

    def body() -> None:
        try:
            future.set_result(work())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=body, daemon=True).start()
    return future


def test_work_is_done_in_the_thread_that_serves() -> None:
    with Foreground() as foreground:
        results = [in_a_thread(lambda: foreground.do(lambda a: (a, threading.get_ident()), "x")) for _ in range(3)]
        foreground.serve(lambda: all(result.done() for result in results), 0.01)
    assert [result.result(5) for result in results] == [("x", threading.get_ident())] * 3


@pytest.mark.parametrize("error", [SystemExit(143), ValueError("gone")])
def test_an_error_ends_the_service_and_is_no_result(error: BaseException) -> None:
    def work() -> None:
        raise error

    with pytest.raises(type(error)), Foreground() as foreground:
        results = [in_a_thread(lambda: foreground.do(work)) for _ in range(2)]
        foreground.serve(lambda: False, 0.01)
    for result in [*results, in_a_thread(lambda: foreground.do(work))]:
        assert isinstance(result.exception(5), Stopped)
    assert not issubclass(Stopped, Exception), "runtimes record an Exception"
