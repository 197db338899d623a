"""Operations on the world as points: held over a real socket, counted, and broken in real runs of agents."""

from __future__ import annotations

import signal
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

from chaos.events.done import Overlapped
from chaos.events.seen import Asked, Called, Effected, Operated
from chaos.faults.false_dead import FalseDead
from chaos.faults.hang import Hang
from chaos.faults.kill import Kill
from chaos.faults.lost_reply import LostReply
from chaos.faults.rate_limit import RateLimit
from chaos.gate import Gate, Held
from chaos.journal import Journal
from chaos.plan import OPERATIONS
from chaos.sandbox import syscalls
from chaos.sandbox.process import able
from chaos.targets import Launch, Strategy
from chaos.targets.reference import Reference
from chaos.verdict import CellVerdict
from chaos.world.door import Door
from chaos.world.server import World
from tests import toy
from tests.cells import ReferenceCell
from tests.toy import Toy

ASK = ("/v1/chat/completions", b'{"model": "m", "messages": [{"role": "user", "content": "?"}]}')
MAIL = ("/services/email/send", b"{}")

needs_held_calls = pytest.mark.skipif(bool(syscalls.missing()), reason=syscalls.missing())

# Knows nothing of us: it counts to three, keeps the number in a file, and mails it.
PLAIN = """
import http.client, json, os, urllib.parse
def post(variable, path, body, key=""):
    url = urllib.parse.urlsplit(os.environ[variable])
    client = http.client.HTTPConnection(url.netloc)
    client.request("POST", url.path + path, json.dumps(body), {"Idempotency-Key": key} if key else {})
    return json.load(client.getresponse())
kept = os.environ["CHAOS_DURABLE"] + "/count"
n = int(open(kept).read()) if os.path.exists(kept) else 0
while n < 3:
    messages = [{"role": "user", "content": f"after {n}?"}]
    post("OPENAI_BASE_URL", "/chat/completions", {"model": "m", "messages": messages})
    post("CHAOS_SERVICES_URL", "/email/send", {"n": n}, f"key-{n}")
    n += 1
    with open(kept + ".new", "w") as file:
        file.write(str(n))
        os.fsync(file.fileno())
    os.rename(kept + ".new", kept)
"""


@dataclass(frozen=True)
class Plain(Toy):
    """A program that announces nothing."""

    code: str = PLAIN
    reads: str = "print((toy.DURABLE / 'count').read_text())"

    def launch(self, strategy: Strategy, seed: int, root: Path) -> Launch:
        return Launch((sys.executable, "-S", "-c", self.code), {})


# Over the socket


@dataclass
class Stage:
    """A world that holds everything, a gate that attends to incarnation 1, and clients."""

    world: World
    gate: Gate
    journal: Journal
    clients: ThreadPoolExecutor

    def post(self, what: tuple[str, bytes], door: Door | None = None, key: str = "") -> Future[int]:
        return self.clients.submit(_post, (door or self.world.door).port, *what, key)

    def held(self) -> Held:
        held = self.gate.next(20)
        assert held is not None
        return held

    def at(self) -> str:
        """Wait for the next operation, let it go, and say which it was."""
        held = self.held()
        self.gate.go(held)
        return f"{held.said.step}/{held.said.point}"

    def told(self) -> list[str]:
        return [type(event).__name__ for event in self.journal.events]


def _post(port: int, path: str, body: bytes, key: str) -> int:
    headers = {"Idempotency-Key": key} if key else {}
    try:
        request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", body, headers, method="POST")
        with urllib.request.urlopen(request, timeout=20) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    journal, gate = Journal(tmp_path / "journal.jsonl"), Gate()
    journal.attempt = 1
    with ThreadPoolExecutor(4) as clients, World(toy.CountingBrain(), journal) as world:
        world.holds.phases = frozenset(OPERATIONS)
        gate.attend(world.holds.begin(1))
        yield Stage(world, gate, journal, clients)
        gate.close()
    journal.close()


def test_a_call_is_held_before_anything_and_a_reply_when_all_is_journalled(stage: Stage) -> None:
    asked = stage.post(ASK)
    call = stage.held()
    assert (call.said.point, call.said.step, call.said.key) == ("model_call", 1, ASK[0])
    assert stage.told() == ["Operated"]
    assert stage.gate.next(0.05) is None  # nothing comes while it is held
    stage.gate.go(call)
    reply = stage.held()
    assert (reply.said.point, stage.told()) == ("model_reply", ["Operated", "Asked", "Operated"])
    assert not asked.done()
    stage.gate.go(reply)
    assert asked.result(20) == 200
    digests = [event.digest for event in stage.journal.events if isinstance(event, Operated)]
    assert digests == [event.prompt for event in stage.journal.events if isinstance(event, Asked)] * 2


