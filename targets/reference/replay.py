"""The agent event-sourced: what a step records, the state that records add up to, and the points of a replayed run.

A durable runtime runs the workflow from its beginning in every incarnation, and answers the steps that it has on
record from the record::

    replay = Replay(agent)                        (before the runtime reads anything)
    state = start(agent.goal)
    while not done(state):
        recorded = runtime's step(lambda: replay.execute(state))
        state = replay.returned(state, recorded)
    replay.finished(state)                        (when the workflow's end is on record)

The state is the workflow's and is never recorded: a record that carried the conversation would make the log quadratic.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, ParamSpec, Self, TypedDict, TypeVar

from chaos.targets.reference.agent import Session, State, turns
from chaos.targets.reference.incarnation import Agent
from chaos.world import Message

P = ParamSpec("P")
T = TypeVar("T")


class Recorded(TypedDict):
    """What one step leaves on record: its new messages, and what else there is of the state as it stood afterwards."""

    messages: list[Message]
    steps: int
    tokens: int
    session: Session


def record(before: State, after: State) -> Recorded:
    """Return what the step that led from *before* to *after* leaves on record."""
    new = after["messages"][len(before["messages"]) :]
    return Recorded(messages=new, steps=after["steps"], tokens=after["tokens"], session=after["session"])


def applied(state: State, recorded: Recorded) -> State:
    """Return the state after the step that left *recorded*."""
    return State(
        goal=state["goal"],
        messages=[*state["messages"], *recorded["messages"]],
        steps=recorded["steps"],
        tokens=recorded["tokens"],
        session=recorded["session"],
    )


class Replay:
    """Does the steps that are not on record, and announces the points of these only: a replay is silent.

    The agent takes up its state, and with it its shell, once: at the first step that is really done, or at the end if
    all steps were on record. Where a record in the middle is gone, that is before the records that come after it, and
    what they say of the shell is not done again.
    """

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self._loaded = False
        self._open: int | None = None  # the step that was done and of which nobody knows yet that it is on record
        self._done: tuple[Recorded, State] | None = None
        agent.loading()

    def execute(self, state: State) -> Recorded:
        """Do the step that follows *state*, inside of the runtime's step; return what to record.

        That it is called at all means that the runtime has recorded all steps before; this one may be a second
        attempt, after the first did not come to be recorded.
        """
        step = turns(state)
        self._recorded_before(step)
        self._load(state)
        after = self._agent.turn(state)
        recorded = record(state, after)
        self._open, self._done = step, (recorded, after)
        self._agent.committing(step)
        return recorded

    def returned(self, state: State, recorded: Recorded) -> State:
        """Take the step's result, done or replayed, back in the workflow; return the state after it."""
        self.committed()
        return self.after(state, recorded)

    def after(self, state: State, recorded: Recorded) -> State:
        """Return the state after the step, as `returned` does, where workflow code may not announce anything."""
        # The same objects where the values are the same: the digest of a growing state need not begin anew.
        if self._done is not None and self._done[0] == recorded:
            return self._done[1]
        return applied(state, recorded)

    def committed(self) -> None:
        """Announce that the step last done is on record, if nobody did yet.

        `returned` does; where workflow code may not announce anything, the next `execute` or `finished` does.
        """
        if self._open is not None:
            step, self._open = self._open, None
            self._agent.committed(step)

    def finished(self, state: State) -> None:
        """Announce that the workflow has come to its end with *state*."""
        self._recorded_before(turns(state))
        self._load(state)
        self._agent.finished(state)

    def _recorded_before(self, step: int) -> None:
        """Announce the step last done if it is the one before *step*.

        Else it is done a second time, or another worker has gone on meanwhile: whose outcome is on record is not known.
        """
        if self._open != step - 1:
            self._open = None
        self.committed()

    def _load(self, state: State) -> None:
        if not self._loaded:
            self._loaded = True
            self._agent.loaded(state)


class Stopped(BaseException):
    """The process is ending: no result of a step. Runtimes record an Exception as the step's outcome, but not this."""


class Foreground:
    """Has the agent's work done in the main thread, on behalf of a runtime that calls from threads of its own.

    A signal, a used-up budget or a model that is gone then ends this process, as with every other strategy, and the
    step stays without an outcome. In a thread of the runtime it would go on, or be recorded as failed for good.
    """

    def __init__(self) -> None:
        self._wanted: SimpleQueue[tuple[Callable[[], Any], Future[Any]]] = SimpleQueue()
        self._lock = threading.Lock()
        self._unanswered: set[Future[Any]] = set()
        self._closed = False

    def do(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Have *work* done by `serve` and return its result, from another thread; raise Stopped if nobody serves."""
        answer: Future[T] = Future()
        with self._lock:
            if self._closed:
                raise Stopped
            self._unanswered.add(answer)
        self._wanted.put((partial(work, *args, **kwargs), answer))
        return answer.result()

    def serve(self, over: Callable[[], bool], every: float) -> None:
        """Do what is wanted until *over*, which is asked after *every* idle seconds, says that nothing more will come.

        Raises:
            BaseException: what the work raises. Whoever wanted it gets Stopped.
        """
        while True:
            try:
                work, answer = self._wanted.get(timeout=every)
            except Empty:
                if over():
                    return
                continue
            answer.set_result(work())
            with self._lock:
                self._unanswered.discard(answer)

    def close(self) -> None:
        """Let nobody wait for an answer any more: a runtime's thread that waits would keep the process from ending."""
        with self._lock:
            self._closed = True
        for answer in self._unanswered:
            if not answer.done():
                answer.set_exception(Stopped())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
