"""A bench for the reference agent: real zones, a real world, a gate, and a hand that kills and wipes."""

from __future__ import annotations

import json
import os
import selectors
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pytest

from chaos import ports
from chaos.durable import Lease, environment
from chaos.events.seen import Asked, Effected
from chaos.journal import Journal
from chaos.pool import Pool
from chaos.probe import GATE
from chaos.targets import Strategy, zone_env
from chaos.targets.reference import Reference
from chaos.targets.reference.agent import State
from chaos.world.server import World

SEED = 7
STEPS = 24  # every kind of step once, and little more
SECONDS = 30.0

Hand = Callable[["Bench"], None]


@dataclass(frozen=True)
class Said:
    """One line from the agent at the gate."""

    point: str
    step: int
    key: str
    state: str | None
    snapshot: dict[str, Any] | None = None


class Gate:
    """The smallest gate: every connection's next line, in the order of arrival."""

    def __init__(self) -> None:
        self.address = f"unix:@chaos-test-{os.getpid()}-{id(self)}"
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind("\0" + self.address.removeprefix("unix:@"))
        self._listener.listen()
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._asking: socket.socket | None = None

    def next(self, timeout: float) -> Said | None:
        """Return the next line; None if none came in *timeout* seconds, or a connection closed."""
        for key, _ in self._selector.select(timeout):
            peer = cast(socket.socket, key.fileobj)
            if peer is self._listener:
                self._selector.register(peer.accept()[0], selectors.EVENT_READ)
                continue
            line = read_line(peer)
            if not line:
                self._selector.unregister(peer)
                peer.close()
                continue
            self._asking = peer
            return Said(**json.loads(line))
        return None

    def go(self) -> None:
        """Answer the line that `next` returned last."""
        assert self._asking is not None
        self._asking.sendall(b'{"go":true}\n')

    def drop(self) -> None:
        """Close all connections: an agent that waits will not be answered."""
        for key in list(self._selector.get_map().values()):
            if key.fileobj is not self._listener:
                self._selector.unregister(key.fileobj)
                cast(socket.socket, key.fileobj).close()

    def close(self) -> None:
        """Close everything."""
        self.drop()
        self._selector.close()
        self._listener.close()


def read_line(peer: socket.socket) -> bytes:
    """Return one line from *peer*, which sends no second one before it is answered; b"" when it is gone."""
    line = b""
    while not line.endswith(b"\n"):
        try:
            data = peer.recv(1 << 16)
        except ConnectionError:
            data = b""
        if not data:
            return b""
        line += data
    return line


