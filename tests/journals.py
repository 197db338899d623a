"""Small journals made by hand: an agent of four steps that writes files, sends an e-mail and pays a bill."""

from __future__ import annotations

import hashlib
import itertools
import json

import msgspec

from chaos.checks import Terms
from chaos.events import NULL
from chaos.events.done import Injecting, StoreDamaged
from chaos.events.seen import (
    Asked,
    Effected,
    Ended,
    Exited,
    FileEntry,
    Measured,
    Observation,
    Observed,
    ProcessEntry,
    Reached,
    Reloaded,
    Repository,
    Started,
)
from chaos.journal import AnyEvent
from chaos.record import Json, Record
from chaos.targets import Facts

STEPS = 4
GOAL = "Write the quarterly report."
EMAIL = "email.send:alice"
CHARGE = "payments.charge:42"
EFFECTS = {1: EMAIL, 3: CHARGE}
REPORT = FileEntry(path="workspace/report.md", kind="file", mode=0o644, size=9, digest="r1")
SERVER = ProcessEntry(argv=("python", "server.py"), cwd="$ROOT/workspace", ports=("$ENGINE_PORT",), pid=71)
SHELL = ProcessEntry(argv=("/bin/bash", "-i"), cwd="$ROOT/workspace/data", environment=(("STAGE", "test"),), pid=72)
SEEN = Observation(
    files=(
        FileEntry(path="workspace/data", kind="dir", mode=0o755),
        FileEntry(path="workspace/data/latest", kind="link", mode=0o777, target="q1.csv"),
        FileEntry(path="workspace/data/q1.csv", kind="file", mode=0o644, size=5, digest="q1"),
        REPORT,
    ),
    repositories=(Repository(path="workspace", head="abc", log=("abc report", "000 begin"), status=("?? tmp",)),),
    processes=(SERVER, SHELL),
    packages=("salesmath-1.0",),
)
FACTS = Facts(
    goal=GOAL,
    deliverable=REPORT.path,
    digests=((REPORT.path, REPORT.digest),),
    required=(EMAIL, CHARGE),
    max_requests=2 * STEPS,
)
TERMS = Terms()
ALL_CHECKS = (
    "state", "files", "processes", "environment", "effects", "goal", "budget", "finishes", "corruption", "recovery",
)  # fmt: skip


def state(step: int) -> dict[str, Json]:
    """The agent's state when it has done *step* steps."""
    return {"step": step, "messages": [f"answer {number}" for number in range(step)]}


def digest(value: Json) -> str:
    return hashlib.blake2b(json.dumps(value).encode(), digest_size=6).hexdigest()


