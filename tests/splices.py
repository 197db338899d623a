"""Runs made at random of a few things that may happen, and everything that is judged and measured of a run."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import msgspec

from chaos import claims, judge, landing, measure, registry
from chaos.checks import Terms
from chaos.events import NULL, Event
from chaos.events.done import Audited, Injecting, PresumedDead, Released, Signalled, StoreDamaged
from chaos.events.seen import (
    Asked,
    Effected,
    Ended,
    Exited,
    FileEntry,
    HostDid,
    Measured,
    Observation,
    Observed,
    ProcessEntry,
    Reached,
    Reloaded,
    Repository,
    Started,
)
from chaos.faults.crash_loop import CrashLoop
from chaos.faults.kill import Kill
from chaos.faults.rate_limit import RateLimit
from chaos.journal import AnyEvent
from chaos.plan import STEP_PHASES, parse_plan
from chaos.record import Record
from chaos.rig import Setup
from chaos.targets import Facts
from chaos.world.tokens import Talks
from tests import toy

GOAL = "Count."
FACTS = Facts(GOAL, "workspace/a", (("workspace/b", "d1"),), ("s.o:1", "s.o:2"), 9)
CHECKS = tuple(registry.names("checks"))
CLAIMS = frozenset({"messages", "files", "processes", "environment"})
FAULTS = {"kill": Kill(), "limit": RateLimit(), "loop": CrashLoop(times=1)}
PROPERTIES = tuple(
    name
    for name, member in vars(Record).items()
    if isinstance(member, property | cached_property) and not name.startswith("_") and name != "like"
)
"""All properties of a record: what a check of somebody else's may look at."""


def setup() -> Setup:
    return toy.setup(toy.Toy(), FAULTS)


@dataclass
class Teller:
    """Tells a run event by event, at random; the world's part of a request is as the world tells it."""

    rng: random.Random
    events: list[AnyEvent] = field(default_factory=list)
    attempt: int = 1
    steps: int = 3
    at: float = 0.0
    told: set[str] = field(default_factory=set)
    answered: set[str] = field(default_factory=set)

    def add(self, kind: type[AnyEvent], attempt: int | None = None, **fields: Any) -> None:
        self.at = round(self.at + self.rng.choice((0.0, 0.001, 0.04, 0.7)), 6)
        self.events.append(kind(at=self.at, attempt=self.attempt if attempt is None else attempt, **fields))

    def ask(self, messages: Sequence[str], attempt: int | None = None, **more: Any) -> None:
        rng = self.rng
        whole = [{"role": "system" if n == 0 else "user", "content": text} for n, text in enumerate(messages)]
        prompt = Talks().heard(whole)  # type: ignore[arg-type]
        digests = prompt.talk.digests
        kept = next((n for n, digest in enumerate(digests) if digest not in self.told), len(digests))
        self.told |= set(digests)
        status = rng.choice((200,) * 8 + (400, 429, 503))
        refused = rng.choice(("rate_limit", "quota", "context_length")) if status in (400, 429) else ""
        given = {
            "turn": max(0, len(messages) - 2), "status": status, "prompt": digests[-1],
            "messages": msgspec.Raw(msgspec.json.encode(whole[kept:])), "kept": kept,
            "onto": digests[kept - 1] if kept else "", "added": tuple(digests[kept:]), "opening": digests[0],
            "goal": rng.choice((GOAL,) * 12 + ("",)), "budget": rng.choice((len(messages) - 2,) * 6 + (None, 0)),
            "budget_tokens": rng.choice((len(messages) * 9,) * 6 + (None, 3)), "tokens_in": 7 * len(messages),
            "tokens_out": 2 * (status == 200), "again": digests[-1] in self.answered, "refused": refused,
            "retry_after": rng.choice((None, 0.0, 0.5)) if status == 429 else None,
            "spoiled": rng.choice(("",) * 12 + ("dropped",)) if status == 200 else "",
        }  # fmt: skip
        if status == 200:
            self.answered.add(digests[-1])
        self.add(Asked, attempt, **{**given, **more})

    def something(self, attempt: int | None = None) -> None:
        """Let one thing happen, as any agent may do it."""
        rng, step = self.rng, self.rng.randrange(self.steps)
        match rng.randrange(9):
            case 0 | 1 | 2:
                phase = rng.choice((*STEP_PHASES, "before_load", "after_load"))
                state = rng.choice((None, f"s{step}", f"s{step}", "odd"))
                self.add(Reached, attempt, step=step, phase=phase, key=f"step-{step}", state=state)
            case 3 | 4 | 5:
                words = [rng.choice(("sys",) * 5 + ("sys2",)), GOAL, *(rng.choice("aaab") for _ in range(step))]
                self.ask(words[: rng.choice((1, 2, 9, 9, 9))], attempt)
            case 6 | 7:
                number = rng.randrange(4)
                self.add(
                    Effected, attempt, service="s", operation="o", identity=f"s.o:{number}", payload=str(number),
                    key=rng.choice((None, "k")), deduplicated=rng.random() < 0.2, off_goal=rng.random() < 0.05,
                )  # fmt: skip
            case _:
                self.add(HostDid, attempt, what="snapshot", figures={"n": step})

    def again(self, event: AnyEvent, run: Record) -> None:
        """Let what was seen as *event* in *run* happen again."""
        if isinstance(event, Asked):
            messages: Any = [run.message(digest) for digest in run.prefixes(event)]
            self.ask([message["content"] for message in messages], status=event.status, spoiled=event.spoiled)
        elif isinstance(event, Reached | Effected):
            fields = {name: getattr(event, name) for name in event.__struct_fields__ if name not in ("at", "attempt")}
            self.add(type(event), **fields)

    def finish(self, attempt: int | None = None) -> None:
        """End, well or badly."""
        rng = self.rng
        if rng.random() < 0.85:
            snapshot = rng.choice((NULL, _raw({"n": 1, "messages": ["x"]}), _raw({"n": 2, "messages": ["x"]})))
            self.add(Reached, attempt, step=self.steps, phase="finished", key="", snapshot=snapshot)
            if rng.random() < 0.9:
                self.add(Observed, attempt, step=self.steps, phase="finished", seen=_seen(rng))
        self.add(Exited, attempt, status=rng.choice((0, 0, 0, 1, -9)), written_bytes=5, elsewhere_bytes=2, log="a\nb")
        self.add(Ended, attempt, how=rng.choice(("finished",) * 5 + ("gave up", "deadline")))
        if rng.random() < 0.9:
            state = rng.choice((NULL, _raw({"n": 1, "messages": ["x"]}), _raw({"n": 1, "messages": ["y"]})))
            self.add(Reloaded, attempt, state=state, error=rng.choice(("", "", "OSError: gone")))
        self.add(Measured, attempt, stored_bytes=rng.randrange(9))
        findings = rng.choice(((), (), ("a row is missing",)))
        self.add(Audited, attempt, when="end", threads=1, checkpoints=1, writes=1, findings=findings)

    def harm(self) -> None:
        """Have the harness do something to the agent, and start it again."""
        rng = self.rng
        fault = rng.choice(("kill", "kill", "limit"))
        index = sum(isinstance(event, Injecting) for event in self.events)
        self.add(Injecting, index=index, fault=fault, point="2/after_act")
        if fault == "limit":
            for _ in range(rng.choice((0, 1, 5, 6))):
                self.ask(("sys", GOAL), status=rng.choice((503, 503, 429)))
            return
        if rng.random() < 0.1:
            self.add(PresumedDead, pid=5, disk="shared", wakes="resumed")
        else:
            self.add(Signalled, pid=5, signal=9)
            self.add(Exited, status=rng.choice((-9, -9, -9, 1)), written_bytes=3, elsewhere_bytes=1)
        if rng.random() < 0.15:
            self.add(
                StoreDamaged, store="s", how="flip", where="w", bytes_before=1, bytes_after=1, digest_before="a",
                digest_after="b",
            )  # fmt: skip
            self.add(Audited, when="crashed", threads=1, checkpoints=1, writes=1, findings=("damage",))
        if rng.random() < 0.15:
            self.add(Released, release="prompt", system="x", tools="y", changes=rng.choice(((), ("$.n",))))
        self.attempt += 1
        self.add(Started, pid=6, hostname="h", thread_id="t")


