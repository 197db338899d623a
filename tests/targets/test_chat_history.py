"""The four forms of the chat history: where each is when it is killed, and what each costs in bytes."""

from __future__ import annotations

import random
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from chaos.errors import ScenarioError
from chaos.faults.corrupt_delta import CorruptDelta
from chaos.faults.kill import Kill
from chaos.plan import parse_plan
from chaos.pool import Pool
from chaos.record import Record
from chaos.run import Setup, execute
from chaos.scenario import Limits
from chaos.stores.redis_history import RedisHistory
from chaos.targets import Strategy
from chaos.targets.reference import Reference
from chaos.targets.reference.history import lines

FORMS = [(database, write) for database in ("jsonl", "redis") for write in ("append", "rewrite")]
SEED = 7
STEPS = 12
MAIL = 2  # the step of the key-less effect

# Any: the bench is a class of conftest.py, which cannot be imported under --import-mode=importlib
Make = Callable[..., Any]
Give = Callable[[Any, str], None]


def strategy(database: str, write: str) -> Strategy:
    return Reference().strategy("chat_history", {"database": database, "write": write})


def given(make_bench: Make, lease: Give, database: str) -> Any:
    bench = make_bench(Reference(steps=STEPS))
    if database == "redis":
        lease(bench, "redis")
    return bench


def test_what_each_form_needs_and_is_damaged_through() -> None:
    assert (strategy("jsonl", "rewrite").needs, strategy("jsonl", "rewrite").store) == ((), "jsonl")
    assert (strategy("redis", "append").needs, strategy("redis", "append").store) == (("redis",), "redis_history")
    for option in ("database", "write"):
        with pytest.raises(ScenarioError, match=rf"{option} must be \w+ or \w+ \(got 'other'\)"):
            Reference().strategy("chat_history", {option: "other"})


def test_all_forms_keep_the_same_lines(make_bench: Make, lease: Give) -> None:
    kept = {}
    for database, write in FORMS:
        bench = given(make_bench, lease, database)
        assert bench.incarnation(strategy(database, write)) == 0, bench.error
        assert bench.reload(strategy(database, write))["messages"] == bench.final()["messages"]
        commits = [(p.step, p.state) for p in bench.points if p.point == "after_commit"]
        kept[database, write] = (bench.final(), commits, stored(bench, database))
    assert kept["jsonl", "append"][2] and len(kept["jsonl", "append"][1]) == STEPS
    assert all(each == kept["jsonl", "append"] for each in kept.values())


def stored(bench: Any, database: str) -> list[bytes]:
    """Return the stored lines, read without the code under test where they are on a server."""
    if database == "jsonl":
        assert [path.name for path in (bench.root / "durable").iterdir()] == ["history.jsonl"]
        return lines(bench.root / "durable")
    import redis

    found = bench.leases["redis"]
    with redis.Redis.from_url(found.url) as client:
        (key,) = client.scan_iter(match=f"{found.space}*")
        assert key.decode() == f"{found.space}history:t-1"
        if client.type(key) == b"list":
            return list(client.lrange(key, 0, -1))
        return list(client.get(key).split(b"\n")[:-1])


# How often the step of the key-less e-mail is done again after SIGKILL at a phase of it. Only an appended line is where
# a new process finds it before the commit is done: in the kernel's page cache.
AGAIN = {
    ("jsonl", "append"): {"during_commit": 0},
    ("jsonl", "rewrite"): {"after_act": 1, "during_commit": 1, "after_commit": 0},
    ("redis", "append"): {"before_think": 0, "before_act": 0, "after_act": 1, "during_commit": 1, "after_commit": 0},
    ("redis", "rewrite"): {"during_commit": 1, "after_commit": 0},
}


@pytest.mark.parametrize(("form", "phase"), [(form, phase) for form, phases in AGAIN.items() for phase in phases])
def test_redone_effects(make_bench: Make, lease: Give, form: tuple[str, str], phase: str) -> None:
    bench = given(make_bench, lease, form[0])
    bench.crashed(strategy(*form), f"{MAIL}/{phase}", type(bench).kill)
    again = AGAIN[form][phase]
    assert bench.effects().count("email.send") == 1 + again
    resumed = [p.step for p in bench.points if p.point == "after_load"]
    assert resumed == [0, MAIL + (phase.endswith("commit") and not again)]


def run(folder: Path, pool: Pool, write: str, plan: str, target: Reference, how: Any = "flip") -> Record:
    """Have the harness itself run the agent on Redis, with a fault."""
    if missing := pool.missing("redis"):
        pytest.skip(missing)
    made, brain = strategy("redis", write), target.brain(SEED)
    faults = {"kill": Kill(), "corrupt_delta": CorruptDelta(how=how)}
    setup = Setup(target, made, SEED, brain, target.watch(), Limits(), faults, RedisHistory(), pool=pool)
    return execute(setup, parse_plan(plan), folder, random.Random(SEED))


@pytest.mark.parametrize(
    ("write", "how"), [("append", "truncate"), ("rewrite", "truncate"), ("append", "delete"), ("rewrite", "duplicate")]
)
def test_damage_on_the_server(tmp_path: Path, pool: Pool, write: str, how: str) -> None:
    """Half a JSON text is refused; a step that is gone or there twice goes unnoticed."""
    record = run(tmp_path, pool, write, "corrupt_delta@6/after_commit", Reference(steps=STEPS), how)
    (damaged,) = record.damages
    assert (damaged.store, damaged.how, damaged.where.partition("of ")[2]) == ("RedisHistory", how, "8")
    assert damaged.digest_before != damaged.digest_after
    killed, resumed, *_ = record.exits
    assert killed.status == -signal.SIGKILL
    if how == "truncate":
        assert resumed.status == 1 and "JSONDecodeError" in resumed.log
    else:
        loaded = [point.step for point in record.points if point.phase == "after_load"]
        assert resumed.status == 0 and loaded == [0, {"delete": 6, "duplicate": 8}[how]]


def test_the_cost_in_bytes(tmp_path: Path, pool: Pool) -> None:
    """Both ways keep the same bytes; rewriting writes them steps / 2 times over. The text cannot be compressed."""
    stored, written = {}, {}
    for write in ("append", "rewrite"):
        target = Reference(workload="long_notes", steps=STEPS, bytes_per_step=20_000)
        record = run(tmp_path / write, pool, write, "kill@6/during_commit", target)
        assert [event.status for event in record.exits] == [-signal.SIGKILL, 0]
        stored[write] = record.exits[-1].stored_bytes
        written[write] = record.exits[-1].elsewhere_bytes
    assert 20_000 * STEPS < stored["append"] < 1.2 * 20_000 * STEPS
    assert abs(stored["append"] - stored["rewrite"]) < 2_000
    if written["append"] == 0:
        pytest.skip("the temporary folder is in memory: nothing is written to a disk")
    assert stored["append"] < written["append"] < 1.5 * stored["append"]
    assert written["rewrite"] > 4 * written["append"]
