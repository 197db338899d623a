"""The agent as a DBOS workflow: what a step leaves on record is a row of `operation_outputs`."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Literal, cast

import sqlalchemy
from dbos import DBOS, DBOSClient, DBOSConfig, SetWorkflowID, StepInfo, WorkflowHandle

from chaos.durable import Durable
from chaos.targets.reference.agent import State, done, start
from chaos.targets.reference.incarnation import Agent
from chaos.targets.reference.release import step_name
from chaos.targets.reference.replay import Foreground, Recorded, Replay, applied
from chaos.targets.reference.snapshot import CorruptStore

DATABASE = "dbos.sqlite"
NAME = "reference-agent"
WORKFLOW, STEP, QUEUE = "agent", "turn", "agents"
VERSION = "1"  # by default a hash of the source: a program that changed by a comment would recover nothing
EXECUTOR = "agent"  # every incarnation is the same executor: DBOS recovers only what that one left pending
POLL_SECONDS = 0.05  # DBOS looks once a second by default, which would be the floor of every recovery
IDLE_SECONDS = 0.05  # how long the end of the workflow goes unnoticed
FINAL = frozenset({"SUCCESS", "ERROR", "CANCELLED", "MAX_RECOVERY_ATTEMPTS_EXCEEDED"})

Database = Literal["sqlite", "postgres"]


def drive(agent: Agent, database: Database) -> None:
    """Begin the workflow of *agent*, or have DBOS recover it, and see it to its end.

    DBOS is not shut down: its threads are no obstacle to the end of the process, and joining them takes a second.
    """
    replay = Replay(agent)
    with Foreground() as foreground:
        handle = _launched(agent, replay, foreground, _url(agent.durable, database))
        foreground.serve(lambda: handle.get_status().status in FINAL, IDLE_SECONDS)
    handle.get_result(polling_interval_sec=POLL_SECONDS)  # raises what the workflow has failed with
    state = stored(agent.durable, database)
    assert state is not None
    replay.finished(state)


def _launched(agent: Agent, replay: Replay, foreground: Foreground, url: str) -> WorkflowHandle[None]:
    """Launch DBOS with the workflow of *agent*, which it begins or goes on with at once, in a thread of its own."""

    # Of a workflow DBOS records the input, of a step the output. The state is in neither.
    @DBOS.step(name=step_name(STEP))
    def turn(state: State) -> Recorded:
        return foreground.do(replay.execute, state)

    @DBOS.workflow(name=WORKFLOW, max_recovery_attempts=None)  # the 100 by default would be a limit to many kills
    def workflow(goal: str) -> None:
        state = start(goal)
        while not done(state):
            state = foreground.do(replay.returned, state, turn(state))

    DBOS.migrate(url)
    client = DBOSClient(system_database_url=url, application_name=NAME)
    # A recovered workflow goes back to its queue, and DBOS's own polls at 1 s. Known before the launch, this one
    # is served at once.
    client.register_queue(QUEUE, polling_interval_sec=POLL_SECONDS)
    client.destroy()
    config = DBOSConfig(name=NAME, system_database_url=url, log_level="ERROR")
    DBOS(config={**config, "application_version": VERSION, "executor_id": EXECUTOR})
    DBOS.launch()
    if DBOS.get_workflow_status(agent.thread) is None:
        with SetWorkflowID(agent.thread):
            return DBOS.enqueue_workflow(QUEUE, workflow, agent.goal)
    return DBOS.retrieve_workflow(agent.thread)


def stored(durable: Durable, database: Database) -> State | None:
    """Return what a recovery replays in *durable*, None if there is no workflow.

    Raises:
        CorruptStore: a record cannot be read.
    """
    if database == "sqlite" and not (durable.folder / DATABASE).exists():
        return None
    with ExitStack() as stack:
        url = sqlalchemy.make_url(_url(durable, database))
        engine = sqlalchemy.create_engine(url if database == "sqlite" else url.set(drivername="postgresql+psycopg"))
        stack.callback(engine.dispose)
        tables = sqlalchemy.inspect(engine).get_table_names(None if database == "sqlite" else "dbos")
        if "operation_outputs" not in tables:
            return None
        client = DBOSClient(system_database_engine=engine, application_name=NAME)
        stack.callback(client.destroy)
        found = client.list_workflows(name=WORKFLOW, load_output=False)
        if not found:
            return None
        given = found[0].input
        if not isinstance(given, dict):
            raise CorruptStore(f"the input of the workflow {found[0].workflow_id} cannot be read")
        return _replayed(start(given["args"][0]), client.list_workflow_steps(found[0].workflow_id))


def _replayed(state: State, steps: list[StepInfo]) -> State:
    """Return the state that the records of *steps* lead to; a replay stops where one is missing."""
    for number, step in enumerate(steps, 1):  # DBOS counts steps from 1
        if step["function_id"] != number:
            break
        recorded = step["output"]
        if not isinstance(recorded, dict):  # DBOS's client gives what it cannot unpickle as text
            raise CorruptStore(f"the record of step {number - 1} cannot be read")
        state = applied(state, cast(Recorded, recorded))
    return state


def _url(durable: Durable, database: Database) -> str:
    return f"sqlite:///{durable.folder / DATABASE}" if database == "sqlite" else durable.leases["postgres"].url
