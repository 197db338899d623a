"""Links: where an agent is led to, what cannot be led, and what a killed harness leaves on somebody's server."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaos.durable import VARIABLE, Lease, environment
from chaos.errors import HarnessError
from chaos.events.done import Healed, LinkHit, Poisoned
from chaos.journal import Journal
from chaos.leftovers import PREFIX
from chaos.toxiproxy.client import Client
from chaos.toxiproxy.embedded import Embedded
from chaos.toxiproxy.links import Links, _through, linked
from tests.toxiproxy.conftest import Upstream, connect, reaches, read

Linked = Callable[..., Links]
PLACE = "127.0.0.1:{}"


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    made = Journal(tmp_path / "journal.jsonl")
    yield made
    made.close()


@pytest.fixture
def theirs() -> Iterator[Embedded]:
    server = Embedded(1)
    yield server
    server.close()


@pytest.fixture
def lead(tmp_path: Path, journal: Journal) -> Iterator[Linked]:
    """Make links on an embedded server or the one at *toxiproxy*."""
    with ExitStack() as stack:

        def make(*names: str, world: int = 9, leases: Mapping[str, Lease] | None = None, toxiproxy: str = "") -> Links:
            wanted = linked(frozenset(names), toxiproxy, world, leases or {}, journal, tmp_path, 1)
            return stack.enter_context(wanted)

        yield make


def env(port: int) -> dict[str, str]:
    url = f"http://127.0.0.1:{port}"
    return {
        "OPENAI_BASE_URL": f"{url}/v1",
        "ANTHROPIC_BASE_URL": url,
        "GOOGLE_GEMINI_BASE_URL": url,
        "CHAOS_SERVICES_URL": f"{url}/services",
        "X": url,
    }


def test_only_what_is_linked_is_led(lead: Linked) -> None:
    links = lead("model", world=9)
    led = links.lead(env(9))
    port = links["model"].front.port
    assert led == {
        **env(9),
        "OPENAI_BASE_URL": f"http://127.0.0.1:{port}/v1",
        "ANTHROPIC_BASE_URL": f"http://127.0.0.1:{port}",
        "GOOGLE_GEMINI_BASE_URL": f"http://127.0.0.1:{port}",
    }


def test_another_door_of_the_world_is_left_alone(lead: Linked) -> None:
    assert lead("model", "services", world=9).lead(env(10)) == env(10)


def test_leases_are_led_and_keep_their_rest(lead: Linked) -> None:
    leases = {
        "postgres": Lease("postgresql://me:se%40cret@127.0.0.1:9/db?x=1", "db"),
        "redis": Lease("redis://127.0.0.1:9/0", "p:"),
        "temporal": Lease("127.0.0.1:9", "t-"),
    }
    links = lead("postgres", "temporal", "services", leases=leases)
    led = json.loads(links.lead({**env(9), **environment(leases)})[VARIABLE])
    one, two = links["postgres"].front.port, links["temporal"].front.port
    assert led == {
        "postgres": [f"postgresql://me:se%40cret@127.0.0.1:{one}/db?x=1", "db"],
        "redis": ["redis://127.0.0.1:9/0", "p:"],
        "temporal": [f"127.0.0.1:{two}", "t-"],
    }


def test_what_the_run_does_not_have_is_no_link(lead: Linked) -> None:
    with pytest.raises(HarnessError, match="no link 'postgres'; it has model"):
        lead("model", "postgres")["postgres"]


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("rediss://127.0.0.1:9/0", "another one behind a link"),
        ("postgresql://me:secret@db/x?sslmode=verify-full", r"me:\*\*\*@db.*another one behind a link"),
        ("postgresql:///x?host=/tmp", "names no TCP host"),
    ],
)
def test_what_no_proxy_can_stand_before(lead: Linked, url: str, told: str) -> None:
    name = "redis" if url.startswith("redis") else "postgres"
    with pytest.raises(HarnessError, match=told):
        lead(name, leases={name: Lease(url, "")})


def test_a_name_without_a_port_has_the_usual_one(lead: Linked) -> None:
    links = lead("postgres", leases={"postgres": Lease("postgresql://localhost/x", "x")})
    assert links["postgres"].destination == ("localhost", 5432)


@given(
    user=st.text("abcé%:", max_size=5).map(lambda text: text.replace("%", "%25")),
    path=st.text("ab/?=&", max_size=8),
    port=st.integers(1, 65535),
)
def test_only_the_address_of_a_url_changes(user: str, path: str, port: int) -> None:
    url = f"redis://{user}@host:1/{path}" if user else f"redis://host:1/{path}"
    led = urlsplit(_through(url, port))
    assert led.netloc == (f"{user}@" if user else "") + PLACE.format(port)
    assert led._replace(netloc="") == urlsplit(url)._replace(netloc="")


def test_a_link_that_is_down_refuses_whoever_comes_second(
    lead: Linked, journal: Journal, upstream: Callable[..., Upstream]
) -> None:
    """The first one had to come to be seen; then it is like any port that nobody listens on."""
    server = upstream()
    link = lead("model", world=int(server.address.rpartition(":")[2]))["model"]
    place = PLACE.format(link.front.port)
    outage = link.poison("down", "downstream", {}, 60.0)
    assert reaches(lambda: connect(place)) == "reset"
    with pytest.raises(ConnectionRefusedError):
        connect(place)
    outage.end()
    with connect(place) as sock:
        sock.sendall(b"x")
        assert read(sock, 1) == b"x"
    kinds = [type(event) for event in journal.events]
    assert kinds == [Poisoned, LinkHit, Healed]
    assert not server.results or server.results == [1]


def test_so_many_connections_and_no_more(lead: Linked, journal: Journal, upstream: Callable[..., Upstream]) -> None:
    """Two are reset; the third one waits until the toxic is gone, however fast it comes."""
    link = lead("model", world=int(upstream().address.rpartition(":")[2]))["model"]
    link.poison("reset_peer", "downstream", {"timeout": 0}, 60.0, connections=2)
    ends = []
    for _ in range(5):
        with connect(PLACE.format(link.front.port)) as sock:
            sock.sendall(b"hello")
            try:
                ends.append(read(sock, 5).decode() or "closed")
            except ConnectionResetError:
                ends.append("reset")
    assert ends == ["reset", "reset", "hello", "hello", "hello"]
    assert [event.hits for event in journal.events if isinstance(event, Healed)] == [2]


def test_two_outages_of_one_link_end_on_their_own(lead: Linked, upstream: Callable[..., Upstream]) -> None:
    link = lead("model", world=int(upstream().address.rpartition(":")[2]))["model"]
    place = PLACE.format(link.front.port)
    first, second = (link.poison("down", "downstream", {}, 60.0) for _ in range(2))
    assert reaches(lambda: connect(place)) == "reset"
    first.end()
    with pytest.raises(ConnectionRefusedError):
        connect(place)
    second.end()
    second.end()
    with connect(place) as sock:
        sock.sendall(b"x")
        assert read(sock, 1) == b"x"


def test_proxies_of_the_dead_are_removed_from_somebody_s_server(theirs: Embedded, lead: Linked) -> None:
    """Not those of the living, nor anybody else's."""
    client = Client(theirs.address)
    gone = subprocess.Popen(["true"])
    gone.wait()
    kept = [f"{PREFIX}{os.getppid()}-1-model", "somebody's"]
    for name in (*kept, f"{PREFIX}{gone.pid}-1-model"):
        client.create(name, "127.0.0.1:9")
    lead("services", toxiproxy=theirs.address)
    assert sorted(set(client.names()) & {*kept}) == sorted(kept)
    assert len(client.names()) == 3 and f"{PREFIX}{gone.pid}-1-model" not in client.names()
    client.close()
