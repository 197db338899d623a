"""The agent as a Temporal workflow: what a step leaves on record is the result of an activity, in the server's history.

The workflow and its activities are in one process, the agent's, and share the state in its memory. As an argument of
every activity the conversation would make the history quadratic, and the server ends a workflow at 50 MB.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import sys
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import timedelta

from temporalio import activity, workflow
from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.enums.v1 import PendingActivityState
from temporalio.api.workflowservice.v1 import ResetStickyTaskQueueRequest
from temporalio.client import Client, WorkflowExecutionDescription, WorkflowExecutionStatus, WorkflowHandle
from temporalio.common import RetryPolicy, WorkflowIDReusePolicy
from temporalio.exceptions import TemporalError
from temporalio.service import RetryConfig, RPCError, RPCStatusCode
from temporalio.worker import Replayer, UnsandboxedWorkflowRunner, Worker

from chaos.durable import Durable, Lease
from chaos.targets.reference.agent import State, done, start, turns
from chaos.targets.reference.incarnation import Agent
from chaos.targets.reference.release import step_name
from chaos.targets.reference.replay import Foreground, Recorded, Replay, Stopped, applied
from chaos.targets.reference.snapshot import CorruptStore

NAMESPACE = "default"
WORKFLOW, STEP, TAKEN, QUEUE = "agent", "turn", "taken", "agents"
IDLE_SECONDS = 0.05  # how long the end of the workflow goes unnoticed
# After this time the server would take a step for lost and begin it again beside the first attempt. A lost worker is
# known to the one that follows it (see `_take_over`), so that nothing hangs on a time, nor on heartbeats.
NO_LIMIT = timedelta(days=7)
# An attempt that failed was cut off, and whoever is there now shall have it at once. There is no last attempt.
AGAIN = RetryPolicy(initial_interval=timedelta(milliseconds=1), backoff_coefficient=1.0)
# What is meant for the queue of a worker that is gone goes to all after this time, by default after 10 s: now and then
# the server forgets that this queue was reset.
STICKY = timedelta(seconds=1)
# What is wrong with a history the server hides behind "internal history service error", and a client asks again.
IMPATIENT = RetryConfig(max_elapsed_time_millis=2000)

Advance = Callable[[State, Recorded], State]


class Lost(Exception):
    """The worker of an attempt is gone."""


class Elsewhere(Exception):
    """Another worker has the workflow: the server is to give it the step."""


class Work:
    """What the workflow and its activities share: the workflow's *state*, which goes on by *after*."""

    def __init__(self, after: Advance) -> None:
        self.state: State | None = None
        self.after = after


_works: dict[str, Work] = {}
"""By the workflow's id: the SDK makes the workflow's object from its class, by itself."""


@workflow.defn(name=WORKFLOW)
class Workflow:
    """The agent's loop. The SDK does not let its thread be held up: no points are announced here."""

    @workflow.run
    async def run(self, goal: str) -> None:
        work, state = _works[workflow.info().workflow_id], start(goal)
        work.state = state
        while not done(state):
            recorded = await workflow.execute_activity(
                step_name(STEP), turns(state), start_to_close_timeout=NO_LIMIT, retry_policy=AGAIN
            )
            work.state = state = work.after(state, recorded)

    @workflow.query(name=TAKEN)
    def taken(self) -> None:
        """Answer when all that is on record was taken up."""


class Turns:
    """The activity."""

    def __init__(self, work: Work, replay: Replay, foreground: Foreground) -> None:
        self._work, self._replay, self._foreground = work, replay, foreground

    def registered(self) -> Callable[[int], Recorded]:
        """Return `turn` as the activity by the name that this release calls it."""

        @activity.defn(name=step_name(STEP), no_thread_cancel_exception=True)
        def turn(step: int) -> Recorded:
            return self.turn(step)

        return turn

    def turn(self, step: int) -> Recorded:
        """Do *step*, the one that follows the state. Without an outcome when the process is ending.

        The server gives a step to any worker; a second one on this thread does not have the workflow's state.
        """
        if self._work.state is None or turns(self._work.state) != step:
            raise Elsewhere(f"step {step} is not the next one of the state that this worker has")
        try:
            return self._foreground.do(self._execute, step)
        except Stopped:
            activity.raise_complete_async()  # it was not; the attempt stays under way, as with a kill

    def _execute(self, step: int) -> Recorded:
        state = self._work.state
        assert state is not None and turns(state) == step
        return self._replay.execute(state)


