"""The store's view of a thread agrees with what LangGraph itself reads back."""

import shutil
import sqlite3
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest
from langgraph.channels import DeltaChannel
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, StateGraph

from chaos.stores.langgraph_sqlite import LanggraphSqlite

TURNS = 7
CONFIG: Any = {"configurable": {"thread_id": "t"}, "recursion_limit": 100}


def extend(state: list[str], writes: list[list[str]]) -> list[str]:
    return [*state, *(item for write in writes for item in write)]


def compiled(durable: Path, every: int) -> Any:
    class State(TypedDict):
        messages: Annotated[list[str], DeltaChannel(extend, snapshot_frequency=every)]
        steps: int

    def turn(state: State) -> dict[str, object]:
        return {"messages": [f"message {state['steps']}"], "steps": state["steps"] + 1}

    graph = StateGraph(State).add_node("turn", turn).add_edge(START, "turn")
    graph.add_conditional_edges("turn", lambda state: "turn" if state["steps"] < TURNS else END)
    connection = sqlite3.connect(durable / "state.db", check_same_thread=False)
    return graph.compile(checkpointer=SqliteSaver(connection))


def messages(durable: Path, every: int) -> list[str]:
    found: list[str] = compiled(durable, every).get_state(CONFIG).values["messages"]
    return found


@pytest.fixture(params=[3, 100])
def every(request: pytest.FixtureRequest) -> int:
    return int(request.param)


@pytest.fixture
def durable(tmp_path: Path, every: int) -> Path:
    compiled(tmp_path, every).invoke({"messages": ["goal"], "steps": 0}, CONFIG, durability="sync")
    return tmp_path


def test_no_store_has_no_deltas(tmp_path: Path) -> None:
    assert LanggraphSqlite().deltas(tmp_path) == ()


def test_every_message_is_one_delta(durable: Path) -> None:
    assert len(LanggraphSqlite().deltas(durable)) == 1 + TURNS


def test_exactly_the_live_deltas_matter(durable: Path, every: int) -> None:
    """Deleting a delta changes what LangGraph reads if and only if the store calls it live."""
    store, whole = LanggraphSqlite(), messages(durable, every)
    deltas = store.deltas(durable)
    assert any(delta.live for delta in deltas)
    assert any(not delta.live for delta in deltas) is (every == 3)
    for delta in deltas:
        copy = shutil.copytree(durable, durable / "copies" / str(delta.order), ignore=shutil.ignore_patterns("copies"))
        store.delete(copy, delta)
        assert (messages(copy, every) != whole) is delta.live, delta
        assert len(store.deltas(copy)) == len(deltas) - 1


def test_write_and_read_back(durable: Path) -> None:
    store = LanggraphSqlite()
    delta = store.deltas(durable)[-1]
    store.write(durable, delta, b"\x91\xa3new")
    assert store.read(durable, delta) == b"\x91\xa3new"


def test_a_duplicate_is_read_twice(durable: Path, every: int) -> None:
    store, whole = LanggraphSqlite(), messages(durable, every)
    live = next(delta for delta in store.deltas(durable) if delta.live)
    store.duplicate(durable, live)
    assert len(messages(durable, every)) == len(whole) + 1
