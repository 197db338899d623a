"""Correct agents, and faults that each of them must survive: whatever is said against one of them is a false alarm."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import chaos
from chaos.targets.planted.catch import COMMIT, KEEP, LATE, PAYMENT, STEPS

Fault = Mapping[str, object]

BOOKING = Path(chaos.__file__).parent / "scenarios" / "own_agent" / "booking.py"


def at(*phases: str, step: int = PAYMENT) -> Fault:
    """Return the place *phases* of *step*."""
    return {"step": step, "phase": list(phases)}


@dataclass(frozen=True)
class Correct:
    """An agent that *does* its work, and comes back as it should from each of *faults*, which hit one after the other.

    Args:
        target: as a scenario has it.
        strategy: the same, by name or with its options.
        volatile: what may differ in the state.
    """

    name: str
    does: str
    target: Mapping[str, Mapping[str, object]]
    strategy: str | Mapping[str, Mapping[str, object]]
    faults: tuple[Fault, ...]
    volatile: tuple[str, ...] = field(default=())

    def scenario(self, checks: Sequence[str] = ()) -> str:
        """Return the scenario, judged by *checks* (all if none is named)."""
        expect = {"checks": list(checks)} if checks else {}
        return json.dumps(
            {
                "version": 1,
                "scenario": f"correct-{self.name.replace('_', '-')}",
                "target": self.target,
                "strategies": [self.strategy],
                "faults": [{"name": f"{fault['kind']}-{number}", **fault} for number, fault in enumerate(self.faults)],
                "expect": {**expect, **({"volatile": list(self.volatile)} if self.volatile else {})},
            },
            indent=1,
        )


def _loop(**options: object) -> Mapping[str, Mapping[str, object]]:
    return {"planted": {"steps": STEPS, **options}}


def _reference(**options: object) -> Mapping[str, Mapping[str, object]]:
    return {"reference": {"steps": STEPS, **options}}


_BOOKING: Mapping[str, Mapping[str, object]] = {
    "command": {
        "run": ["{python}", str(BOOKING)],
        "env": {"KEYED": "yes"},
        "goal": "Book a trip to Oslo.",
        "deliverable": "workspace/trip.md",
        "turns": [
            {"call": {"find": {"to": "Oslo"}}},
            {"call": {"book": {"flight": "SK 4455"}}},
            {"call": {"pay": {"amount": 120}}},
            {"say": "Booked SK 4455 and paid 120."},
        ],
        "services": {
            "travel.find": {"reply": {"flights": ["SK 4455"]}, "effect": False},
            "travel.book": {"reply": {"booking": "B-1"}},
            "travel.pay": {"reply": {"receipt": "R-1"}},
        },
    }
}

_PHASES = ("before_act", "after_act", "during_commit", "after_commit")
_KILLED: Fault = {"kind": "kill", "at": at(*_PHASES)}
_EVICTED: Fault = {"kind": "evict", "grace": "200ms", "at": at("after_act", "after_commit")}

CORRECT: tuple[Correct, ...] = (
    Correct(
        "loop_at_every_phase",
        "a durable loop, killed in every phase of a payment and of a commit",
        _loop(),
        "loop",
        ({"kind": "kill", "at": {"step": [COMMIT, PAYMENT], "phase": "every"}},),
    ),
    Correct(
        "loop_of_forty_steps",
        "the same at longer work, killed and killed again while it recovers",
        _loop(steps=40),
        "loop",
        (
            {
                "kind": "kill",
                "at": at("after_act", "during_commit", step=20),
                "then": [{"kind": "kill", "at": {"during": "recovery", "phase": "after_load"}}],
            },
        ),
    ),
    Correct(
        "loop_that_streams",
        "the same with streamed replies, cut off and dropped",
        _loop(stream=True),
        "loop",
        (
            {"kind": "stream_cut", "at": at("before_think")},
            {"kind": "stream_cut", "how": "dropped", "requests": 2, "at": at("before_think", step=COMMIT)},
        ),
    ),
    Correct(
        "loop_of_long_notes",
        "the same with a conversation that the model refuses as too long; the goal is kept",
        _loop(workload="long_notes", steps=24),
        "loop",
        (
            {
                "kind": "context_overflow",
                "at": at("before_think"),
                "then": [{"kind": "kill", "at": at("before_act", step=18)}],
            },
        ),
        volatile=("$.tokens",),  # shorter prompts cost less
    ),
    Correct(
        "loop_in_a_crash_loop",
        "the same, killed each time that it comes up, and evicted once its temporary files are there",
        _loop(),
        "loop",
        (
            {"kind": "crash_loop", "times": 3, "at": at("after_act", step=COMMIT)},
            {"kind": "evict", "grace": "0s", "at": at("during_commit", "after_commit", step=KEEP)},
        ),
    ),
    Correct(
        "loop_taken_for_dead",
        "the same, with a second worker on its thread, and with its last write torn",
        _loop(),
        "loop",
        (
            {"kind": "false_dead", "wakes": "finished", "at": at("after_act", step=LATE)},
            {"kind": "torn_write", "at": at("during_commit")},
        ),
    ),
    Correct(
        "booking_with_keys",
        "a plain program that books and pays with idempotency keys, killed at its requests and effects",
        _BOOKING,
        "own",
        (
            {"kind": "kill", "at": {"operation": "model_call", "n": "every"}},
            {"kind": "kill", "at": {"operation": "effect", "n": "every"}},
            {"kind": "rate_limit", "at": {"operation": "model_call", "n": 2}},
        ),
    ),
    Correct(
        "langgraph",
        "LangGraph on SQLite, a full checkpoint for each step, killed in every phase of a payment",
        _reference(),
        "full_snapshot",
        (_KILLED,),
    ),
    Correct(
        "langgraph_in_trouble",
        "the same with a model and a service that refuse, answer nonsense, and do not answer",
        _reference(timeout_ms=1000),
        "full_snapshot",
        (
            {"kind": "rate_limit", "requests": 3, "at": at("before_think", step=COMMIT)},
            {"kind": "malformed_reply", "how": "half", "at": at("before_think", step=COMMIT)},
            {"kind": "timeout", "link": "services", "seconds": "10s", "at": at("before_act")},
            {"kind": "lost_reply", "requests": 2, "at": at("before_act")},
        ),
    ),
    Correct("langgraph_deltas", "LangGraph's delta channels, killed in every phase", _reference(), "delta", (_KILLED,)),
    Correct(
        "phases_with_handoffs",
        "an agent in phases that hand over what they know, killed in every phase of a payment",
        _reference(),
        "segmented",
        (_KILLED,),
    ),
    Correct(
        "dbos", "a workflow of DBOS, killed around a payment", _reference(), {"events": {"runtime": "dbos"}}, (_KILLED,)
    ),
    Correct(
        "copied_files",
        "files and conversation in one snapshot, evicted, and with a clock that is set back",
        _reference(),
        {"cow": {"snapshots": "content"}},
        (_EVICTED, {"kind": "clock_jump", "with_kill": True, "at": at("after_act")}),
    ),
    Correct(
        "copied_files_without_power",
        "the same when the host loses its power just after a commit",
        _reference(),
        {"cow": {"snapshots": "content"}},
        ({"kind": "power_loss", "at": at("after_commit")},),
    ),
    Correct(
        "snapshots_when_needed",
        "snapshots of those turns only that changed something, evicted",
        _reference(),
        {"semantic": {"processes": "manifest"}},
        (_EVICTED,),
    ),
    Correct(
        "layers",
        "events over snapshots, evicted and killed",
        _reference(),
        {"layered": {"processes": "manifest"}},
        (_EVICTED, {"kind": "kill", "at": at("after_act")}),
    ),
)
"""Every one of them has passed, and must."""
