"""What a database of PostgreSQL has, kept at an instant while its user is connected, and put back when that is dead."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from chaos.durable import Lease
from chaos.servers import _postgres_kept
from chaos.servers.postgres import Postgres, RunningPostgres

NAME = "postgres"
SCHEMA = """
CREATE SCHEMA other;
CREATE TABLE other.parents (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, name text UNIQUE,
                            "Twice" text GENERATED ALWAYS AS (name || name) STORED);
CREATE TABLE children (parent int REFERENCES other.parents, content bytea, more jsonb, at timestamptz, share float8);
CREATE TABLE bare (word text, gone int);
ALTER TABLE bare DROP COLUMN gone;
CREATE SEQUENCE numbers;
CREATE FUNCTION noted() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN INSERT INTO bare VALUES ('noted'); RETURN NEW; END $$;
CREATE TRIGGER noting AFTER INSERT ON children FOR EACH ROW EXECUTE FUNCTION noted();
"""
FIRST = r"""
INSERT INTO other.parents (name) VALUES ('one'), (E'tab\t, line\n, back\\slash'), (NULL);
INSERT INTO children VALUES (1, '\x00ff5c', '{"a": [1, "é"]}', now(), 0.1), (2, '', NULL, NULL, 'NaN');
INSERT INTO bare VALUES ('same'), ('same'), (NULL), ('\N'), ('');
SELECT nextval('numbers'), nextval('numbers');
"""
CHANGES = (
    FIRST,
    "UPDATE bare SET word = 'other' WHERE ctid IN (SELECT min(ctid) FROM bare WHERE word = 'same')",
    "DELETE FROM children WHERE parent = 1; DELETE FROM other.parents WHERE id = 1",
    "INSERT INTO bare SELECT 'many ' || n FROM generate_series(1, 500) AS n",
    "UPDATE other.parents SET name = 'new'  WHERE id = 3",
    "SELECT nextval('numbers')",
    "VACUUM FULL bare",
    "DELETE FROM bare WHERE word LIKE 'many %7'",
    "TRUNCATE children",
    "SELECT setval('numbers', 7, false)",
)

numbers = count()


@pytest.fixture
def lease(running: RunningPostgres) -> Iterator[Lease]:
    made = running.lease(f"chaos_{next(numbers)}")
    yield made
    running.release(made)


def run(lease: Lease, statements: str) -> None:
    import psycopg

    with psycopg.connect(lease.url, autocommit=True) as connection:
        connection.execute(statements.encode())


def contents(lease: Lease) -> dict[str, object]:
    """Return all rows, the columns of all tables, and the state of all sequences."""
    import psycopg

    with psycopg.connect(lease.url, autocommit=True) as connection:
        listed = connection.execute(
            "SELECT table_schema, table_name, string_agg(column_name, ',' ORDER BY ordinal_position)"
            " FROM information_schema.columns WHERE table_schema IN ('public', 'other') GROUP BY 1, 2"
        ).fetchall()
        found: dict[str, object] = {"tables": sorted(listed)}
        for schema, table, _ in listed:
            rows = connection.execute(f'SELECT "{table}"::text FROM {schema}."{table}"'.encode()).fetchall()
            found[table] = sorted(rows)
        query = "SELECT schemaname, sequencename, last_value FROM pg_sequences ORDER BY 1, 2"
        found["sequences"] = connection.execute(query).fetchall()
        return found


def test_what_every_change_left_is_put_back(running: RunningPostgres, lease: Lease) -> None:
    """From any instant to any other, whatever the database has come to meanwhile."""
    run(lease, SCHEMA)
    instants = [(running.keep(lease), contents(lease))]
    other = running.lease("chaos_other")
    run(other, SCHEMA + FIRST)
    apart = contents(other)
    for change in CHANGES:
        run(lease, change)
        instants.append((running.keep(lease), contents(lease)))
        again = running.keep(lease)
        assert again is not None and instants[-1][0] is not None
        assert again.digest == instants[-1][0].digest, "nothing has happened in between"
    digests = {kept.digest for kept, _ in instants if kept}
    assert len(digests) == len(instants) - 1, "every change but that of VACUUM is one"
    for number in (9, 3, 4, 0, 10, 1, 2, 8, 7, 6, 5):
        kept, had = instants[number]
        assert kept is not None
        if number % 2:
            run(lease, "INSERT INTO bare VALUES ('of a later incarnation'); SELECT nextval('numbers')")
        running.put_back(lease, kept)
        assert contents(lease) == had
        again = running.keep(lease)
        assert again is not None and again.digest == kept.digest
    assert contents(other) == apart
    running.release(other)


def test_the_next_value_and_the_keys_are_those_of_then(running: RunningPostgres, lease: Lease) -> None:
    import psycopg

    run(lease, SCHEMA + FIRST)
    kept = running.keep(lease)
    seen = []
    for _ in range(2):
        with psycopg.connect(lease.url, autocommit=True) as connection:
            (number,) = connection.execute("SELECT nextval('numbers')").fetchone() or ()
            (key,) = connection.execute("INSERT INTO other.parents (name) VALUES ('x') RETURNING id").fetchone() or ()
            with pytest.raises(psycopg.errors.ForeignKeyViolation):
                connection.execute("INSERT INTO children (parent) VALUES (1000)")
            connection.execute("INSERT INTO children (parent) VALUES (1)")
            seen.append((number, key, connection.execute("SELECT * FROM bare WHERE word = 'noted'").fetchall()))
        assert kept is not None
        running.put_back(lease, kept)
    assert seen[0] == seen[1] == (3, 4, [("noted",)] * 3)


def test_another_schema_is_made_anew(running: RunningPostgres, lease: Lease) -> None:
    empty, nothing = running.keep(lease), contents(lease)
    run(lease, SCHEMA + FIRST)
    old, had = running.keep(lease), contents(lease)
    run(lease, "ALTER TABLE bare ADD COLUMN added int DEFAULT 5; DROP TABLE children; CREATE TABLE more (n int)")
    new, have = running.keep(lease), contents(lease)
    for kept, wanted in ((old, had), (new, have), (empty, nothing), (new, have), (old, had)):
        assert kept is not None
        running.put_back(lease, kept)
        assert contents(lease) == wanted


def test_bytes_are_counted_on_from_then(running: RunningPostgres, lease: Lease) -> None:
    run(lease, SCHEMA + FIRST)
    kept, stored, written = running.keep(lease), running.stored_bytes(lease), running.written_bytes(lease)
    run(lease, "INSERT INTO bare SELECT repeat(n::text, 100) FROM generate_series(1, 5000) AS n")
    assert kept is not None
    running.put_back(lease, kept)
    assert running.stored_bytes(lease) == stored
    assert 0 <= running.written_bytes(lease) - written < 1 << 16  # its own workers write now and then


def test_the_server_may_be_away_in_between(running: RunningPostgres, lease: Lease) -> None:
    assert running.service is not None
    run(lease, SCHEMA + FIRST)
    kept, had = running.keep(lease), contents(lease)
    run(lease, "DELETE FROM bare")
    running.service.kill()
    running.service.restart()
    assert kept is not None
    running.put_back(lease, kept)
    again = running.keep(lease)
    assert contents(lease) == had and again is not None and again.digest == kept.digest


STANDS = """
import psycopg, sys
connection = psycopg.connect(sys.argv[1])
connection.execute("INSERT INTO bare VALUES ('committed')")
connection.commit()
connection.execute("INSERT INTO bare VALUES ('open')")
connection.execute("UPDATE other.parents SET name = 'open' WHERE id = 1")
print("stands", flush=True)
sys.stdin.read()
"""


def test_what_was_not_committed_is_not_in_it_and_its_connection_is_gone(running: RunningPostgres, lease: Lease) -> None:
    import psycopg

    run(lease, SCHEMA + FIRST)
    with subprocess.Popen([sys.executable, "-c", STANDS, lease.url], stdin=-1, stdout=-1, text=True) as agent:
        assert agent.stdout and agent.stdout.readline() == "stands\n"
        kept = running.keep(lease)
        agent.kill()
    with psycopg.connect(lease.url) as left:  # nobody has told the server of its death
        left.execute("LOCK TABLE bare")
        assert kept is not None
        running.put_back(lease, kept)
        with pytest.raises(psycopg.OperationalError):
            left.execute("SELECT 1")
    rows = contents(lease)["bare"]
    assert isinstance(rows, list) and ("(committed)",) in rows and ("(open)",) not in rows


def test_what_cannot_be_put_back_is_not_kept(
    running: RunningPostgres, lease: Lease, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    import psycopg

    monkeypatch.setattr(_postgres_kept, "LOCK_MS", 50)
    run(lease, SCHEMA)
    with psycopg.connect(lease.url) as connection:
        connection.execute("LOCK TABLE bare IN ACCESS EXCLUSIVE MODE")
        assert running.keep(lease) is None
    assert running.keep(lease) is not None
    for more in ("SELECT lo_create(4711)", "SELECT lo_unlink(4711); CREATE MATERIALIZED VIEW seen AS SELECT 1"):
        run(lease, more)
        assert running.keep(lease) is None
    run(lease, "CREATE ROLE chaos_plain LOGIN CREATEDB")
    plain = Postgres().open(tmp_path, lease.url.replace("postgres@", "chaos_plain@").replace(lease.space, "postgres"))
    theirs = plain.lease("chaos_theirs")
    assert plain.keep(theirs) is None
    plain.release(theirs)
    plain.close()
    run(lease, "DROP ROLE chaos_plain")


AGENT = """
import operator, sys
from typing import Annotated, TypedDict
from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.graph import END, START, StateGraph

