"""An audit as an event of a run's journal."""

from __future__ import annotations

from chaos.audit import audit_all
from chaos.events.done import Audited
from chaos.journal import Journal

AUDIT_BYTES = 64 << 20
"""The most that is audited in a run: it takes a second to decode. Runs that measure what is stored have gigabytes."""


def note(journal: Journal, place: str, when: str) -> None:
    """Write into *journal* what an audit of all threads at *place* finds; nothing if there is no thread yet.

    Args:
        place: as for `audit`; "" where LangGraph stores nothing.
        when: as in `Audited`.
    """
    found = audit_all(place) if place else None
    if found is not None:
        journal.add(
            Audited,
            when=when,
            threads=len(found),
            checkpoints=sum(one.checkpoints for one in found),
            writes=sum(one.writes for one in found),
            findings=tuple(str(finding) for one in found for finding in one.findings),
            blind=tuple(dict.fromkeys(text for one in found for text in one.blind)),
        )
