"""A stored LangGraph thread, checked for structural damage: rows that are missing, doubled, unlinked or unreadable.

LangGraph itself says nothing of most of it: a missing row of a delta channel or a cut link to a parent gives another
state, without an error. Reads only, and runs no code of the thread's own classes. Written against the tables of
langgraph-checkpoint-sqlite 3.1 and langgraph-checkpoint-postgres 3.2, checkpoint format 4.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from chaos.errors import ChaosError, did_you_mean

if TYPE_CHECKING:
    from chaos.audit.stored import Thread


class AuditError(ChaosError):
    """There is nothing to audit at this place, or it cannot be read; the message says what would be right."""


class Unreadable(AuditError):
    """The database as a whole is damaged."""


@dataclass(frozen=True, order=True)
class Finding:
    """One piece of damage: its *kind* ("missing", "doubled", "unlinked", "undecodable"), *where* it is, and *what*."""

    kind: str
    where: str
    what: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.where}: {self.what}"


@dataclass(frozen=True)
class Audit:
    """What was found in one *thread*, and what could not have been.

    *checkpoints* and *writes* were looked at, in *namespaces* (the graph's own, "", and those of its subgraphs).
    """

    thread: str
    namespaces: int
    checkpoints: int
    writes: int
    findings: tuple[Finding, ...]
    blind: tuple[str, ...]


def threads(place: str) -> tuple[str, ...]:
    """Return the names of the threads at *place*, a file of SQLite or a postgresql:// address.

    Raises:
        AuditError: there are no checkpoints at *place*.
    """
    return tuple(sorted(_source(place).threads(place)))


def audit(place: str, thread: str) -> Audit:
    """Check *thread* at *place*.

    Raises:
        AuditError: there are no checkpoints at *place*, or none of such a thread.
    """
    known = threads(place)
    if thread not in known:
        raise AuditError(f"no thread {thread!r} at {shown(place)}; {did_you_mean(thread, known)}")
    return _judged(place, thread)


def _judged(place: str, thread: str) -> Audit:
    from chaos.audit import rules

    return rules.judged(_source(place).read(place, thread))


def audit_all(place: str) -> tuple[Audit, ...] | None:
    """Check all threads at *place*; None if there are none yet, or nobody answers there."""
    try:
        return tuple(_judged(place, thread) for thread in threads(place)) or None
    except Unreadable as error:
        return (Audit("", 0, 0, 0, (Finding("undecodable", "the database as a whole", str(error.__cause__)),), ()),)
    except AuditError:
        return None


def shown(place: str) -> str:
    """Return *place* as it may be told: an address without its password."""
    from chaos.servers._address import shown as without_password

    return without_password(place)


class _Source(Protocol):
    """A module that knows one kind of database."""

    def threads(self, place: str) -> list[str]: ...
    def read(self, place: str, name: str) -> Thread: ...


def _source(place: str) -> _Source:
    from chaos.audit import postgres, sqlite

    return postgres if place.startswith(("postgresql://", "postgres://")) else sqlite
