"""The agent on Temporal, killed for real: it comes back where the history ends, and the runtime replays in silence."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import random
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from chaos.durable import Durable, Lease
from chaos.events.seen import Exited, Reached, Reloaded
from chaos.faults import Fault
from chaos.faults.corrupt_delta import CorruptDelta
from chaos.faults.evict import Evict
from chaos.faults.kill import Kill
from chaos.faults.rate_limit import RateLimit
from chaos.plan import parse_plan
from chaos.pool import Pool
from chaos.record import Record
from chaos.run import Setup, execute
from chaos.scenario import Limits
from chaos.stores.temporal_sqlite import TemporalSqlite
from chaos.targets import Launch, Strategy
from chaos.targets.reference import CONFIG, Reference
from chaos.targets.reference.strategies.events import Events
from tests.cells import Ran
from tests.waiting import until

STEPS, SEED = 12, 7
MIDDLE = 7
MAIL = 2  # the step of the first key-less effect
LOAD, END = ("before_load", 0), ("finished", STEPS)
STRATEGY = Events("temporal")
FAULTS: dict[str, Fault] = {
    "kill": Kill(),
    "evict": Evict(grace=0.1),
    "rate_limit": RateLimit(),
    **{how: CorruptDelta(how, "first") for how in ("truncate", "delete", "duplicate")},
}
# Where the incarnations of one run are killed one after the other, and the step that each of them goes on from.
EVERY_PHASE = (
    ("0/before_load", 0),
    (f"{MAIL}/during_commit", 0),
    (f"{MAIL}/after_load", MAIL),
    ("3/before_think", MAIL),
    ("4/before_act", 3),
    ("5/after_act", 4),
    ("6/after_commit", 5),
    (f"{STEPS}/finished", 7),
)
AGAIN = 2  # of these, the phases in which the tools had been at work and nothing was on record

Run = Callable[[str], Ran]


@pytest.fixture(scope="module")
def servers() -> Iterator[Pool]:
    """Return a pool in which there can be a Temporal server; skips where there cannot."""
    pool = Pool()
    if missing := pool.missing("temporal"):
        pytest.skip(missing)
    yield pool
    pool.close()


@pytest.fixture(scope="module")
def execute_plan(servers: Pool, tmp_path_factory: pytest.TempPathFactory) -> Callable[[Strategy, str], Record]:
    target = Reference(steps=STEPS)

    def run(strategy: Strategy, text: str) -> Record:
        plan = parse_plan(text)
        limits = Limits(backoff_limit=max(1, len(plan.faults)))
        setup = Setup(
            target, strategy, SEED, target.brain(SEED), target.watch(), limits, FAULTS, TemporalSqlite(), pool=servers
        )
        record = execute(setup, plan, tmp_path_factory.mktemp("run"), random.Random(SEED))
        assert len(record.injections) == len(plan.faults)
        return record

    return run


@pytest.fixture(scope="module")
def run(execute_plan: Callable[[Strategy, str], Record]) -> Run:
    reference = execute_plan(STRATEGY, "no fault")
    return lambda plan: Ran(execute_plan(STRATEGY, plan), reference, Reference(steps=STEPS))


def lives(record: Record) -> list[list[tuple[str, int]]]:
    """Return what each incarnation announced."""
    reached = [event for event in record.events if isinstance(event, Reached)]
    attempts = sorted({event.attempt for event in reached})
    return [[(event.phase, event.step) for event in reached if event.attempt == attempt] for attempt in attempts]


def test_without_a_server_in_use_there_is_no_state() -> None:
    if missing := STRATEGY.missing():
        pytest.skip(missing)
    assert STRATEGY.load(Durable(Path("/nonexistent"))) is None


def test_a_server_that_is_gone_is_no_empty_store(tmp_path: Path) -> None:
    if missing := STRATEGY.missing():
        pytest.skip(missing)
    with pytest.raises(RuntimeError, match="Failed client connect"):
        STRATEGY.load(Durable(tmp_path, {"temporal": Lease("127.0.0.1:1", "x-")}))


def test_a_run_is_that_of_any_other_strategy(execute_plan: Callable[[Strategy, str], Record], run: Run) -> None:
    """The same points, with the same digests, as where the state is written to a plain file."""
    plain = execute_plan(Reference().strategy("cow", {}), "no fault")
    said = [
        [(event.phase, event.step, event.state) for event in record.events if isinstance(event, Reached)]
        for record in (plain, run("rate_limit@5/before_think").reference)
    ]
    assert said[0] == said[1]


def test_a_loop_of_kills(run: Run) -> None:
    """Only a step that was cut off is done again, and only what is really done is announced."""
    ran = run("+".join(f"kill@{at}" for at, _ in EVERY_PHASE))
    announced = lives(ran.record)
    for (at, resumed), said in zip(EVERY_PHASE, announced, strict=False):
        step, phase = at.split("/")
        assert said[0] == LOAD and said[-1] == (phase, int(step))
        assert phase == "before_load" or said[1] == ("after_load", resumed)
        assert not [(phase, step) for phase, step in said[1:] if step < resumed]
    assert announced[len(EVERY_PHASE) :] == [[LOAD, ("after_load", STEPS), END]], "all was on record"
    assert ran.rpo == AGAIN
    committed = [step for said in announced for phase, step in said if phase == "after_commit"]
    assert committed == list(range(STEPS)), "every step once"
    assert set(ran.broken()) == {"effects"}, "the mail that was sent in the step that was cut off"


def test_what_is_lost_with_the_disk(run: Run) -> None:
    broken = run(f"evict@{MIDDLE}/before_act").broken()
    assert {"files", "processes"} <= set(broken) and "environment" not in broken


def test_a_rate_limit_is_waited_out(run: Run) -> None:
    assert run("rate_limit@5/before_think").broken() == {}


@pytest.mark.parametrize("how", ["truncate", "delete", "duplicate"])
def test_a_damaged_history_is_refused(run: Run, how: str) -> None:
    ran = run(f"{how}@{MIDDLE}/after_commit")
    assert lives(ran.record)[1:] == [[LOAD]]
    assert [event.status for event in ran.record.events if isinstance(event, Exited)] == [-signal.SIGKILL, 1]
    (reloaded,) = (event for event in ran.record.events if isinstance(event, Reloaded))
    assert reloaded.error


# -- incarnations by hand


@pytest.fixture
def bench(make_bench: Callable[..., Any], servers: Pool) -> Iterator[Any]:
    bench = make_bench(Reference(steps=STEPS))
    with servers.leases(["temporal"]) as leases:
        bench.leases.update(leases.parts)
        yield bench


def points(bench: Any, since: int = 0) -> list[tuple[str, int]]:
    return [(said.point, said.step) for said in bench.points[since:]]


def test_sigterm_ends_the_process_and_not_the_workflow(bench: Any) -> None:
    for at in (f"{MIDDLE}/after_act", f"{MIDDLE}/after_commit"):
        assert bench.incarnation(STRATEGY, at, lambda bench: bench.terminate()) not in (0, -signal.SIGKILL)
        until(lambda: bench.tree() == [], "what it had started ends with it")
    assert bench.incarnation(STRATEGY) == 0, bench.error
    assert bench.final()["steps"] == STEPS and bench.asked_again() == 1


@dataclasses.dataclass(frozen=True)
class Short(Reference):
    """An agent that may take only a few steps."""

    def launch(self, strategy: Strategy, seed: int, root: Path) -> Launch:
        made = super().launch(strategy, seed, root)
        return Launch(made.command, {**made.env, CONFIG: json.dumps({**json.loads(made.env[CONFIG]), "max_steps": 5})})


def test_an_error_of_the_agent_is_loud_and_not_recorded(bench: Any) -> None:
    """As with every other strategy: the process ends with the error, and the next one tries again."""
    bench.target = Short(steps=STEPS)
    assert bench.incarnation(STRATEGY) == 1
    assert "BudgetExhausted: 5 steps are used" in bench.error
    bench.target = Reference(steps=STEPS)
    assert bench.incarnation(STRATEGY) == 0, bench.error
    assert bench.final()["steps"] == STEPS and bench.asked_again() == 0


def test_a_step_that_nobody_had_taken_waits_for_the_replay(bench: Any) -> None:
    """The server gives it to the first worker that asks, also to one that does not have the workflow."""
    assert bench.incarnation(STRATEGY, "3/after_act", lambda bench: bench.kill()) == -signal.SIGKILL
    asyncio.run(_lose_attempt(bench.leases["temporal"]))
    since = len(bench.points)
    assert bench.incarnation(STRATEGY) == 0, bench.error
    assert points(bench, since)[:3] == [LOAD, ("after_load", 3), ("before_think", 3)]
    assert bench.final() == bench.reload(STRATEGY)


async def _lose_attempt(lease: Lease) -> None:
    """End the attempt that is under way: the next one is waiting for a worker when this returns."""
    from temporalio.client import Client

    client = await Client.connect(lease.url)
    (execution,) = [found async for found in client.list_workflows(f"WorkflowId STARTS_WITH '{lease.space}'")]
    description = await client.get_workflow_handle(execution.id).describe()
    (pending,) = description.raw_description.pending_activities
    attempt = client.get_async_activity_handle(
        workflow_id=execution.id, run_id=execution.run_id, activity_id=pending.activity_id
    )
    await attempt.fail(RuntimeError("lost"))