class State(TypedDict):
    messages: Annotated[list[str], operator.add]

def turn(state):
    number = len(state["messages"])
    if number == 3 and stands:
        print("stands", flush=True)
        sys.stdin.read()
    return {"messages": [f"step {number}"]}

def drive(url):
    with PostgresSaver.from_conn_string(url) as saver:
        saver.setup()
        graph = StateGraph(State)
        graph.add_node("turn", turn)
        graph.add_edge(START, "turn")
        graph.add_conditional_edges("turn", lambda s: END if len(s["messages"]) > 5 else "turn", ["turn", END])
        app, config = graph.compile(checkpointer=saver), {"configurable": {"thread_id": "thread"}}
        app.invoke(None if saver.get(config) else {"messages": []}, config, durability="sync")
        return [(one.metadata["step"], one.checkpoint["channel_values"]) for one in saver.list(config)]

stands = False
"""
KILLED = "\nstands = True\ndrive(sys.argv[1])\n"


def test_a_thread_of_langgraph_goes_on_from_it_as_from_a_real_kill(running: RunningPostgres, lease: Lease) -> None:
    pytest.importorskip("langgraph.checkpoint.postgres")
    program: dict[str, Any] = {"__name__": "agent"}
    exec(compile(AGENT, "agent", "exec", dont_inherit=True), program)
    with subprocess.Popen([sys.executable, "-c", AGENT + KILLED, lease.url], stdin=-1, stdout=-1, text=True) as agent:
        assert agent.stdout and agent.stdout.readline() == "stands\n"
        kept = running.keep(lease)
        agent.kill()
    was = contents(lease)
    ends = [program["drive"](lease.url)]
    assert kept is not None
    running.put_back(lease, kept)
    assert contents(lease) == was
    ends.append(program["drive"](lease.url))
    assert ends[0] == ends[1] and ends[0][0][1]["messages"] == [f"step {number}" for number in range(6)]
