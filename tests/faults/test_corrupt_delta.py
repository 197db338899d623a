"""Changed bytes in a real store, proved by reading them back: by the fault, and by the agent that resumes."""

import json
import re
import shutil
import sqlite3
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest

from chaos.durable import Durable
from chaos.events.done import Audited, StoreDamaged
from chaos.events.seen import Exited
from chaos.faults.corrupt_delta import CorruptDelta
from chaos.journal import AnyEvent
from chaos.stores import Store
from chaos.stores.jsonl import Jsonl
from chaos.stores.langgraph_sqlite import DATABASE, LanggraphSqlite
from chaos.verdict import CellVerdict
from tests import toy

HOWS = ("flip", "truncate", "delete", "duplicate", "reorder")
AT = "corrupt_delta@1/after_commit"

# Both agents stand at a point when all is stored, and tell after each start what is in the store.
READS_LOG = """
if not toy.LOG.exists(): toy.LOG.write_text('"one"\\n"two"\\n"three"\\n')
say([line.hex() for line in toy.LOG.read_bytes().split(b"\\n")[:-1]])
point("after_commit", 1)
"""
READS_DATABASE = """
import shutil, sqlite3
database = toy.DURABLE / "state.db"
if not database.exists(): shutil.copy(Path(os.environ["CHAOS_ASSETS"]) / "state.db", database)
rows = sqlite3.connect(database).execute(
    "SELECT value FROM writes WHERE channel = 'messages' ORDER BY checkpoint_id, task_id, idx")
say([value.hex() for value, in rows])
point("after_commit", 1)
"""


