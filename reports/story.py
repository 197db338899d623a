"""What was done to the agent between start and end, as lines with a time: the violent half of a journal."""

from __future__ import annotations

import signal
from collections.abc import Iterable
from dataclasses import dataclass

from chaos.events.done import (
    Audited,
    CallFailed,
    DiskFilled,
    DiskFreed,
    DiskWiped,
    HostRenamed,
    Injecting,
    MemoryClamped,
    PowerLost,
    Signalled,
    StoreDamaged,
    StoreRolledBack,
)
from chaos.events.seen import Asked, Ended, Exited, Reloaded, Spoiled, Started
from chaos.journal import AnyEvent
from chaos.reports.text import clip, listing, plural, size, wait_status

MOMENTS = 40  # lines; a crash loop repeats itself long before that


@dataclass(frozen=True)
class Moment:
    """One thing that happened, *at* seconds into the run."""

    at: float
    words: str


def story(events: Iterable[AnyEvent]) -> tuple[Moment, ...]:
    """Return what happened to the agent, in order; more than MOMENTS are cut with a last line that says so."""
    moments: list[Moment] = []
    refused = 0
    for event in events:
        if isinstance(event, Asked) and event.status >= 400:
            refused += 1
            again = moments and moments[-1].words.startswith(f"the model endpoint answered {event.status}")
            refused = refused if again else 1
            words = f"the model endpoint answered {event.status}" + (f" × {refused}" if refused > 1 else "")
            moments[len(moments) - bool(again) :] = [Moment(moments[-1].at if again else event.at, words)]
        elif words := _words(event):
            moments.append(Moment(event.at, words))
    if len(moments) > MOMENTS:
        cut = plural(len(moments) - MOMENTS, "moment")
        moments[MOMENTS // 2 : len(moments) - MOMENTS // 2] = [Moment(moments[MOMENTS // 2].at, f"… {cut} left out")]
    return tuple(moments)


def _words(event: AnyEvent) -> str:
    match event:
        case Started():
            again = "started again" if event.attempt > 1 else "started"
            return f"{again} on {event.hostname}, process {event.pid}"
        case Injecting():
            return f"fault {event.fault} injected at {event.point}"
        case Signalled():
            return f"{_signal(event.signal)} sent to process {event.pid}"
        case MemoryClamped():
            return (
                f"memory limit lowered to {size(event.limit_bytes)} at {size(event.usage_bytes)} in use; "
                f"the kernel's oom_kill counter {event.oom_kill_before} → {event.oom_kill_after}"
            )
        case DiskWiped():
            return f"container disk lost: {listing(event.zones)}, {plural(event.files, 'entry', 'entries')} gone"
        case HostRenamed():
            return f"host {event.old} → {event.new}"
        case PowerLost():
            return (
                f"{event.filesystem} lost its power, writes met {event.refused}: of {plural(event.files, 'file')} "
                f"{event.lost_files} lost, {event.changed_files} changed, {event.reappeared_files} back again, "
                f"{size(event.lost_bytes)} gone"
            )
        case DiskFilled():
            return f"disk filled: {size(event.free_before_bytes)} → {size(event.free_after_bytes)} free"
        case DiskFreed():
            return f"disk freed: {size(event.free_bytes)} free; {plural(event.failed, 'call')} had failed with ENOSPC"
        case CallFailed():
            return f"{event.name} on {event.path} ({event.phase} {event.number}) failed with {event.error}"
        case StoreRolledBack():
            records = f"{event.records_before} → {event.records_after} records in {event.store}"
            return f"all that is durable is what it was {plural(event.behind, 'commit')} before: {records}"
        case Audited() if event.findings:
            more = f" (and {len(event.findings) - 1} more)" if len(event.findings) > 1 else ""
            return f"an audit of the stored thread found: {clip(event.findings[0])}{more}"
        case StoreDamaged():
            return _damage(event)
        case Spoiled():
            sent = f"{event.sent_bytes} of {plural(event.whole_bytes, 'byte')} sent"
            held = f", held for {event.held_seconds:.2f} s" if event.held_seconds else ""
            return f"reply to {event.path} spoiled: {event.how}, {sent}{held}"
        case Exited():
            counted = f", oom_kill counter {event.oom_kill}" if event.oom_kill else ""
            return f"ended with status {wait_status(event.status)}{counted}"
        case Reloaded():
            return f"the store could not be read back: {clip(event.error)}" if event.error else ""
        case Ended():
            return f"the run {'reached its deadline' if event.how == 'deadline' else event.how}"
        case _:
            return ""


def _damage(event: StoreDamaged) -> str:
    changed = f"{event.bytes_before} → {event.bytes_after} bytes, " if event.bytes_before != event.bytes_after else ""
    digests = f"digest {event.digest_before[:12]} → {event.digest_after[:12]}"
    return f"{event.store} damaged ({event.how}) in {clip(event.where, 120)}: {changed}{digests}"


def _signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
