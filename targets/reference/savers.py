"""LangGraph's savers with the points of a commit. Imported by strategies when they run.

A step is durable in two stages: first the node's writes, then the checkpoint that contains them (`put`). Killed
between the two, LangGraph applies the writes on resume and does not run the step again.
"""

import sqlite3
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    DeltaChannelHistory,
)
from langgraph.checkpoint.sqlite import SqliteSaver

from chaos.durable import Durable
from chaos.targets.reference.databases import Database
from chaos.targets.reference.incarnation import Agent

FILE = "state.db"
WRITES_SECONDS = 10.0  # another thread is at work on them; if they never come, the checkpoint is complete without

Saver = BaseCheckpointSaver[Any]


def opened(durable: Durable, database: Database) -> AbstractContextManager[Saver]:
    """Open LangGraph's own saver on *database*, its tables made; it is used from worker threads."""
    return _postgres(durable.leases["postgres"].url) if database == "postgres" else _sqlite(durable)


@contextmanager
def _sqlite(durable: Durable) -> Iterator[Saver]:
    connection = sqlite3.connect(durable.folder / FILE, check_same_thread=False)
    try:
        saver = SqliteSaver(connection)
        saver.setup()
        yield saver
    finally:
        connection.close()


@contextmanager
def stored(durable: Durable, database: Database) -> Iterator[Saver | None]:
    """Open LangGraph's own saver on what is stored in *database*, to be read only; None if there are no tables yet.

    A connection to SQLite that may write moves the log into the database when it is closed.
    """
    if database == "postgres":
        with opened(durable, database) as saver:
            yield saver
        return
    path = durable.folder / FILE
    if not path.exists():
        yield None
        return
    connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, check_same_thread=False)
    try:
        query = "SELECT count(*) FROM sqlite_master WHERE name IN ('checkpoints', 'writes')"
        whole = connection.execute(query).fetchone() == (2,)
        yield SqliteSaver(connection) if whole else None
    finally:
        connection.close()


@contextmanager
def _postgres(url: str) -> Iterator[Saver]:
    from langgraph.checkpoint.postgres import PostgresSaver

    with PostgresSaver.from_conn_string(url) as saver:
        saver.setup()
        yield saver


def newest_thread(saver: Saver) -> str | None:
    """Return the thread whose checkpoint is the newest of all in *saver*; None if there is none.

    `list(None, limit=1)` says it too, and on SQLite reads every checkpoint of every thread whole, to sort them.
    """
    if isinstance(saver, SqliteSaver):
        query = "SELECT thread_id FROM checkpoints ORDER BY checkpoint_id DESC LIMIT 1"
        row: tuple[str] | None = saver.conn.execute(query).fetchone()
        return row[0] if row else None
    found = next(saver.list(None, limit=1), None)
    return found.config["configurable"]["thread_id"] if found else None


class Announced(BaseCheckpointSaver[Any]):
    """A saver over another, *inner*, that announces the commits of *agent*.

    LangGraph saves a step's writes and its checkpoint on two threads that may overtake each other. A crash point must
    mean the same in every run, so here the writes come first, which is what nearly always happens.

    Args:
        writes: whether LangGraph saves a step's writes at all; with the durability "exit" it does not.
    """

    def __init__(self, agent: Agent, inner: Saver, writes: bool = True) -> None:
        super().__init__(serde=inner.serde)
        self.agent, self.inner = agent, inner
        self._writes, self._led_on = writes, set[str]()
        self._arrived = threading.Condition()

    def put_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        try:
            self.inner.put_writes(config, writes, task_id, task_path)
        finally:  # refused, they will not come: the checkpoint must not wait for them, it is refused as well
            self.arrive(config)

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        step = step_of(checkpoint)
        if step < 0:  # the input belongs to no step
            return self.inner.put(config, checkpoint, metadata, new_versions)
        self.wait(config)
        self.agent.committing(step)
        placed = self.inner.put(config, checkpoint, metadata, new_versions)
        self.agent.committed(step)
        return placed

    def arrive(self, config: RunnableConfig) -> None:
        """Note that the writes that lead on from the checkpoint of *config* are dealt with."""
        with self._arrived:
            self._led_on.add(config["configurable"]["checkpoint_id"])
            self._arrived.notify_all()

    def wait(self, config: RunnableConfig) -> None:
        """Wait for the writes that lead on from the checkpoint of *config*."""
        if self._writes:
            with self._arrived:
                self._arrived.wait_for(
                    lambda: config["configurable"].get("checkpoint_id") in self._led_on, WRITES_SECONDS
                )

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        found = self.inner.get_tuple(config)
        if found is not None and found.pending_writes:  # an earlier incarnation's
            self.arrive(found.config)
        return found

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        return self.inner.list(config, filter=filter, before=before, limit=limit)

    def get_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        return self.inner.get_delta_channel_history(config=config, channels=channels)

    def get_next_version(self, current: Any, channel: None) -> Any:
        return self.inner.get_next_version(current, channel)


def step_of(checkpoint: Checkpoint) -> int:
    """Return the step that *checkpoint* is the first to contain, -1 for the input."""
    return int(checkpoint["channel_values"].get("steps", 0)) - 1