@dataclass(frozen=True)
class Given(toy.Toy):
    """The toy with a database among its assets."""

    database: str = ""

    def prepare(self, assets: Path, seed: int) -> None:
        if self.database:
            shutil.copy(self.database, assets / DATABASE)


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A thread of four messages that LangGraph itself stored, the first two of them covered by a snapshot."""
    from langgraph.channels import DeltaChannel
    from langgraph.checkpoint.sqlite import SqliteSaver
    from langgraph.graph import END, START, StateGraph

    def extend(state: list[str], writes: list[list[str]]) -> list[str]:
        return [*state, *(item for write in writes for item in write)]

    class State(TypedDict):
        messages: Annotated[list[str], DeltaChannel(extend, snapshot_frequency=2)]
        steps: int

    def turn(state: State) -> dict[str, object]:
        return {"messages": [f"message {state['steps']}"], "steps": state["steps"] + 1}

    path = tmp_path_factory.mktemp("store") / DATABASE
    graph = StateGraph(State).add_node("turn", turn).add_edge(START, "turn")
    graph.add_conditional_edges("turn", lambda state: "turn" if state["steps"] < 4 else END)
    connection = sqlite3.connect(path, check_same_thread=False)
    config: Any = {"configurable": {"thread_id": "t"}}
    graph.compile(checkpointer=SqliteSaver(connection)).invoke({"messages": ["goal"], "steps": 0}, config)
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    return path


@pytest.fixture(params=["jsonl", "langgraph_sqlite"])
def store(request: pytest.FixtureRequest) -> Store:
    stores: dict[str, Store] = {"jsonl": Jsonl(), "langgraph_sqlite": LanggraphSqlite()}
    return stores[request.param]


def run(folder: Path, fault: CorruptDelta, store: Store, database: Path, seed: int = toy.SEED) -> toy.Ran:
    code = READS_LOG if isinstance(store, Jsonl) else READS_DATABASE
    made = toy.setup(Given(code, database=str(database)), {"corrupt_delta": fault}, store=store)
    return toy.execute_plan(folder, made, AT, seed)


def seen(ran: toy.Ran) -> list[list[bytes]]:
    """What was in the store before the damage, and what the next incarnation found there."""
    return [[bytes.fromhex(text) for text in json.loads(said.replace("'", '"'))] for said in ran.told]


def bits(one: bytes, other: bytes) -> int:
    return (int.from_bytes(one, "big") ^ int.from_bytes(other, "big")).bit_count()


def the_difference(before: list[bytes], after: list[bytes]) -> tuple[str, int]:
    """Name the one change that leads from *before* to *after*, and where it is."""
    for at in range(len(before)):
        head, old, tail = before[:at], before[at], before[at + 1 :]
        if after == [*head, *tail]:
            return "delete", at
        if after == [*head, old, old, *tail]:
            return "duplicate", at
        if after == [*head, old[: len(old) // 2], *tail]:
            return "truncate", at
        for other in range(at + 1, len(before)):
            if after == [*head, before[other], *before[at + 1 : other], old, *before[other + 1 :]]:
                return "reorder", at
        if [*after[:at], *after[at + 1 :]] == [*head, *tail] and bits(after[at], old) == 1:
            return "flip", at
    raise AssertionError(f"more than one change: {before} became {after}")


@pytest.mark.parametrize("how", HOWS)
def test_the_next_incarnation_reads_exactly_one_changed_record(
    tmp_path: Path, how: Any, store: Store, database: Path
) -> None:
    # Of the records in the database one is live: for a second one that it changes places with, it takes the others.
    which: Any = "covered" if how == "reorder" and isinstance(store, LanggraphSqlite) else "live"
    ran = run(tmp_path, CorruptDelta(how, which), store, database)
    assert ran.statuses == [-9, 0]
    before, after = seen(ran)
    changed, at = the_difference(before, after)
    assert changed == how
    (damaged,) = ran.all(StoreDamaged)
    first, *second = (int(word) for word in re.findall(r"\d+", damaged.where.removesuffix(f" of {len(before)}")))
    assert (damaged.how, damaged.store) == (how, type(store).__name__)
    assert at + 1 in (first, *second) and bool(second) is (how == "reorder")
    at = first - 1  # of two, the one that was chosen
    assert damaged.bytes_before == len(before[at])
    assert how == "reorder" or damaged.bytes_after == {"delete": 0, "truncate": len(before[at]) // 2}.get(
        how, len(before[at])
    )
    (landed,) = ran.landed
    assert landed.how == f"killed, {how} in the store"
    assert landed.evidence["digest"] == f"{damaged.digest_before} -> {damaged.digest_after}"
    assert damaged.digest_before != damaged.digest_after


@pytest.mark.parametrize(("which", "place"), [("first", 1), ("latest", 5), ("covered", None), ("live", None)])
def test_which_record(tmp_path: Path, which: Any, place: int | None, database: Path) -> None:
    live = {delta.order for delta in LanggraphSqlite().deltas(Durable(database.parent)) if delta.live}
    assert live and len(live) < 5
    for seed in range(3):
        ran = run(tmp_path / str(seed), CorruptDelta(how="delete", which=which), LanggraphSqlite(), database, seed)
        _, at = the_difference(*seen(ran))
        if place is not None:
            assert at + 1 == place
        else:
            assert (at in live) is (which == "live")


def test_the_run_s_own_randomness_chooses(tmp_path: Path, database: Path) -> None:
    fault = CorruptDelta(how="flip")
    changed = [seen(run(tmp_path / str(n), fault, Jsonl(), database, n))[1] for n in (1, 1, 2, 3, 4)]
    assert changed[0] == changed[1]
    assert any(other != changed[0] for other in changed[2:])


def test_with_no_other_record_nothing_changes_places(tmp_path: Path, database: Path) -> None:
    assert run(tmp_path, CorruptDelta("reorder"), LanggraphSqlite(), database).landed == ()


@pytest.mark.parametrize("which", ["latest", "first"])
def test_the_only_one_changes_places_with_its_neighbour(tmp_path: Path, which: Any, database: Path) -> None:
    ran = run(tmp_path, CorruptDelta("reorder", which), LanggraphSqlite(), database)
    assert the_difference(*seen(ran)) == ("reorder", 3 if which == "latest" else 0)


@pytest.mark.parametrize("which", ["live", "covered"])
def test_with_no_such_record_it_misses(tmp_path: Path, which: Any) -> None:
    """Every line of a log is live, and before the first commit there is none at all."""
    point = "1/after_commit" if which == "covered" else "0/before_act"
    run, cell = toy.replay(tmp_path, CorruptDelta(which=which), f"corrupt_delta@{point}")
    assert run.landed == ()
    assert run.attempts == 2  # the agent was killed all the same
    assert run.verdict is cell.verdict is CellVerdict.NOT_EXERCISED
    assert run.missed == (f"corrupt_delta@{point} was injected and left no proof that it hit",)


@pytest.mark.parametrize("how", ["truncate", "flip"])
def test_a_change_of_nothing_is_no_damage(tmp_path: Path, how: Any, database: Path) -> None:
    """Half of an empty record is the empty record, and it has no bit to flip."""
    code = 'toy.LOG.write_text("\\n")\npoint("after_commit", 1)'
    made = toy.setup(toy.Toy(code), {"corrupt_delta": CorruptDelta(how=how)}, store=Jsonl())
    ran = toy.execute_plan(tmp_path, made, AT)
    assert ran.statuses == [-9, 0]
    assert ran.landed == ()


def test_a_database_without_tables_holds_no_record(tmp_path: Path, database: Path) -> None:
    """Killed between the creation of the file and that of its tables, the agent leaves such a one."""
    code = f'(toy.DURABLE / "{DATABASE}").touch()\npoint("after_commit", 1)'
    made = toy.setup(toy.Toy(code), {"corrupt_delta": CorruptDelta()}, store=LanggraphSqlite())
    ran = toy.execute_plan(tmp_path, made, AT)
    assert ran.statuses == [-9, 0]
    assert ran.landed == ()


LINKS = """
import shutil, sqlite3
database = toy.DURABLE / "state.db"
if not database.exists(): shutil.copy(Path(os.environ["CHAOS_ASSETS"]) / "state.db", database)
say(sqlite3.connect(database).execute("SELECT json_group_array(parent_checkpoint_id) FROM"
    " (SELECT parent_checkpoint_id FROM checkpoints ORDER BY checkpoint_id)").fetchone()[0])