class Bench:
    """One run of the agent: as many incarnations as asked for, over the same zones and the same world."""

    def __init__(self, root: Path, target: Reference) -> None:
        self.root, self.target = root, target
        for zone in ("durable", "workspace", "tmp", "assets"):
            (root / zone).mkdir()
        target.prepare(root / "assets", SEED)
        self.journal = Journal(root / "journal.jsonl")
        self.world = World(target.brain(SEED), self.journal)
        self.world.start()
        self.gate = Gate()
        self._claims = ExitStack()
        self.port = self._claims.enter_context(ports.claimed(("ENGINE_PORT",)))[0][1]  # nobody's while it is down
        self.leases: dict[str, Lease] = {}
        self.points: list[Said] = []
        self.error = ""
        self._process: subprocess.Popen[bytes] | None = None

    def env(self, more: Mapping[str, str]) -> dict[str, str]:
        """Return the environment that the harness would give."""
        ports = (("ENGINE_PORT", self.port),)
        zones = zone_env(self.root, ports)
        path = {"PATH": os.environ["PATH"], "HOME": str(self.root / "tmp"), "THREAD_ID": "t-1"}
        return {**path, **zones, **self.world.env(), **environment(self.leases), **more}

    def incarnation(self, strategy: Strategy, at: str = "", hand: Hand | None = None, gated: bool = True) -> int:
        """Run one incarnation; at the point *at* ("3/after_act") the *hand* does its work and nobody answers."""
        launch = self.target.launch(strategy, SEED, self.root)
        env = self.env({**launch.env, **({GATE: self.gate.address} if gated else {})})
        process = self._process = subprocess.Popen(launch.command, env=env, stderr=subprocess.PIPE)
        end = time.monotonic() + SECONDS
        while gated and time.monotonic() < end:
            said = self.gate.next(0.05)
            if said is None:
                if process.poll() is not None:
                    break
                continue
            self.points.append(said)
            if hand is not None and f"{said.step}/{said.point}" == at:
                hand(self)
                break
            self.gate.go()
        self.error = process.communicate(timeout=SECONDS)[1].decode()
        self.gate.drop()
        return process.returncode

    def reload(self, strategy: Strategy) -> State | None:
        """Return the state that a new process reads from the store."""
        launch = self.target.reload(strategy, SEED, self.root)
        done = subprocess.run(launch.command, env=self.env(launch.env), capture_output=True, check=True)
        return cast("State | None", json.loads(done.stdout))

    def crashed(self, strategy: Strategy, at: str, hand: Hand) -> None:
        """Run the agent, have *hand* end it at the point *at*, and run it again to its end."""
        assert self.incarnation(strategy, at, hand) == -signal.SIGKILL, self.error
        assert self.incarnation(strategy) == 0, self.error

    def final(self) -> State:
        """Return the state that the agent announced when it was done."""
        assert self.points[-1].point == "finished" and self.points[-1].snapshot is not None
        return cast(State, self.points[-1].snapshot)

    def asked_again(self) -> int:
        """Return how many model requests were work paid for twice."""
        return sum(isinstance(event, Asked) and event.again for event in self.journal.events)

    def effects(self) -> list[str]:
        """Return the effects that happened, as "email.send", in order."""
        effects = (e for e in self.journal.events if isinstance(e, Effected))
        return [f"{e.service}.{e.operation}" for e in effects if not e.deduplicated]

    def right_files(self) -> dict[str, bool]:
        """Tell of each file that is known beforehand whether it is there as it must be."""
        from chaos.targets.reference.snapshot import digest_of

        facts = self.target.facts(SEED)
        paths = {path: self.root / path for path, _ in facts.digests}
        return {path: paths[path].exists() and digest_of(paths[path]) == digest for path, digest in facts.digests}

    def tree(self) -> list[int]:
        """Return the processes that live in our zones, the agent and all that it started."""
        mark = f"CHAOS_WORKSPACE={self.root / 'workspace'}".encode()
        found = []
        for entry in Path("/proc").iterdir():
            try:
                if entry.name.isdigit() and mark in (entry / "environ").read_bytes().split(b"\0"):
                    found.append(int(entry.name))
            except OSError:
                continue
        return found

    def kill(self) -> None:
        """SIGKILL the whole tree."""
        for pid in sorted(self.tree(), reverse=True):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        while self.tree():
            if self._process is not None:
                self._process.poll()
            time.sleep(0.005)

    def evict(self) -> None:
        """SIGKILL the whole tree; the container's disk is gone."""
        self.kill()
        for zone in ("workspace", "tmp"):
            shutil.rmtree(self.root / zone)
            (self.root / zone).mkdir()

    def terminate(self) -> None:
        """SIGTERM the agent and let it go."""
        assert self._process is not None
        self._process.terminate()
        self.gate.drop()

    def close(self) -> None:
        """Leave nothing behind."""
        self.kill()
        self.world.close()
        self.gate.close()
        self.journal.close()
        self._claims.close()


@pytest.fixture
def make_bench() -> Iterator[Callable[..., Bench]]:
    """Return a maker of benches; all are closed afterwards."""
    benches: list[Bench] = []

    def make(target: Reference | None = None) -> Bench:
        root = Path(tempfile.mkdtemp(prefix="chaos-test-"))
        benches.append(Bench(root, target or Reference(steps=STEPS)))
        return benches[-1]

    yield make
    for bench in benches:
        bench.close()
        shutil.rmtree(bench.root)


@pytest.fixture
def bench(make_bench: Callable[..., Bench]) -> Bench:
    """Return a bench for the default agent."""
    return make_bench()


@pytest.fixture(scope="session")
def pool() -> Iterator[Pool]:
    """Return servers that are started when a test first needs one."""
    pool = Pool()
    yield pool
    pool.close()


@pytest.fixture
def lease(pool: Pool) -> Iterator[Callable[[Bench, str], None]]:
    """Return a giver of a part of a server to a bench; the test is skipped if there can be no such server."""
    with ExitStack() as stack:

        def give(bench: Bench, server: str) -> None:
            if missing := pool.missing(server):
                pytest.skip(missing)
            bench.leases.update(stack.enter_context(pool.leases([server])).parts)

        yield give
