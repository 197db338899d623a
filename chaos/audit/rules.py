"""What a whole thread keeps to, and what it was found to break. Pure: from stored rows to findings.

Forks, interrupts, updates by hand, subgraphs, exit durability, dropped and pruned checkpoints and writes that a crash
left without a checkpoint are all part of a whole thread.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain

from chaos.audit import Audit, Finding
from chaos.audit.links import Forest
from chaos.audit.stored import Checkpoint, Content, Key, Namespace, Thread, Write

BLIND = (
    "content that changed and still decodes: a flipped bit, two values that changed places",
    "the newest checkpoint of a thread or branch, gone: the same as a crash before it was stored",
    "writes after the newest checkpoint, gone: the same as a crash before they were stored",
    "of several tasks of one step the one row of a task that wrote nothing else",
    "where channels are stored whole: a step taken out together with the link to it, a link past a fork that changed"
    " nothing, links between runs that were stored at their exit only; the newest state is the same with them",
    "a row doubled by hand, where a task could have written the same value twice: it is reported all the same",
)
_SEALED = "what is in {} values, encrypted or pickled: they were not opened"
_NUMBERED = "links that lead to another checkpoint: versions are plain numbers here and do not tell"

# Task ids that LangGraph makes up for the writes of a run that is stored at its exit only (pregel/_checkpoint.py): the
# step in the first group, or behind eight f where it came after the first step of the run.
_EXIT = re.compile(r"(?:00(?P<first>\d{6})|(?P<second>-\d{7})|ffffffff-(?P<high>[0-9a-f]{4})-(?P<low>[0-9a-f]{4}))-.*")
_OWN = ("__", "branch:")
"""How channels begin that are LangGraph's own; a task may write the same to them twice, as two equal `Send`s."""
_ERROR_SOURCE = "__error_source_node__"


def judged(thread: Thread) -> Audit:
    """Return the findings in *thread*, and what could not be seen in it."""
    forests = [Forest(space.checkpoints) for space in thread.namespaces]
    findings = [*thread.findings]
    for space, forest in zip(thread.namespaces, forests, strict=True):
        found = chain(forest.findings, _deltas(space, forest), _tasks(space), _blobs(space))
        where = f"namespace {space.name}, " if space.name else ""
        findings += (Finding(one.kind, where + one.where, one.what) for one in found)
    blind = [*BLIND]
    if thread.sealed:
        blind.append(_SEALED.format(thread.sealed))
    if any(forest.numbered for forest in forests):
        blind.append(_NUMBERED)
    return Audit(
        thread=thread.name,
        namespaces=len(thread.namespaces),
        checkpoints=sum(len(space.checkpoints) for space in thread.namespaces),
        writes=sum(len(space.writes) for space in thread.namespaces),
        findings=tuple(dict.fromkeys(findings)),
        blind=tuple(blind),
    )


def _deltas(space: Namespace, forest: Forest) -> Iterator[Finding]:
    """A delta channel that moved has a snapshot, or a row for each step that moved it; a chain begins with one."""
    channels, rows = _delta_channels(space), _by_checkpoint(space.writes)
    for one in space.checkpoints.values():
        parent = space.checkpoints.get(one.parent or "")
        before = parent.content if parent else None
        if one.content is None or (parent is not None and before is None) or one.id in forest.broken:
            continue
        for channel in sorted(channels & one.content.versions.keys() - one.content.values):
            if parent is None or before is None:
                yield Finding("unlinked", str(one), f"it has no parent, and no snapshot of {channel} to begin with")
            elif one.content.versions[channel] != before.versions.get(channel):
                wrote = [row for row in rows[parent.id] if row.channel == channel]
                yield from _counted(one, parent, channel, wrote, one.content, before)


def _counted(
    one: Checkpoint, parent: Checkpoint, channel: str, wrote: Sequence[Write], content: Content, before: Content
) -> Iterator[Finding]:
    wanted = max(1, content.updates.get(channel, 0) - before.updates.get(channel, 0))
    present = len({_step(row.task, (parent.step or 0) + 1) for row in wrote})
    if present < wanted:
        rows = "a row" if wanted - present == 1 else f"rows of {wanted - present} steps"
        yield Finding("missing", f"{parent}, {channel}", f"{rows} that led to {one}")


def _step(task: str, next_: int) -> int:
    """Return the step that *task* wrote in: the *next_* one, unless its id says another."""
    found = _EXIT.fullmatch(task)
    if found is None:
        return next_
    if found["high"]:
        return int(found["high"], 16) << 16 | int(found["low"], 16)
    return int(found["first"] or found["second"])


def _tasks(space: Namespace) -> Iterator[Finding]:
    """The writes of a task are stored at once, numbered from 0; only special ones have numbers of their own."""
    tasks: Mapping[tuple[str, str], list[Write]] = defaultdict(list)
    for row in space.writes:
        tasks[row.checkpoint, row.task].append(row)
    for rows in tasks.values():
        special = any(row.number < 0 or row.channel == _ERROR_SOURCE for row in rows)
        numbers = {row.number for row in rows}
        gaps = [number for number in range(max(numbers)) if number not in numbers]
        if gaps and not special:
            of = f"task {rows[0].task} at checkpoint {rows[0].checkpoint}"
            yield Finding("missing", of, f"write {', '.join(map(str, gaps))} of {max(numbers) + 1}")
        first: dict[tuple[str, bytes], Write] = {}
        for row in rows:
            before = first.setdefault((row.channel, row.digest), row)
            if before is not row and not row.channel.startswith(_OWN):
                yield Finding("doubled", str(row), f"it has the bytes of write {before.number}")


def _blobs(space: Namespace) -> Iterator[Finding]:
    """On PostgreSQL a value that a checkpoint counts on has a row, and each such row is counted on."""
    if space.blobs is None:
        return
    deltas, stored_apart = _delta_channels(space), {key.channel for key in space.blobs}
    contents = [(one, one.content) for one in space.checkpoints.values() if one.content is not None]
    for one, content in contents:
        lost = content.marks & deltas - content.snapshots
        held = (content.updated & content.versions.keys() & stored_apart) - deltas - content.values
        for channel in sorted(lost | held):
            what = "the snapshot" if channel in lost else "the value"
            yield Finding("missing", str(one), f"{what} of {channel}, version {content.versions.get(channel)}")
    if len(contents) < len(space.checkpoints):
        return
    used = {Key(channel, version) for _, content in contents for channel, version in content.versions.items()}
    for key in sorted(space.blobs - used):
        yield Finding("unlinked", f"value of {key.channel}, version {key.version}", "no checkpoint has this version")


def _delta_channels(space: Namespace) -> frozenset[str]:
    """Return the channels that are stored as deltas: counted as such, or with a snapshot somewhere."""
    contents = [one.content for one in space.checkpoints.values() if one.content is not None]
    return frozenset(name for one in contents for name in chain(one.updates, one.snapshots))


def _by_checkpoint(writes: Iterable[Write]) -> Mapping[str, list[Write]]:
    found: Mapping[str, list[Write]] = defaultdict(list)
    for row in writes:
        found[row.checkpoint].append(row)
    return found