point("after_commit", 1)
"""


def test_one_link_leads_nowhere_or_past_its_parent(tmp_path: Path, database: Path) -> None:
    leads = set()
    for seed in range(4):
        fault = {"corrupt_delta": CorruptDelta(how="swap_parent")}
        made = toy.setup(Given(LINKS, database=str(database)), fault, store=LanggraphSqlite())
        ran = toy.execute_plan(tmp_path / str(seed), made, AT, seed)
        before, after = map(json.loads, ran.told)
        [at] = [number for number in range(len(before)) if before[number] != after[number]]
        assert after[at] in (None, before[at - 1])
        (damaged,), (landed,) = ran.all(StoreDamaged), ran.landed
        assert damaged.where.startswith(f"link {at} of {len(before) - 1}, which leads ")
        assert damaged.where.endswith("nowhere" if after[at] is None else "past its parent")
        assert landed.how == "killed, swap_parent in the store"
        (audited,) = (one for one in ran.all(Audited) if one.when == "crashed")
        assert any(finding.startswith("unlinked: ") for finding in audited.findings)
        leads.add(after[at] is None)
    assert leads == {True, False}


@pytest.mark.parametrize(
    ("how", "finding"),
    [("delete", "missing"), ("duplicate", "doubled"), ("truncate", "undecodable"), ("reorder", "")],
)
def test_the_crashed_store_is_audited_before_anybody_heals_it(
    tmp_path: Path, how: Any, finding: str, database: Path
) -> None:
    which: Any = "covered" if how == "reorder" else "live"
    ran = run(tmp_path, CorruptDelta(how, which), LanggraphSqlite(), database)
    crashed, end = ran.all(Audited)
    assert (crashed.when, end.when, crashed.attempt) == ("crashed", "end", 1)
    assert ran.record.events.index(crashed) > ran.record.events.index(ran.all(StoreDamaged)[0])
    assert any(one.startswith(finding) for one in crashed.findings) if finding else crashed.findings == ()
    assert any("flipped bit" in text and "changed places" in text for text in crashed.blind)


def test_a_log_is_not_audited(tmp_path: Path, database: Path) -> None:
    assert run(tmp_path, CorruptDelta(), Jsonl(), database).all(Audited) == []


def test_it_suits_strategies_with_a_store_only() -> None:
    assert "no links" in CorruptDelta(how="swap_parent").unsuited(Jsonl(), toy.Keeps())
    assert CorruptDelta(how="swap_parent").unsuited(LanggraphSqlite(), toy.Keeps()) == ""
    assert CorruptDelta().unsuited(None, toy.Forgets()) == "the strategy stores no deltas"
    assert CorruptDelta().unsuited(Jsonl(), toy.Keeps()) == ""


def damage(before: str = "a", after: str = "b") -> StoreDamaged:
    return StoreDamaged(
        at=1.0, attempt=1, store="Jsonl", how="flip", where="delta 1 of 2",
        bytes_before=8, bytes_after=8, digest_before=before, digest_after=after,
    )  # fmt: skip


def exited(status: int) -> Exited:
    return Exited(at=2.0, attempt=1, status=status)


@pytest.mark.parametrize(
    ("events", "lands"),
    [
        ([damage(), exited(-9)], True),
        ([damage("a", "a"), exited(-9)], False),  # what was read back is what was there
        ([exited(-9)], False),
        ([damage(), exited(0)], False),  # it finished before the damage was done
        ([damage()], False),
        ([], False),
    ],
)
def test_a_death_and_bytes_read_back_are_the_proof(events: list[AnyEvent], lands: bool) -> None:
    assert (CorruptDelta().landed("1/after_commit", events) is not None) is lands