class Story:
    """Tells a run event by event; one second passes between two events."""

    def __init__(self) -> None:
        self.events: list[AnyEvent] = []
        self.attempt = 0
        self._answered: set[str] = set()
        self._told: set[str] = set()

    @property
    def record(self) -> Record:
        return Record(self.events)

    def add(self, kind: type[AnyEvent], **fields: object) -> Story:
        self.events.append(kind(at=float(len(self.events)), attempt=self.attempt, **fields))  # type: ignore[arg-type]
        return self

    def reach(self, step: int, phase: str, *, of: Json = None, snapshot: Json = None) -> Story:
        raw = NULL if snapshot is None else msgspec.Raw(json.dumps(snapshot).encode())
        mark = None if of is None else digest(of)
        return self.add(Reached, step=step, phase=phase, key=f"step-{step}", state=mark, snapshot=raw)

    def start(self, step: int = 0, *, of: Json = None) -> Story:
        """Begin an incarnation that resumes at *step*, with the right state unless *of* says another."""
        self.attempt += 1
        self.add(Started, pid=100 + self.attempt, hostname="node-1", thread_id="t")
        return self.reach(step, "before_load").reach(step, "after_load", of=of or state(step))

    def ask(self, turn: int, *, twist: dict[int, str] | None = None, status: int = 200, goal: str = GOAL,
            budget: int | None = -1, **more: object) -> Story:  # fmt: skip
        """Ask the model for *turn*; *twist* replaces messages of the conversation, by index; *more* are its fields."""
        messages: list[Json] = [GOAL, *(f"answer {number}" for number in range(turn))]
        for index, text in (twist or {}).items():
            messages[index] = text
        digests = [digest(messages[: end + 1]) for end in range(len(messages))]
        again, ok = digests[-1] in self._answered, status == 200
        if ok:
            self._answered.add(digests[-1])
        return self.add(
            Asked, turn=turn, status=status, **self.shown(messages, digests), goal=goal,
            budget=turn if budget == -1 else budget, tokens_in=10 * (turn + 1), tokens_out=5 if ok else 0,
            again=again, **more,
        )  # fmt: skip

    def shown(self, messages: list[Json], digests: list[str]) -> dict[str, object]:
        """Return the fields of a request that tell its messages, with the digests up to each of them."""
        kept = next((place for place, one in enumerate(digests) if one not in self._told), len(digests))
        self._told.update(digests)
        new = msgspec.Raw(json.dumps(messages[kept:]).encode())
        onto = digests[kept - 1] if kept else ""
        added = tuple(digests[kept:])
        return {
            "prompt": digests[-1],
            "messages": new,
            "kept": kept,
            "onto": onto,
            "added": added,
            "opening": digests[0],
        }

    def effect(self, identity: str, *, deduplicated: bool = False, off_goal: bool = False) -> Story:
        name, _, payload = identity.partition(":")
        service, _, operation = name.partition(".")
        return self.add(
            Effected, service=service, operation=operation, identity=identity, payload=payload,
            deduplicated=deduplicated, off_goal=off_goal,
        )  # fmt: skip

    def act(self, step: int, *, effects: bool = True, **asked: object) -> Story:
        """Think and act, up to the point where the effect has happened and nothing recorded it."""
        self.reach(step, "before_think").ask(step, **asked).reach(step, "before_act")  # type: ignore[arg-type]
        if effects and step in EFFECTS:
            self.effect(EFFECTS[step])
        return self.reach(step, "after_act")

    def step(self, step: int, *, effects: bool = True, **asked: object) -> Story:
        self.act(step, effects=effects, **asked)
        return self.reach(step, "during_commit").reach(step, "after_commit", of=state(step + 1))

    def steps(self, begin: int, end: int = STEPS) -> Story:
        for number in range(begin, end):
            self.step(number)
        return self

    def crash(self, fault: str = "kill") -> Story:
        index = sum(isinstance(event, Injecting) for event in self.events)
        return self.add(Injecting, index=index, fault=fault, point="somewhere").exit(-9)

    def exit(self, status: int, log: str = "") -> Story:
        return self.add(Exited, status=status, written_bytes=1000, log=log)

    def damage(self) -> Story:
        return self.add(
            StoreDamaged, store="langgraph_sqlite", how="flip", where="delta 2", bytes_before=8, bytes_after=8,
            digest_before="a", digest_after="b",
        )  # fmt: skip

    def finish(self, *, snapshot: Json = None, reloaded: Json = None, error: str = "",
               seen: Observation | None = SEEN) -> Story:  # fmt: skip
        """End well: announce the state, be observed, exit with 0, have the store read by another process."""
        self.reach(STEPS, "finished", snapshot=snapshot or state(STEPS))
        if seen is not None:
            self.add(Observed, step=STEPS, phase="finished", seen=seen)
        self.exit(0).add(Ended, how="finished")
        raw = NULL if error else msgspec.Raw(json.dumps(reloaded or state(STEPS)).encode())
        return self.add(Reloaded, state=raw, error=error).add(Measured, stored_bytes=5000)

    def stop(self, how: str) -> Story:
        return self.add(Ended, how=how)


def reference() -> Story:
    """A crash-free run."""
    return Story().start().steps(0).finish()


def recovered(at: int = 2, resume: int | None = None) -> Story:
    """A run that is killed before it acts in step *at*, resumes at *resume* with all effects in place, and finishes."""
    story = Story().start().steps(0, at).reach(at, "before_think").crash()
    begin = at if resume is None else resume
    story.start(begin)
    for number in range(begin, STEPS):
        story.step(number, effects=number >= at)
    return story.finish()


def refusing(log: str = "Traceback\nValueError: bad checksum") -> Story:
    """A run that is killed, then ends three times with an error while it loads."""
    story = Story().start().steps(0, 2).crash()
    for _ in range(3):
        story.start(2).exit(1, log)
    return story.stop("gave up")


def stuck() -> Story:
    """A run that comes back, asks, and never ends."""
    return Story().start().steps(0, 2).crash().start(2).act(2).exit(-9).stop("deadline")


def seen(**changes: object) -> Observation:
    return msgspec.structs.replace(SEEN, **changes)


def sublists(length: int) -> list[tuple[int, ...]]:
    return [each for size in range(length + 1) for each in itertools.combinations(range(length), size)]