def _raw(value: object) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(value))


def _seen(rng: random.Random) -> Observation:
    files = (FileEntry(path="workspace/a", kind="file", mode=0o644, digest=rng.choice(("d0", "d0", "d2"))),
             FileEntry(path="workspace/b", kind="file", mode=0o644, digest="d1"))  # fmt: skip
    process = ProcessEntry(
        argv=("sh",), cwd=rng.choice(("/", "/", "/x")), environment=(("A", "1"),), pid=rng.randrange(9)
    )
    repository = Repository(path="workspace", head=rng.choice(("h", "h", "g")))
    return Observation(files[: rng.choice((1, 2, 2))], (repository,), (process,) * rng.choice((1, 1, 2)), ("p-1.0",))


def everything(run: Record, reference: Record, plan: str, made: Setup, facts: Facts, terms: Terms) -> dict[str, Any]:
    """Return all that a trial makes of a run."""
    parsed = parse_plan(plan)
    verdicts = judge.judge(run, reference, CHECKS, terms, facts)
    return {
        **verdicts,
        "landed": landing.landings(run, parsed, made),
        "missed": landing.misses(run, parsed, made),
        "verdict": judge.run_verdict(verdicts, run, 1, 1),
        "claims": claims.judge_claims(CLAIMS, run, reference, verdicts, terms),
        "attempts": run.attempts,
        "steps": measure.steps(run),
        "rpo_steps": measure.rpo_steps(run),
        "rto": measure.rto(run),
        "tokens": measure.tokens(run),
        "storage": measure.storage(run),
        "outside": [event.figures for event in run.all(HostDid)],
    }


def properties(run: Record) -> dict[str, Any]:
    """Return what each property of a run is, and its events."""
    return {name: getattr(run, name) for name in PROPERTIES} | {"events": run.events}


def digests(events: Sequence[Event]) -> set[str]:
    """Return the messages that these requests brought."""
    return {digest for event in events if isinstance(event, Asked) for digest in event.added}


def terms(rng: random.Random) -> Terms:
    """Return terms that a run may break."""
    strict = Terms(max_lost_steps=0, max_tokens_asked_again=5, max_recovery_seconds=0.5)
    return rng.choice((Terms(), strict, replace(strict, effects="at-least-once"), Terms(max_lost_steps=None)))