def test_only_what_changed_the_world_is_an_effect(stage: Stage) -> None:
    first = stage.post(MAIL, key="once")
    assert stage.at() == "1/service_call"
    effect = stage.held()
    assert (effect.said.point, stage.told()) == ("effect", ["Operated", "Effected", "Operated"])
    assert not first.done()
    stage.gate.go(effect)
    assert first.result(20) == 200
    second = stage.post(MAIL, key="once")
    assert stage.at() == "2/service_call"
    assert second.result(20) == 200  # recognised by its key, so it changed nothing and was not held again


def test_one_that_is_held_keeps_no_other_waiting(stage: Stage) -> None:
    first = stage.post(MAIL)
    held = stage.held()
    second = stage.post(ASK)
    assert [stage.at(), stage.at()] == ["1/model_call", "1/model_reply"]
    assert (second.result(20), first.done()) == (200, False)
    stage.gate.go(held)
    assert stage.at() == "1/effect"
    assert first.result(20) == 200


@pytest.mark.parametrize("how", ["the incarnation is gone", "the world closes"])
@pytest.mark.parametrize(("what", "point"), [(ASK, "model_call"), (MAIL, "effect")])
def test_what_is_held_for_a_dead_agent_ends_without_an_answer(
    stage: Stage, what: tuple[str, bytes], point: str, how: str
) -> None:
    stage.world.holds.phases = frozenset({point})
    asked = stage.post(what)
    assert stage.held().said.point == point
    known = stage.told()
    if how == "the incarnation is gone":
        stage.gate.drop()
    else:
        stage.world.close()
    with pytest.raises(OSError, match=r"closed|reset"):
        asked.result(20)
    assert stage.told() == known
    assert ("Effected" in known) is (point == "effect")


def test_each_incarnation_has_numbers_of_its_own(stage: Stage) -> None:
    stage.world.holds.phases = frozenset({"service_call"})
    second, later = Gate(), stage.world.open_door()
    stage.world.door.attempt, stage.journal.attempt = 1, 2  # taken for dead: both live
    second.attend(stage.world.holds.begin(2))
    posted = [stage.post(MAIL), stage.post(MAIL, later)]
    held = second.next(20)
    assert held is not None
    assert (held.said.step, stage.at()) == (1, "1/service_call")
    second.drop()  # the second one dies; the first goes on
    assert posted[0].result(20) == 200
    with pytest.raises(OSError, match=r"closed|reset"):
        posted[1].result(20)
    stage.post(MAIL)
    assert stage.at() == "2/service_call"
    assert [e.attempt for e in stage.journal.events if isinstance(e, Operated)][-1] == 1
    second.close()


def test_what_is_not_asked_for_is_not_held(stage: Stage) -> None:
    stage.world.holds.phases = frozenset()
    assert [stage.post(ASK).result(20), stage.post(MAIL).result(20)] == [200, 200]
    assert "Operated" not in stage.told()


# In real runs


def events(ran: toy.Ran, attempt: int) -> list[str]:
    """What the world saw of an incarnation, in a word each."""
    words = {Asked: "asked", Effected: "effected", Operated: "held"}
    return [words[type(e)] for e in ran.record.events if type(e) in words and e.attempt == attempt]


@pytest.mark.parametrize(
    ("plan", "before", "after"),
    [
        ("kill@2/model_call", ["held", "asked", "held"], ["held", "asked", "effected", "held", "asked"]),
        ("kill@2/model_reply", ["asked", "held", "asked", "held"],
         ["asked", "held", "effected", "asked", "held"]),
        ("kill@1/service_call", ["asked", "asked", "held"], ["asked", "held", "effected", "asked"]),
        ("kill@1/effect", ["asked", "asked", "effected", "held"], ["asked", "effected", "asked"]),
    ],
)  # fmt: skip
def test_a_kill_hits_while_it_is_held(tmp_path: Path, plan: str, before: list[str], after: list[str]) -> None:
    ran = toy.run(tmp_path, "import os; del os.environ['CHAOS_GATE']; work()", plan, {"kill": Kill()})
    assert ran.statuses == [-signal.SIGKILL, 0]
    (landed,) = ran.landed
    assert (landed.at, landed.how) == (plan.removeprefix("kill@"), "killed")
    assert (events(ran, 1), events(ran, 2)) == (before, after)
    assert [effect.deduplicated for effect in ran.all(Effected)] == [False, True][: 2 if "effect" in plan else 1]


def test_one_that_never_comes_is_missed(tmp_path: Path) -> None:
    result, cell = toy.replay(tmp_path, Kill(), "kill@2/effect")
    assert (result.landed, result.verdict, cell.passed) == ((), CellVerdict.NOT_EXERCISED, False)
    assert result.missed == ("the agent never came to kill@2/effect",)


