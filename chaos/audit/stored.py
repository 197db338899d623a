"""A thread as it is stored, stripped to what the rules look at: the values themselves are not kept."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from chaos.audit import Finding


class Key(NamedTuple):
    """One version of one channel; LangGraph makes each once, with a random part."""

    channel: str
    version: str


@dataclass(frozen=True)
class Content:
    """What a checkpoint says of the channels.

    Args:
        versions: of every channel that was ever written.
        seen: the versions that nodes had read when they ran.
        values: channels whose value is stored with the checkpoint.
        snapshots: of these, delta channels.
        marks: channels of which the checkpoint says `true`; on PostgreSQL that stands for a snapshot, or is a value.
        updated: channels that were written in the step before it and have a value.
        updates: delta channel to the number of steps since its last snapshot that wrote it.
    """

    versions: Mapping[str, str]
    seen: frozenset[Key]
    values: frozenset[str]
    snapshots: frozenset[str]
    marks: frozenset[str]
    updated: frozenset[str]
    updates: Mapping[str, int]


@dataclass(frozen=True)
class Checkpoint:
    """A row: *parent* is the id that it names; *content* is None where that is sealed or could not be read."""

    id: str
    parent: str | None
    step: int | None
    source: str
    content: Content | None

    def __str__(self) -> str:
        return f"checkpoint {self.id}" + ("" if self.step is None else f" (step {self.step})")


class Write(NamedTuple):
    """A row of what a task wrote, stored with the *checkpoint* that it started from; *digest* is of its bytes."""

    checkpoint: str
    task: str
    number: int
    channel: str
    digest: bytes

    def __str__(self) -> str:
        return f"write {self.number} ({self.channel}) of task {self.task} at checkpoint {self.checkpoint}"


@dataclass(frozen=True)
class Namespace:
    """The rows of one graph or subgraph. *blobs* are the values that PostgreSQL keeps in rows of their own."""

    name: str
    checkpoints: Mapping[str, Checkpoint]
    writes: tuple[Write, ...]
    blobs: frozenset[Key] | None = None


@dataclass
class Thread:
    """Filled by a reader: *findings* are rows that could not be read, *sealed* counts those that nobody else can."""

    name: str
    namespaces: list[Namespace] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    sealed: int = 0
