"""A saver that keeps only some checkpoints. Imported by strategies when they run."""

from collections.abc import Sequence
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import ChannelVersions, Checkpoint, CheckpointMetadata

from chaos.targets.reference.incarnation import Agent
from chaos.targets.reference.savers import Announced, Saver, step_of
from chaos.world import Message

EFFECTFUL = "call_service"
"""The tool whose calls may have an effect outside; which of them do, and which of those are keyed, it does not say."""


class Selective(Announced):
    """Keeps the critical steps and every *every*th, and the last; of the other steps it drops writes and checkpoint.

    Only what is kept is announced as durable. LangGraph does not learn that anything was dropped, so a kept checkpoint
    is given the kept one before it for a parent, and what PostgresSaver is told to be new includes what was new in
    between. Then a channel that is stored whole is right in every kept checkpoint. A `DeltaChannel` is the sum of the
    writes along the parents, and silently lacks those of every dropped step.
    """

    def __init__(self, agent: Agent, inner: Saver, every: int) -> None:
        super().__init__(agent, inner)
        self._every = every
        self._dropped = set[str]()  # by the checkpoint that the step came from
        self._parent: str | None = None  # of what is kept next, if something was dropped since
        self._changed: ChannelVersions = {}

    def put_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        written = dict(writes)
        if "steps" not in written or self._is_kept(written):
            super().put_writes(config, writes, task_id, task_path)
        else:
            self._dropped.add(config["configurable"]["checkpoint_id"])
            self.arrive(config)

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        if step_of(checkpoint) >= 0:
            self.wait(config)
        came_from = config["configurable"].get("checkpoint_id")
        self._parent, self._changed = self._parent or came_from, {**self._changed, **new_versions}
        if came_from in self._dropped:
            return _at(config, checkpoint["id"])
        placed = super().put(_at(config, self._parent), checkpoint, metadata, self._changed)
        self._parent, self._changed = None, {}
        return placed

    def _is_kept(self, written: dict[str, Any]) -> bool:
        new = written["messages"]
        return int(written["steps"]) % self._every == 0 or critical(new if isinstance(new, list) else new["new"])


def critical(new: Sequence[Message]) -> bool:
    """Tell whether the step with the *new* messages is the last, or may have had an effect outside."""
    calls = [call["function"]["name"] for message in new for call in message.get("tool_calls", [])]
    return not calls or EFFECTFUL in calls


def _at(config: RunnableConfig, checkpoint: str | None) -> RunnableConfig:
    return {"configurable": {**config["configurable"], "checkpoint_id": checkpoint}}
