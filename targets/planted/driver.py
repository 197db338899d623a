"""The correct sibling: a durable loop around the reference agent's pure pieces, cut so that a bug is one piece.

durable/checkpoint.json         goal, counters, session, tree of the files; replaced as a whole after each step
durable/history.jsonl           the messages, a line for each step; how many lines count, the checkpoint says
durable/mirror/history.jsonl    the same: a checksum alone could only refuse a damaged line, this one heals it
durable/objects                 contents of the files
durable/epoch                   which worker may act: of two on this thread, the one that came last (see fence.py)
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from hashlib import blake2b
from pathlib import Path
from typing import TypedDict, cast

from chaos.probe import point
from chaos.targets.planted.fence import Fence
from chaos.targets.reference.agent import (
    Completion,
    Digest,
    Request,
    Session,
    State,
    canonical,
    done,
    fold,
    narrower,
    start,
    think,
    turns,
)
from chaos.targets.reference.history import FILE, Log, lines
from chaos.targets.reference.incarnation import BudgetExhausted, Config
from chaos.targets.reference.model import Model, PromptTooLong
from chaos.targets.reference.snapshot import CorruptStore, Snapshots, Tree
from chaos.targets.reference.tools import Tools, Zones
from chaos.targets.reference.wire import WAIT_FILE
from chaos.world import Message

CHECKPOINT = "checkpoint.json"


class Kept(TypedDict):
    """A checkpoint: all of the state but the messages, which are the first *lines* lines of the log.

    *digest* is of those lines, *tree* of the files as they were then.
    """

    goal: str
    steps: int
    tokens: int
    session: Session
    tree: Tree
    lines: int
    digest: str


class Driver:
    """One incarnation of the agent; *thread* is its identity over all incarnations."""

    def __init__(self, config: Config, zones: Zones, thread: str, env: Mapping[str, str]) -> None:
        self.zones, self.thread, self.env = zones, thread, env
        self.goal, self.max_steps = config["goal"], config["max_steps"]
        self.window = 0  # messages that the model is shown besides the opening; 0 for all
        self.model = self.client()(env, stream=config["stream"], waits=zones.durable / WAIT_FILE)
        self.tools, self.fence = self.make_tools(), self.make_fence()
        self.snapshots = Snapshots(zones.durable / "objects", self.folders())
        self.digest = Digest()
        self.copies = (zones.durable, zones.durable / "mirror")
        self._logs: list[Log] = []
        self._digest = blake2b(digest_size=16)
        self._lines = self._messages = 0  # lines, and messages, that are in the log

    def run(self) -> None:
        """Begin, or go on from the checkpoint, and drive the agent to its end."""
        point("before_load", 0)
        self.fence.take()
        kept = self.read()
        if kept is not None:
            self.snapshots.restore(kept["tree"])
        state = start(self.goal) if kept is None else self.remembered(kept)
        self._open_log(kept)
        self.recover(state)
        point("after_load", turns(state), state=self.digest(state))
        while not done(state):
            state = self.step(state)
        point("finished", turns(state), state=self.digest(state), snapshot=state)

    def load(self) -> State | None:
        """Return the state that a resume would find, None if there is none."""
        kept = self.read()
        return None if kept is None else self.remembered(kept)

    def close(self) -> None:
        """End what this incarnation started."""
        self.tools.close()
        self.model.close()

    # What an incarnation has, and how it takes up what the one before it left

    def client(self) -> type[Model]:
        """Return the kind of client of the model endpoint; how long it was told to wait outlives a crash."""
        return Model

    def make_tools(self) -> Tools:
        """Return the tools; their idempotency keys are made from the thread, which is the same after a restart."""
        return Tools(self.zones, self.thread, self.env)

    def make_fence(self) -> Fence:
        """Return what keeps a worker that was taken for dead from acting beside its successor."""
        return Fence(self.zones.durable)

    def folders(self) -> dict[str, Path]:
        """Return the folders whose files belong to a checkpoint: all that the container's disk may lose."""
        return {"workspace": self.zones.workspace, "tmp": self.zones.tmp}

    def read(self) -> Kept | None:
        """Return the newest checkpoint, None if there is none."""
        path = self.newest()
        return cast(Kept, json.loads(path.read_bytes())) if path else None

    def newest(self) -> Path | None:
        """Return where the newest checkpoint is."""
        path = self.place(0)
        return path if path.exists() else None

    def remembered(self, kept: Kept) -> State:
        """Return the state of the checkpoint *kept*."""
        messages: list[Message] = [one for line in self.logged(kept) for one in json.loads(line)["messages"]]
        goal = self.goal_of(kept, messages)
        return State(
            goal=goal,
            messages=[*start(goal)["messages"], *messages],
            steps=kept["steps"],
            tokens=kept["tokens"],
            session=kept["session"],
        )

    def goal_of(self, kept: Kept, messages: Sequence[Message]) -> str:
        """Return the goal; what the conversation came to say is no matter."""
        return kept["goal"]

    def recover(self, state: State) -> None:
        """Set up the shell and its background services as *state* has them."""
        self.tools.recover(state["session"])

    # A step

    def step(self, state: State) -> State:
        """Do one step and return the state after it: ask, act, and only then record."""
        number = turns(state)
        reply = self.ask(number, state)
        results = self.act(number, reply)
        state = fold(state, reply, results)
        self.commit(number, state)
        return state

    def ask(self, number: int, state: State) -> Completion:
        """Return the model's reply to *state*."""
        if state["steps"] >= self.max_steps:
            raise BudgetExhausted(f"{state['steps']} steps are used, {self.max_steps} are allowed")
        point("before_think", number)
        with self.fence.held():
            pass  # an answer may take minutes: looked at, not held
        while True:
            try:
                return self.model.ask(self.shown(state), lambda: self.again(number, state))
            except PromptTooLong:
                self.window = narrower(state, self.window)
                if not self.window:
                    raise

    def again(self, number: int, state: State) -> None:
        """Get ready to ask the model once more, with a wait before if it asked for one."""
        point("before_think", number)

    def shown(self, state: State) -> Request:
        """Return what to ask the model: the opening with the goal, and as many of the newest messages as it takes."""
        return think(state, self.window)

    def act(self, number: int, reply: Completion) -> list[str]:
        """Do what *reply* calls for and return the results."""
        point("before_act", number)
        with self.fence.held():
            results = [self.tools.act(call) for call in reply.message.get("tool_calls", [])]
        point("after_act", number)
        return results

    def commit(self, number: int, state: State) -> None:
        """Make *state* durable, with the files as they are."""
        with self.fence.held():
            tree = self.snapshots.take()
            self._append(state["messages"])
        kept = Kept(
            goal=state["goal"],
            steps=state["steps"],
            tokens=state["tokens"],
            session=state["session"],
            tree=tree,
            lines=self._lines,
            digest=self._digest.hexdigest(),
        )
        self.save(self.place(number), kept, lambda: point("during_commit", number))
        point("after_commit", number, state=self.digest(state))

    def place(self, number: int) -> Path:
        """Return where the checkpoint of step *number* is written."""
        return self.zones.durable / CHECKPOINT

    def save(self, path: Path, kept: Kept, between: Callable[[], None]) -> None:
        """Write *kept* to *path*; *between* runs when that has begun and does not count yet."""
        _replace(path, json.dumps(kept).encode(), between, self.fence.held)

    # The log

    def logged(self, kept: Kept) -> list[bytes]:
        """Return the lines of the log that belong to *kept*, from the first copy in which they are whole."""
        for folder in self.copies:
            found = lines(folder)[: kept["lines"]]
            if _digest_of(found).hexdigest() == kept["digest"]:
                return found
        raise CorruptStore(f"both copies of {FILE} are damaged")

    def _open_log(self, kept: Kept | None) -> None:
        """Open both copies of the log for appending, cut back to *kept* and healed."""
        found = [] if kept is None else self.logged(kept)
        for folder in self.copies:
            folder.mkdir(exist_ok=True)
            _replace(folder / FILE, _joined(found))  # as a whole, one after the other: one copy is good at all times
        self._logs = [Log(folder) for folder in self.copies]
        self._lines, self._digest = len(found), _digest_of(found)
        self._messages = len(start(self.goal)["messages"]) + sum(len(json.loads(line)["messages"]) for line in found)

    def _append(self, messages: list[Message]) -> None:
        line = canonical({"messages": messages[self._messages :]})
        for log in self._logs:
            log.append(line)
        self._digest.update(_joined([line]))
        self._lines, self._messages = self._lines + 1, len(messages)


def _replace(
    path: Path,
    data: bytes,
    between: Callable[[], None] | None = None,
    held: Callable[[], AbstractContextManager[None]] = nullcontext,
) -> None:
    """Make *data* the content of *path*: a kill leaves the old content or the new one, never a part.

    Both halves are done while *held*; what comes *between* them is not.
    """
    fresh = path.with_name(f"{path.name}.new")
    with held(), open(fresh, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    if between is not None:
        between()
    with held():
        fresh.rename(path)
        folder = os.open(path.parent, os.O_RDONLY)
        os.fsync(folder)
        os.close(folder)


def _joined(found: Sequence[bytes]) -> bytes:
    return b"".join(line + b"\n" for line in found)


def _digest_of(found: Sequence[bytes]) -> blake2b:
    return blake2b(_joined(found), digest_size=16)
