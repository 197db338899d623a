"""Three layers restored to one step: the log says what happened, the snapshot has the sandbox, the thread the runtime.

At any instant the layers hold different steps, and the log is the furthest:

    turns of the snapshot  <=  steps of the thread  <=  steps of the log

A resume goes on from the log's last step. The sandbox is brought there from its snapshot by redoing the calls of the
steps in between, the thread by replaying their lines. An effect outside the sandbox is in the log, or it never
happened as far as the agent knows: it is not done again.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path

from chaos.targets.reference.agent import Completion, State, done, fold, turns
from chaos.targets.reference.incarnation import Act, Agent
from chaos.targets.reference.semantic import manifest, steps
from chaos.targets.reference.semantic.steps import Line, Steps, state_of
from chaos.targets.reference.snapshot import CorruptStore

OUTSIDE = frozenset({"call_service"})
"""Tools whose effect is outside the sandbox: no snapshot takes it back, so it is never redone."""


def read(folder: Path) -> tuple[list[Line], int]:
    """Return the log and how many steps of it are in the newest snapshot; raise CorruptStore if that cannot be."""
    log, newest = steps.read(folder), manifest.newest(folder)
    if newest is None and len(log) > 1:  # the first answer of the model came after the first manifest
        raise CorruptStore(f"the log has {len(log)} lines but there is no manifest")
    if newest is not None and len(log) <= newest.turns:
        raise CorruptStore(f"the log has {len(log)} lines, the snapshot is of turn {newest.turns}")
    return log, newest.turns if newest else 0


def redone(lines: Sequence[Line], snapshot: int, act: Act) -> list[State]:
    """Redo in the sandbox what *lines* have beyond the *snapshot*; return its state and the one after each step."""
    first = state_of(lines[: snapshot + 1])
    assert first is not None
    states = [first]
    for line in lines[snapshot + 1 :]:
        reply, *answers = line["entry"]["messages"]
        results = [
            answer.get("content") or "" if call["function"]["name"] in OUTSIDE else act(call)
            for call, answer in zip(reply.get("tool_calls", []), answers, strict=True)
        ]
        tokens = line["entry"]["tokens"] - states[-1]["tokens"]
        states.append(fold(states[-1], Completion(reply, tokens), results))
    return states


class Layers:
    """An agent to whoever drives it: *inner*, with a log of its steps, taken up where all layers can be.

    Args:
        thread: returns the state that the runtime's thread would go on from, None if there is none.
        forget: removes the thread, so that it begins anew with the state that it is given.
    """

    def __init__(self, inner: Agent, thread: Callable[[], State | None], forget: Callable[[], None]) -> None:
        self.thread, self.durable = inner.thread, inner.durable
        self._inner, self._stored, self._forget = inner, thread, forget

    def loading(self) -> None:
        """Read all layers and bring them to one step, before the agent says that it has loaded."""
        self._inner.loading()
        lines, snapshot = read(self.durable.folder)
        if lines:
            base = state_of(lines[: snapshot + 1])
            self._state = self._inner.loaded(base, lambda act: self._onwards(lines, snapshot, act))
        else:
            self._state = self._inner.loaded(None)
            self._take_up([])
            self._log.append(self._state, 0)
        self._resumed = turns(self._state)

    def loaded(self, state: State | None) -> State:
        """Return the state that `loading` came to; a thread that has another one replays the log up to it."""
        return self._state

    def turn(self, state: State) -> State:
        """Do the step after *state*, or take it from the log."""
        step = turns(state)
        if done(state):  # a thread made anew after the last step
            return state
        if step + 1 < len(self._lines):
            after = state_of(self._lines[: step + 2])
            assert after is not None
            return after
        after = self._inner.turn(state)
        self._log.append(after, len(state["messages"]), lambda: self._inner.committing(step))
        return after

    def committing(self, step: int) -> None:
        """Announce nothing: the commit began with the log."""

    def committed(self, step: int) -> None:
        """Announce that *step* is durable in log and thread, unless it was replayed."""
        if step >= self._resumed:
            self._inner.committed(step)

    def finished(self, state: State) -> None:
        """Announce that all is done."""
        self._inner.finished(state)

    def _onwards(self, lines: list[Line], snapshot: int, act: Act) -> State:
        """Bring the sandbox from its snapshot to the end of the log, and make the thread one of the log."""
        states = redone(lines, snapshot, act)
        if states[-1] == state_of(lines):
            self._take_up(lines)
        else:  # a call that comes out otherwise when it is repeated: the model has not seen the old result yet
            print("steps that were done again came out otherwise: the log has the new results", file=sys.stderr)
            self._take_up(lines[: snapshot + 1])
            for before, after in pairwise(states):
                self._lines.append(self._log.append(after, len(before["messages"])))
        if why := self._wrong():
            print(f"the thread {why}; it is made anew from the log", file=sys.stderr)
            self._forget()
        return states[-1]

    def _take_up(self, lines: list[Line]) -> None:
        self._lines, self._log = lines, Steps(self.durable.folder, lines)

    def _wrong(self) -> str:
        """Return what is wrong with the thread, "" if it is at some step of the log and has the state of that."""
        try:
            found = self._stored()
            if found is None:
                return "has no state"
            step = turns(found)
        except Exception as error:  # whatever damaged bytes lead to
            return f"cannot be read ({type(error).__name__}: {error})"
        return "" if found == state_of(self._lines[: step + 1]) else f"differs from the log at step {step}"