def drive(agent: Agent) -> None:
    """Begin the workflow of *agent*, or go on with it, and see it to its end."""
    replay, ended = Replay(agent), Future[None]()
    work = Work(replay.after)
    with ThreadPoolExecutor(max_workers=1) as pool, Foreground() as foreground:
        try:
            worked = pool.submit(asyncio.run, _worked(agent, work, Turns(work, replay, foreground), ended))
            foreground.serve(worked.done, IDLE_SECONDS)
        except BaseException as error:
            status = error.code if isinstance(error, SystemExit) else 1
            atexit.register(_leave, status if isinstance(status, int) else 1)
            raise
        finally:
            ended.set_result(None)
    worked.result()  # raises what went wrong
    state = work.state if work.state is not None and done(work.state) else stored(agent.durable)  # ended by another
    assert state is not None
    replay.finished(state)


def _leave(status: int) -> None:
    """End the process instead of tearing the interpreter down.

    An error leaves requests under way, and the SDK's native threads come back with them: into an interpreter that is
    being torn down, where about one of fifteen hangs for good or aborts.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


async def _worked(agent: Agent, work: Work, turns: Turns, ended: Future[None]) -> None:
    """Work on the workflow of *agent* until its end, or until *ended* says that of the process."""
    lease = agent.durable.leases["temporal"]
    client, queue = await Client.connect(lease.url, namespace=NAMESPACE), lease.space + QUEUE
    asking = await _asking(lease)
    handle: WorkflowHandle[Workflow, None] = asking.get_workflow_handle(lease.space + WORKFLOW)
    begun = await _described(handle)
    if begun is None:
        await asking.start_workflow(
            WORKFLOW,
            agent.goal,
            id=handle.id,
            task_queue=queue,
            id_reuse_policy=WorkflowIDReusePolicy.REJECT_DUPLICATE,
        )
    _works[handle.id] = work
    runner = UnsandboxedWorkflowRunner()  # a sandbox would have a memory of its own
    with ThreadPoolExecutor(max_workers=1) as executor:
        async with Worker(
            client,
            task_queue=queue,
            workflows=[Workflow],
            workflow_runner=runner,
            sticky_queue_schedule_to_start_timeout=STICKY,
        ):
            if begun is not None:
                await _take_over(asking, handle, begun)
            # Not before the state is there: the server gives a step to a worker that does not have the workflow, too.
            async with Worker(client, task_queue=queue, activities=[turns.registered()], activity_executor=executor):
                result = asyncio.create_task(client.get_workflow_handle(handle.id).result())
                await asyncio.wait({result, asyncio.wrap_future(ended)}, return_when=asyncio.FIRST_COMPLETED)
    if result.done():
        result.result()
    result.cancel()


async def _take_over(
    client: Client, handle: WorkflowHandle[Workflow, None], begun: WorkflowExecutionDescription
) -> None:
    """Replay the workflow that has *begun*, and have done again what was under way: the worker that had it is gone.

    Of an agent there is one incarnation at a time, and this is the beginning of ours. The server by itself would wait
    for the time limit.
    """
    if begun.status is WorkflowExecutionStatus.RUNNING:
        execution = WorkflowExecution(workflow_id=begun.id, run_id=begun.run_id or "")
        await client.workflow_service.reset_sticky_task_queue(  # what comes next would go to the worker that had it
            ResetStickyTaskQueueRequest(namespace=NAMESPACE, execution=execution)
        )
    await handle.query(TAKEN)
    for pending in begun.raw_description.pending_activities:
        if pending.state == PendingActivityState.PENDING_ACTIVITY_STATE_STARTED:
            attempt = client.get_async_activity_handle(
                workflow_id=begun.id, run_id=begun.run_id, activity_id=pending.activity_id
            )
            await attempt.fail(Lost(f"the worker of attempt {pending.attempt} is gone"))


def stored(durable: Durable) -> State | None:
    """Return what a replay of the workflow's history leads to, None if there is no workflow.

    Raises:
        CorruptStore: the replay fails.
        RPCError: the server does not give the history.
    """
    lease = durable.leases.get("temporal")
    return asyncio.run(_replayed(lease)) if lease else None


async def _replayed(lease: Lease) -> State | None:
    handle = (await _asking(lease)).get_workflow_handle(lease.space + WORKFLOW)
    if await _described(handle) is None:
        return None
    history = await handle.fetch_history()
    work = _works[handle.id] = Work(applied)
    try:
        await Replayer(workflows=[Workflow], workflow_runner=UnsandboxedWorkflowRunner()).replay_workflow(history)
    except (RuntimeError, TemporalError, ValueError) as error:
        raise CorruptStore(f"the history of the workflow {handle.id} cannot be replayed: {error}") from error
    return work.state


async def _asking(lease: Lease) -> Client:
    return await Client.connect(lease.url, namespace=NAMESPACE, retry_config=IMPATIENT)


async def _described(handle: WorkflowHandle[Workflow, None]) -> WorkflowExecutionDescription | None:
    """Return what the server knows of the workflow, None if there is none."""
    try:
        return await handle.describe()
    except RPCError as error:
        if error.status is RPCStatusCode.NOT_FOUND:
            return None
        raise
