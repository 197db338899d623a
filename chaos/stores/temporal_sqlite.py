"""A Temporal workflow in the database of a development server: the rows of `history_node` with results are the deltas.

The server goes on with what was damaged: it has the state of a workflow in its memory, but the history that it gives a
worker to replay it reads from its database.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from chaos.durable import Durable
from chaos.servers import temporal
from chaos.stores import Delta, Plain

# Of one lease there is one workflow. A history has the id of the run.
NODES = """
    SELECT node.rowid, node.data FROM history_node AS node
    JOIN executions AS run ON run.shard_id = node.shard_id AND run.run_id = node.tree_id
    WHERE substr(run.workflow_id, 1, length(?1)) = ?1 ORDER BY node.node_id
"""
COPY = """
    INSERT INTO history_node
    SELECT shard_id, tree_id, branch_id, node_id + 1, txn_id, prev_txn_id, data, data_encoding
    FROM history_node WHERE rowid = ?
"""


@dataclass(frozen=True)
class TemporalSqlite(Plain):
    """The batches of events in which an activity has completed, as protocol buffers; a replay reads all of them.

    A node bears the number of its first event, and the next one that of the event after its last: a second node has
    its place in between. Of a server that somebody else has started, the file is not known, and there are no deltas.
    """

    whole: ClassVar[str] = "the server has a workflow's state in its memory, and goes on without what is on its disk"

    def deltas(self, durable: Durable) -> tuple[Delta, ...]:
        if (lease := durable.leases.get("temporal")) is None:
            return ()
        with temporal.at_rest(lease) as database:
            nodes = database.execute(NODES, (lease.space,)).fetchall() if database else []
        rows = [(row, len(data)) for row, data in nodes if _has_result(data)]
        return tuple(Delta(order, row, size, True) for order, (row, size) in enumerate(rows))

    def read(self, durable: Durable, delta: Delta) -> bytes:
        found = _do(durable, "SELECT data FROM history_node WHERE rowid = ?", delta.row)
        return found[0][0] if found else b""

    def write(self, durable: Durable, delta: Delta, data: bytes) -> None:
        _do(durable, "UPDATE history_node SET data = ?2 WHERE rowid = ?1", delta.row, data)

    def delete(self, durable: Durable, delta: Delta) -> None:
        _do(durable, "DELETE FROM history_node WHERE rowid = ?", delta.row)

    def duplicate(self, durable: Durable, delta: Delta) -> None:
        _do(durable, COPY, delta.row)


def _do(durable: Durable, statement: str, *values: int | bytes) -> list[tuple[bytes]]:
    with temporal.at_rest(durable.leases["temporal"]) as database:
        assert database, "a delta is of a server of ours"
        return database.execute(statement, values).fetchall()


def _has_result(data: bytes) -> bool:
    """Tell whether *data* are events of which one is a result, or are damaged: nothing else is ever damaged."""
    from google.protobuf.message import DecodeError
    from temporalio.api.history.v1 import History

    try:
        events = History.FromString(data).events
    except DecodeError:
        return True
    return any(event.HasField("activity_task_completed_event_attributes") for event in events)