def test_an_agent_that_lives_goes_on_and_each_try_counts(tmp_path: Path) -> None:
    ran = toy.run(tmp_path, plan="rate_limit@2/model_call", faults={"rate_limit": RateLimit(requests=2)})
    assert ran.statuses == [0]
    assert [event.status for event in ran.all(Asked)] == [200, 429, 429, 200, 200]  # the one that was held is refused
    assert [event.number for event in ran.all(Operated)] == [1, 2, 3, 4, 5]
    assert len(ran.landed) == 1


def test_the_reply_to_that_very_effect_is_lost(tmp_path: Path) -> None:
    ran = toy.run(tmp_path, plan="lost_reply@1/effect", faults={"lost_reply": LostReply()})
    assert [effect.deduplicated for effect in ran.all(Effected)] == [False, True]
    assert ran.statuses[-1] == 0
    assert len(ran.landed) == 1


def test_one_that_hangs_there_is_ended_by_the_watchdog(tmp_path: Path) -> None:
    ran = toy.run(tmp_path, plan="hang@2/model_call", faults={"hang": Hang()}, heartbeat_seconds=0.3)
    assert ran.statuses == [-signal.SIGKILL, 0]
    assert len(ran.landed) == 1


def test_two_workers_count_for_themselves(tmp_path: Path) -> None:
    if reason := able().shared_disk:
        pytest.skip(reason)
    ran = toy.run(tmp_path, plan="false_dead@2/model_call", faults={"false_dead": FalseDead()})
    assert len(ran.all(Overlapped)) == len(ran.landed) == 1
    for attempt in (1, 2):
        numbers = [event.number for event in ran.all(Operated) if event.attempt == attempt]
        assert numbers == list(range(1, len(numbers) + 1))
        assert numbers


@needs_held_calls
def test_a_program_that_announces_nothing_is_broken_at_whatever_it_asks_for(tmp_path: Path) -> None:
    plan = "kill@2/model_call+kill@recovery/1/effect+kill@recovery/2/checkpoint_write"
    ran = toy.execute_plan(tmp_path, toy.setup(Plain(), {"kill": Kill()}, backoff_limit=3), plan)
    assert ran.statuses == [-signal.SIGKILL] * 3 + [0]
    assert [landed.at for landed in ran.landed] == [part.partition("@")[2] for part in plan.split("+")]
    assert ran.record.reloaded_state == 3
    # the 2nd mail was sent in the 2nd incarnation, which was killed before it knew; the 3rd one asked again
    assert [(e.attempt, e.key, e.deduplicated) for e in ran.all(Effected)] == [
        (1, "key-0", False), (2, "key-1", False), (3, "key-1", True), (4, "key-1", True), (4, "key-2", False),
    ]  # fmt: skip


@needs_held_calls
def test_a_checkpoint_write_is_an_fsync_or_a_rename_in_the_order_in_which_they_come(tmp_path: Path) -> None:
    ran = toy.execute_plan(tmp_path, toy.setup(Plain(), {"kill": Kill()}), "kill@4/checkpoint_write")
    first = [(call.checkpoint_write, call.phase, call.number) for call in ran.all(Called) if call.attempt == 1]
    assert first == [(1, "fsync", 1), (2, "rename", 1), (3, "fsync", 2), (4, "rename", 2)]
    assert [(e.attempt, e.key) for e in ran.all(Effected)][-2:] == [(2, "key-1"), (2, "key-2")]  # it was not renamed
    alone = toy.execute_plan(tmp_path / "alone", toy.setup(Plain(), {"kill": Kill()}), "kill@2/fsync")
    assert {call.checkpoint_write for call in alone.all(Called)} == {0}  # without renames that number would be wrong


@pytest.mark.parametrize("strategy", ["chat_history", "full_snapshot"])
def test_the_reference_agent_comes_back_from_each_kind(tmp_path: Path, strategy: str) -> None:
    cell = ReferenceCell(tmp_path, Reference(steps=14), strategy, faults={"kill": Kill()})
    if reason := cell.setup.strategy.missing():
        pytest.skip(reason)
    ran = cell.run("kill@4/model_call+kill@recovery/2/effect+kill@recovery/1/model_reply")
    assert [crash.status for crash in ran.record.crashes] == [-signal.SIGKILL] * 3
    assert ran.record.finished
    known = {"effects"} if strategy == "full_snapshot" else {"budget", "effects", "environment", "files", "goal",
                                                             "processes", "state"}  # fmt: skip
    assert ran.broken().keys() <= known  # an e-mail without a key may go twice; messages alone hold no more
