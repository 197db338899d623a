"""Whole threads of every shape that LangGraph itself stores, on any saver: none of them may be called damaged."""

import contextlib
import operator
from collections.abc import Callable
from typing import Annotated, Any, TypedDict

from langchain_core.messages import AIMessage, HumanMessage
from langgraph.channels import DeltaChannel, EphemeralValue, Topic, UntrackedValue
from langgraph.func import entrypoint, task
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.types import Command, Overwrite, RetryPolicy, Send, interrupt

Story = Callable[[Any, Any, str], None]
"""Takes a saver, a thread's config, and a durability."""


def extend(state: list[Any], writes: list[list[Any]]) -> list[Any]:
    return [*state, *(item for write in writes for item in write)]


class Turns(TypedDict):
    """What most graphs below have; *items* is replaced by the channel under test."""

    items: list[str]
    steps: int


def channel(every: int | None) -> Any:
    """Return a whole channel for None, else a delta channel with a snapshot *every* so many updates."""
    return operator.add if every is None else DeltaChannel(extend, snapshot_frequency=every)


def state(every: int | None, **more: Any) -> Any:
    return TypedDict("State", {"items": Annotated[list[str], channel(every)], "steps": int, **more})  # type: ignore[operator]


def loop(saver: Any, every: int | None, turns: int = 5, **options: Any) -> Any:
    def turn(values: Turns) -> dict[str, object]:
        return {"items": [f"item {values['steps']}"], "steps": values["steps"] + 1}

    graph = StateGraph(state(every)).add_node("turn", turn).add_edge(START, "turn")
    graph.add_conditional_edges("turn", lambda values: "turn" if values["steps"] % turns else END)
    return graph.compile(checkpointer=saver, **options)


def given(steps: int = 0) -> dict[str, object]:
    return {"items": ["goal"], "steps": steps}


def straight(every: int | None) -> Story:
    def story(saver: Any, config: Any, durability: str) -> None:
        loop(saver, every).invoke(given(), config, durability=durability)

    return story


def conversation(every: int | None) -> Story:
    """Three inputs in turn."""

    def story(saver: Any, config: Any, durability: str) -> None:
        for _ in range(3):
            loop(saver, every).invoke(given(), config, durability=durability)

    return story


def mixed(every: int | None) -> Story:
    """One thread by runs of every durability, one of which dies in a node and is resumed by the next."""

    def story(saver: Any, config: Any, durability: str) -> None:
        app = loop(saver, every)
        for number, one in enumerate(("exit", "sync", "exit", "async", "exit", durability)):
            with contextlib.suppress(ZeroDivisionError):
                dying(saver, every, 3).invoke(given(), config, durability=one)
            app.invoke(None if number % 2 else given(), config, durability=durability)
            app.invoke(given(), config, durability=one)

    return story


def dying(saver: Any, every: int | None, at: int) -> Any:
    def turn(values: Turns) -> dict[str, object]:
        steps = values["steps"] // (1 if values["steps"] < at else 0)
        return {"items": [f"item {steps}"], "steps": steps + 1}

    graph = StateGraph(state(every)).add_node("turn", turn).add_edge(START, "turn").add_edge("turn", "turn")
    return graph.compile(checkpointer=saver)


