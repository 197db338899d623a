"""The script of the quarterly analysis: which step comes when, and what it calls for.

A script has N steps. The early *beats* stand at the start in a row, the later ones are spread over the run, and
in between come analysis turns and notes; about 75 % of the turns (from 40 steps on) have no effect on the OS.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from chaos.targets.reference.wheel import WHEEL
from chaos.targets.reference.workloads.sales_data import REGION

QUIET_SHARE = 0.75
EPOCH = 1_924_992_000  # 2031-01-01: commits are dated by their step, one minute each
LICENCE_CENTS = 4_900

_EARLY = ("rows", "csv", "kickoff_mail", "cd", "environment", "distraction", "install", "engine", "total")
_LATE = (
    "first_commit", "ticket", "keep", "region", "payment", "best_customer", "second_commit", "first_month",
    "best_product", "recall", "third_commit", "late_mail", "uncommitted",
)  # fmt: skip
_LAST = ("report", "end")
# When there is no room for all, these go first. A beat that reads what another one left goes before that one.
_DROPPED_FIRST = (
    "first_month", "best_product", "third_commit", "second_commit", "best_customer", "uncommitted", "region",
    "recall", "keep", "first_commit", "late_mail", "payment", "ticket",
)  # fmt: skip
OS_BEATS = frozenset(
    ("csv", "cd", "environment", "install", "engine", "first_commit", "second_commit", "third_commit", "keep",
     "uncommitted", "report", "note")
)  # fmt: skip
"""Beats that change the sandbox. E-mails, tickets and payments change the world outside it."""


@dataclass(frozen=True)
class Step:
    """One step of a script: the *tool* that the model calls and its *arguments*; the last one calls none."""

    beat: str
    tool: str = ""
    arguments: Mapping[str, object] | None = None

    @property
    def changes_os(self) -> bool:
        """Whether the step has an effect inside the sandbox."""
        return self.beat.split(":")[0] in OS_BEATS


@lru_cache(maxsize=64)
def beats(steps: int) -> tuple[str, ...]:
    """Return the beat of each of *steps* turns; "analysis:K" and "note:K" fill what the beats leave."""
    room = steps - len(_EARLY) - len(_LAST)
    dropped = frozenset(_DROPPED_FIRST[: max(0, len(_LATE) - room)])
    late = [beat for beat in _LATE if beat not in dropped]
    fillers = room - len(late)
    busy = sum(beat in OS_BEATS for beat in (*_EARLY, *late, *_LAST))
    notes = min(fillers, max(0, round(steps * (1 - QUIET_SHARE)) - busy))
    middle: list[str] = []
    filled = 0
    for position, beat in enumerate(late):
        upto = fillers * (position + 1) // (len(late) + 1)
        middle += [_filler(k, notes, fillers) for k in range(filled, upto)] + [beat]
        filled = upto
    middle += [_filler(k, notes, fillers) for k in range(filled, fillers)]
    return (*_EARLY, *middle, *_LAST)


def _filler(k: int, notes: int, fillers: int) -> str:
    """Return the *k*-th filler: *notes* of the *fillers* are notes, evenly spread."""
    is_note = (k + 1) * notes // fillers > k * notes // fillers
    return f"{'note' if is_note else 'analysis'}:{k}"


def call(service: str, operation: str, payload: dict[str, object]) -> dict[str, object]:
    """Return the arguments of a call of a service."""
    return {"service": service, "operation": operation, "payload": payload}


def commit(kind: str, turn: int, quarter: str) -> dict[str, object]:
    """Return a commit; the first makes the repository and keeps the private environment out of it."""
    first = kind == "first_commit"
    which = kind.removesuffix("_commit")
    return {
        "path": ".gitignore" if first else f"notes/{which}.md",
        "content": "/env/\n" if first else f"{which.capitalize()} look at {quarter}.\n",
        "message": f"{quarter}: {which} stage",
        "date": f"{EPOCH + 60 * turn} +0000",
        "first": "yes" if first else "no",
    }


def fixed(beat: str, quarter: str) -> tuple[str, dict[str, object]]:
    """Return the call of a beat that depends on nothing but the quarter."""
    mail = {"to": "team@example.com", "quarter": quarter}
    calls: dict[str, tuple[str, dict[str, object]]] = {
        "rows": ("call_service", call("warehouse", "rows", {"quarter": quarter})),
        "kickoff_mail": ("call_service", call("email", "send", {**mail, "subject": f"{quarter} analysis begins"})),
        "cd": ("cd", {"path": "analysis"}),
        "environment": ("set_environment", {"variables": {"REPORT_QUARTER": quarter, "SALES_REGION": REGION}}),
        "distraction": ("call_service", call("search", "query", {"text": f"sources of {quarter} sales"})),
        "install": ("install_package", {"wheel": WHEEL}),
        "engine": ("start_service", {"command": ["salesmath.engine", f"../data/{quarter.lower()}.csv"]}),
        "total": ("query_service", {"query": {"kind": "total"}}),
        "ticket": ("call_service", call("tickets", "create", {"title": f"{quarter} review", "quarter": quarter})),
        "region": ("run", {"command": 'printf %s "$SALES_REGION"'}),
        "payment": (
            "call_service",
            call("payments", "charge", {"cents": LICENCE_CENTS, "for": "data licence", "quarter": quarter}),
        ),
        "best_customer": ("query_service", {"query": {"kind": "top", "name": "customer"}}),
        "best_product": ("query_service", {"query": {"kind": "top", "name": "product"}}),
        "first_month": ("query_service", {"query": {"kind": "month", "name": "01" if quarter == "Q1" else "04"}}),
        "recall": ("scratch", {"do": "read", "name": "control-sum"}),
        "late_mail": ("call_service", call("email", "send", {**mail, "subject": f"{quarter} report follows"})),
        "uncommitted": (
            "write_file",
            {"path": "notes/second.md", "content": f"Open questions on {quarter}: none so far.\n"},
        ),
    }
    return calls[beat]
