"""The agent as an AWS Lambda durable function, in the local runner of AWS's SDK and on its SQLite store.

The service that keeps the checkpoints and invokes again is AWS's own; without it there is the SDK's testing runner,
here in the agent's process. Its store is in the durable zone and outlives both, but there is no public call that takes
up an execution of an earlier process: `_launch_execution` is private. (The runner as a server of its own is no way
out: killed and started again, it leaves its executions RUNNING and invokes nothing.) Each checkpoint rewrites the
whole execution as one JSON value, with every record in it twice: the time for N steps grows with N squared.
"""

from __future__ import annotations

import json
import logging
import sqlite3
from contextlib import closing
from functools import partial

from aws_durable_execution_sdk_python.context import DurableContext
from aws_durable_execution_sdk_python.execution import durable_execution
from aws_durable_execution_sdk_python.lambda_service import OperationStatus
from aws_durable_execution_sdk_python.serdes import deserialize
from aws_durable_execution_sdk_python.types import StepContext
from aws_durable_execution_sdk_python_testing.execution import Execution
from aws_durable_execution_sdk_python_testing.runner import DurableFunctionTestRunner
from aws_durable_execution_sdk_python_testing.stores.sqlite import SQLiteExecutionStore

from chaos.durable import Durable
from chaos.targets.reference.agent import State, done, start, turns
from chaos.targets.reference.incarnation import Agent
from chaos.targets.reference.release import step_name
from chaos.targets.reference.replay import Foreground, Recorded, Replay, applied
from chaos.targets.reference.snapshot import CorruptStore

DATABASE = "aws.sqlite"
RUNNING, SUCCEEDED = "RUNNING", "SUCCEEDED"
IDLE_SECONDS = 0.05  # how long the end of an execution goes unnoticed
NO_LIMIT_SECONDS = 7 * 24 * 3600  # the runner ends an execution after 5 minutes by default, an invocation after 15


class Failed(Exception):
    """The execution has failed, for good."""


def drive(agent: Agent) -> None:
    """Begin the execution of *agent*, or take it up, and see it to its end."""
    logging.disable(logging.WARNING)  # the runner comments on every invocation
    replay = Replay(agent)
    store = SQLiteExecutionStore.create_and_initialize(agent.durable.folder / DATABASE)
    execution = _stored(agent.durable)
    if execution is None or not execution.is_complete:
        with Foreground() as foreground:
            execution = _executed(agent, store, execution, replay, foreground)
    if execution.current_status().value != SUCCEEDED:
        raise Failed(f"the execution is {execution.current_status().value}: {execution.result}")
    replay.finished(_replayed(execution))


def _executed(
    agent: Agent, store: SQLiteExecutionStore, begun: Execution | None, replay: Replay, foreground: Foreground
) -> Execution:
    """Run a new execution, or go on with the one that has *begun*, and return it when it is complete."""

    def turn(state: State, step: StepContext) -> Recorded:
        return foreground.do(replay.execute, state)

    @durable_execution
    def handler(event: dict[str, str], context: DurableContext) -> None:
        state = start(event["goal"])
        while not done(state):
            # A step that was cut off is done again: "at least once" is the SDK's default.
            recorded = context.step(partial(turn, state), name=_name(state))
            state = foreground.do(replay.returned, state, recorded)

    with DurableFunctionTestRunner(
        handler, store=store, execution_timeout=NO_LIMIT_SECONDS, invocation_timeout=NO_LIMIT_SECONDS
    ) as runner:
        if begun is None:
            arn = runner.run_async(json.dumps({"goal": agent.goal}), execution_name=agent.thread)
        else:
            arn = begun.durable_execution_arn
            runner._executor._launch_execution(begun, NO_LIMIT_SECONDS)
        foreground.serve(lambda: _status(store, arn) != RUNNING, IDLE_SECONDS)
    return store.load(arn)


def stored(durable: Durable) -> State | None:
    """Return what a new invocation replays in *durable*, None if there is no execution.

    Raises:
        CorruptStore: the execution or a record in it cannot be read.
    """
    try:
        execution = _stored(durable)
        return _replayed(execution) if execution else None
    except (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError) as error:
        raise CorruptStore(f"the execution cannot be read: {error}") from error


def _stored(durable: Durable) -> Execution | None:
    """Return the execution in *durable*. The store's own search passes over one that it cannot read; this does not."""
    path = durable.folder / DATABASE
    if not path.exists():
        return None
    with closing(sqlite3.connect(path)) as database:
        if not database.execute("SELECT 1 FROM sqlite_master WHERE name = 'executions'").fetchone():
            return None
        found = database.execute("SELECT durable_execution_arn FROM executions").fetchone()
    return SQLiteExecutionStore(path).load(found[0]) if found else None


def _replayed(execution: Execution) -> State:
    """Return the state that the records of *execution* lead to; a replay stops where one is missing."""
    records = {
        each.name: each.step_details for each in execution.operations if each.status is OperationStatus.SUCCEEDED
    }
    state = start(json.loads(execution.start_input.input or "")["goal"])
    while (details := records.get(_name(state))) is not None:
        data = details.result or ""
        state = applied(state, deserialize(None, data, "", execution.durable_execution_arn))
    return state


def _name(state: State) -> str:
    return f"{step_name('turn')} {turns(state)}"


def _status(store: SQLiteExecutionStore, arn: str) -> str:
    found = store.get_execution_metadata(arn)
    assert found is not None
    return str(found["status"])