def forked(every: int | None) -> Story:
    """Time travel, updates by hand of new and old checkpoints, copies, cleared tasks, forks of forks."""

    def story(saver: Any, config: Any, durability: str) -> None:
        app = loop(saver, every)
        app.invoke(given(), config, durability=durability)
        app.invoke(given(), config, durability=durability)
        for round_ in range(2):
            history = [one for one in app.get_state_history(config) if "steps" in one.values]
            for old in (history[-1], history[len(history) // 2], history[0]):
                app.invoke(None, old.config, durability=durability)
                app.update_state(old.config, {"items": [f"by hand {round_}"]}, as_node="turn")
                app.invoke(None, config, durability=durability)
                app.invoke({"items": ["there"], "steps": 1}, old.config, durability=durability)
            app.update_state(config, {"items": ["newest"]}, as_node="turn")
            app.update_state(config, {"items": Overwrite(["anew"])}, as_node="turn")
            app.update_state(old.config, None, as_node="__copy__")
            app.update_state(config, None, as_node="__copy__")
            app.update_state(config, [({"items": ["copied and changed"]}, "turn")], as_node="__copy__")
            app.update_state(config, {"items": ["as input"], "steps": 3}, as_node="__input__")
            app.invoke(None, config, durability=durability)
            app.update_state(config, None, as_node=END)
        app.invoke(given(), config, durability=durability)

    return story


def by_hand(every: int | None) -> Story:
    """A thread that begins with an update."""

    def story(saver: Any, config: Any, durability: str) -> None:
        app = loop(saver, every)
        app.update_state(config, {"items": ["first"], "steps": 1}, as_node="turn")
        app.update_state(config, None, as_node="__copy__")
        app.invoke(None, config, durability=durability)

    return story


def interrupted(every: int | None) -> Story:
    """Two interrupts in a node beside one that finishes, resumed, travelled back to, and resumed with an update."""

    def story(saver: Any, config: Any, durability: str) -> None:
        def ask(values: Turns) -> dict[str, object]:
            return {"items": [interrupt("one"), interrupt("two")]}

        graph = StateGraph(state(every)).add_node("ask", ask)
        graph.add_node("beside", lambda values: {"items": ["beside"]}).add_node(
            "after", lambda values: {"items": ["z"]}
        )
        graph.add_edge(START, "ask").add_edge(START, "beside").add_edge(["ask", "beside"], "after")
        app = graph.compile(checkpointer=saver)
        for _ in range(2):
            app.invoke(given(), config, durability=durability)
            app.invoke(Command(resume="a"), config, durability=durability)
            app.invoke(Command(resume="b", update={"items": ["with it"]}), config, durability=durability)
        asked = [one for one in app.get_state_history(config) if one.tasks and one.tasks[0].interrupts]
        app.invoke(None, asked[-1].config, durability=durability)
        app.invoke(Command(resume="c"), config, durability=durability)
        app.invoke(Command(resume="d"), config, durability=durability)
        app.invoke(Command(goto="after", update={"items": ["sent"]}), config, durability=durability)
        halting = graph.compile(checkpointer=saver, interrupt_before=["after"], interrupt_after=["beside"])
        for given_ in (given(), Command(resume="e"), Command(resume="f"), None, None):
            halting.invoke(given_, config, durability=durability)

    return story


def parallel(every: int | None) -> Story:
    """Nodes that write one channel at once, equal `Send`s, a node that writes twice or nothing, other channels."""

    def story(saver: Any, config: Any, durability: str) -> None:
        kinds = {
            "untracked": Annotated[str, UntrackedValue(str)], "passing": Annotated[dict, EphemeralValue(dict)],
            "topic": Annotated[list, Topic(dict)], "plan": dict, "flag": bool,
        }  # fmt: skip
        graph = StateGraph(state(every, **kinds))
        graph.add_node("fan", lambda values: Command(update={"items": ["fan"], "passing": {"a": 1}, "flag": True}))
        graph.add_node("left", lambda values: [Command(update={"items": [text]}) for text in ("l1", "l2")])
        graph.add_node(
            "right", lambda values: {"items": ["r"], "untracked": "u", "topic": {"t": 1}, "plan": {"p": [1]}}
        )
        graph.add_node("idle", lambda values: None)
        graph.add_node("piece", lambda value: {"items": [str(value)], "topic": {"piece": value}})
        graph.add_edge(START, "fan").add_edge("fan", "left").add_edge("fan", "right").add_edge("fan", "idle")
        graph.add_conditional_edges("left", lambda values: [Send("piece", 1), Send("piece", 1), Send("piece", 2)])
        app = graph.compile(checkpointer=saver)
        for _ in range(3):
            app.invoke(given(), config, durability=durability)

    return story


def failing(every: int | None) -> Story:
    """A task that fails beside one that finished, retried by hand; a node that fails once and is retried at once."""

    def story(saver: Any, config: Any, durability: str) -> None:
        broken = [True]

        def fails(values: Turns) -> dict[str, object]:
            if broken[0]:
                raise ZeroDivisionError
            return {"items": ["mended"]}

        def flickers(values: Turns) -> dict[str, object]:
            broken.append(True)
            if len(broken) % 2 == 0:
                raise ConnectionError
            return {"items": ["at last"]}

        graph = StateGraph(state(every)).add_node("fails", fails).add_node("fine", lambda values: {"items": ["fine"]})
        graph.add_node("flickers", flickers, retry_policy=RetryPolicy(initial_interval=0.001, jitter=False))
        graph.add_edge(START, "flickers").add_edge("flickers", "fails").add_edge("flickers", "fine")
        app = graph.compile(checkpointer=saver)
        for given_ in (given(), None, given(), None):
            with contextlib.suppress(ZeroDivisionError):
                app.invoke(given_, config, durability=durability)
        broken[0] = False
        app.invoke(None, config, durability=durability)
        app.invoke(given(), config, durability=durability)

    return story


def nested(every: int | None) -> Story:
    """A subgraph of each kind (with the parent's saver, with a state that outlives its call), interrupted in one."""

    def story(saver: Any, config: Any, durability: str) -> None:
        def ask(values: Turns) -> dict[str, object]:
            return {"items": [interrupt("?")]}

        inner = StateGraph(state(every)).add_node("ask", ask).add_node("work", lambda values: {"items": ["in"]})
        inner.add_edge(START, "work").add_edge("work", "ask")
        kept = StateGraph(state(every)).add_node("work", lambda values: {"items": ["kept"]}).add_edge(START, "work")
        graph = StateGraph(state(every)).add_node("call", inner.compile())
        graph.add_node("stay", kept.compile(checkpointer=True)).add_edge(START, "call").add_edge("call", "stay")
        app = graph.compile(checkpointer=saver)
        for _ in range(2):
            app.invoke(given(), config, durability=durability)
            app.invoke(Command(resume="y"), config, durability=durability)
        oldest = [one for one in app.get_state_history(config) if "steps" in one.values][-1]
        app.invoke(None, oldest.config, durability=durability)

    return story


def rebuilt(every: int | None) -> Story:
    """The channel was stored whole, then as deltas, then whole again."""

    def story(saver: Any, config: Any, durability: str) -> None:
        for kind in (None, every, None, every):
            loop(saver, kind).invoke(given(), config, durability=durability)

    return story


def overwriting(every: int | None) -> Story:
    def story(saver: Any, config: Any, durability: str) -> None:
        def turn(values: Turns) -> dict[str, object]:
            new: object = Overwrite(["only"]) if values["steps"] % 3 == 0 else ["more"]
            return {"items": new, "steps": values["steps"] + 1}

        graph = StateGraph(state(every)).add_node("turn", turn).add_edge(START, "turn")
        graph.add_conditional_edges("turn", lambda values: "turn" if values["steps"] % 7 else END)
        app = graph.compile(checkpointer=saver)
        for _ in range(2):
            app.invoke(given(), config, durability=durability)

    return story


def messages(every: int | None) -> Story:
    """Objects of LangChain's, and a reducer of LangGraph's."""

    def story(saver: Any, config: Any, durability: str) -> None:
        def answer(values: MessagesState) -> dict[str, object]:
            return {"messages": [AIMessage(f"answer {len(values['messages'])}")]}

        graph = StateGraph(MessagesState).add_node("answer", answer).add_edge(START, "answer")
        app = graph.compile(checkpointer=saver)
        for _ in range(3):
            app.invoke({"messages": [HumanMessage("hello")]}, config, durability=durability)

    return story


def functional(every: int | None) -> Story:
    """LangGraph's other interface: functions that call tasks."""

    def story(saver: Any, config: Any, durability: str) -> None:
        @task
        def double(number: int) -> int:
            return 2 * number

        @entrypoint(checkpointer=saver)
        def work(number: int, *, previous: Any = None) -> list[Any]:
            return [previous, *[double(number).result() for _ in range(2)], interrupt("?")]

        for _ in range(2):
            work.invoke(1, config, durability=durability)
            work.invoke(Command(resume="yes"), config, durability=durability)

    return story


STORIES = {
    one.__name__: one
    for one in (
        straight, conversation, mixed, forked, by_hand, interrupted, parallel, failing, nested, rebuilt, overwriting,
        messages, functional,
    )
}  # fmt: skip
