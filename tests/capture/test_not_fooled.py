"""What could fool the engine: agents that lie, captures that are not true, sandboxes that do not stand still."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from hashlib import blake2b
from pathlib import Path
from typing import Any, ClassVar

import pytest

from chaos.capture.shelf import Capture, Shelf
from chaos.errors import HarnessError
from chaos.events.seen import Reached
from chaos.explorers.every import Every
from chaos.faults.corrupt_delta import CorruptDelta
from chaos.faults.kill import Kill
from chaos.plan import parse_plan
from chaos.pool import Pool
from chaos.route import Speed
from chaos.sandbox import Watch
from chaos.servers.redis import Redis
from chaos.verdict import CellVerdict, Outcome
from chaos.world import Answer
from tests import toy
from tests.capture.recorded import Toy, recorded, run_scenario, setup_of, toying

EVERYWHERE = Every()
STEPS = 6  # enough for the toy to be equal twice in a row after most deaths


def test_an_agent_that_says_that_it_is_equal_and_leaves_other_files_is_not_stopped(tmp_path: Path) -> None:
    code = "if toy.LOG.exists(): Path('resumed').write_text('x')\nwork()"
    with recorded(tmp_path, setup_of(Toy(code, STEPS), "keeps"), toy.CHECKS) as made:
        derived = made.derive("kill@1/after_act")
        assert derived.rest is None
        told = made.told(derived.record, "kill@1/after_act")
        assert told.checks["files"] is Outcome.FAIL
        assert told == made.told(made.execute("kill@1/after_act"), "kill@1/after_act")
    with recorded(tmp_path / "sibling", setup_of(Toy(steps=STEPS), "keeps"), toy.CHECKS) as made:
        assert made.derive("kill@1/after_act").rest is not None


COUNTED = "import json; n = len((toy.DURABLE / 'starts').read_text()); "
STARTS = "starts = toy.DURABLE / 'starts'\nwith open(starts, 'a') as file: file.write('x')\n"


@dataclass(frozen=True)
class Digesting(Toy):
    """A toy that says what digest the state has that another process reads."""

    def digest(self, state: bytes) -> str | None:
        return blake2b(json.dumps(json.loads(state)["answers"]).encode(), digest_size=8).hexdigest()


@pytest.mark.parametrize(
    ("reads", "right"),
    [
        (Toy.reads, True),
        (f"{COUNTED}print(json.dumps({{'answers': load()[n - 1:]}}))", False),
        (f"{COUNTED}print(json.dumps({{'answers': load()}})); sys.exit(n > 1)", False),
    ],
    ids=["right", "something else", "nothing"],
)  # fmt: skip
def test_what_is_read_back_must_be_equal_too(tmp_path: Path, reads: str, right: bool) -> None:
    """The store differs, it counts the starts; what a new process reads from it decides."""
    with recorded(tmp_path, setup_of(Digesting(STARTS + "work()", STEPS, reads), "keeps"), toy.CHECKS) as made:
        derived = made.derive("kill@1/after_act")
        assert (derived.rest is not None) == right
        told = made.told(derived.record, "kill@1/after_act")
        assert (told.checks["state"] is Outcome.PASS) == right
        assert told == made.told(made.execute("kill@1/after_act"), "kill@1/after_act")


ON_SERVER = """
import json
def server(*words):
    url, space = json.loads(os.environ['CHAOS_LEASES'])['redis']
    with socket.create_connection(('127.0.0.1', int(url.split(':')[-1].split('/')[0]))) as there:
        there.sendall(' '.join(words).replace('KEY', space + 'starts').encode() + b'\\r\\n')
        return there.recv(100)
"""
COUNTS = ON_SERVER + "server('INCR', 'KEY')\nwork()"
FORGETS = ON_SERVER + "print(json.dumps({'answers': load()[b'1' not in server('GET', 'KEY').split():]}))"


@dataclass(frozen=True)
class KeepsThere(toy.Keeps):
    """A part of what it keeps is on a server."""

    needs: ClassVar[tuple[str, ...]] = ("redis",)


def test_what_is_on_a_server_is_put_back_and_read_back(tmp_path: Path) -> None:
    """The folder is equal in every run, and says nothing of the server: there the starts are counted."""
    if missing := Redis().missing(""):
        pytest.skip(missing)
    with closing(Pool()) as pool:
        for reads, right in ((Toy.reads, True), (FORGETS, False)):
            made_of = setup_of(Digesting(COUNTS, STEPS, reads), "keeps")
            with recorded(
                tmp_path / str(right), replace(made_of, strategy=KeepsThere(), pool=pool), toy.CHECKS
            ) as made:
                told = [made.told(made.derive("kill@1/after_act").record, "kill@1/after_act") for _ in range(2)]
                assert told[0] == told[1] == made.told(made.execute("kill@1/after_act"), "kill@1/after_act")
                assert (told[0].checks["state"] is Outcome.PASS) == right
                assert (made.derive("kill@1/after_act").rest is not None) == right


HEALS = """
try:
    load()
except ValueError:
    toy.LOG.unlink()
work()
"""


def test_what_a_fault_draws_does_not_depend_on_how_often_the_run_was_tried(tmp_path: Path) -> None:
    """An agent that is seen through to its end after all is damaged where it was the first time."""
    target = Digesting(STARTS + HEALS, 9, f"{COUNTED}print(json.dumps({{'answers': load()[n - 1:]}}))")
    setup = setup_of(target, "keeps", {"damage": CorruptDelta("truncate", "live")})
    plan, drawn = parse_plan("damage@5/after_act"), set[object]()
    with recorded(tmp_path, setup, toy.CHECKS) as made:
        for seed in range(1, 4):
            derived = made.deriver.derive(plan, random.Random(seed), tmp_path / str(seed))
            told = made.told(derived.record, plan)
            assert derived.rest is None and told == made.told(made.execute(plan, seed), plan)
            drawn.add(told.landed)
    assert len(drawn) > 1, "the draws are all the same, so this test shows nothing"


WITHOUT_KEY = """
def begun():
    answers = begin()
    while len(answers) < toy.STEPS:
        if len(answers) == 1:
            toy.post('/email/send', {'to': 'all'}, {}, toy.SERVICES)
        step(answers)
    finish(answers)
begun()
"""


@dataclass(frozen=True)
class Stumbling(toy.CountingBrain):
    """Has no answer to some calls: an error in a scenario, which nothing is to be concluded from."""

    def serve(self, service: str, operation: str, payload: Mapping[str, Any]) -> Answer:
        if operation == "send":
            return Answer(200, {"ok": True}, effect=True)
        raise KeyError(operation)


@dataclass(frozen=True)
class StumblingToy(Toy):
    code: str = "if toy.LOG.exists(): toy.post('/email/recall', {}, {}, toy.SERVICES)\nwork()"

    def brain(self, seed: int) -> toy.CountingBrain:
        return Stumbling()


def test_a_world_that_failed_is_no_result_even_if_the_agent_recovered(tmp_path: Path) -> None:
    with recorded(tmp_path, setup_of(StumblingToy(steps=STEPS), "keeps"), toy.CHECKS) as made:
        for run in (made.derive, made.execute, made.derive):
            with pytest.raises(HarnessError, match="the world failed: KeyError"):
                run("kill@1/after_act")
        assert made.derive("kill@0/before_think").rest is not None, "it has nothing to recall then"


def test_an_effect_that_was_repeated_is_told_by_both_ways(tmp_path: Path) -> None:
    with recorded(tmp_path, setup_of(Toy(WITHOUT_KEY, STEPS), "keeps"), toy.CHECKS) as made:
        for plan, verdict in (("kill@1/after_act", Outcome.FAIL), ("kill@1/after_commit", Outcome.PASS)):
            derived = made.derive(plan)
            assert derived.rest is not None, "no service answers otherwise for it"
            told = made.told(derived.record, plan)
            assert told.checks["effects"] is verdict
            assert told == made.told(made.execute(plan), plan)


LATE = Every(("after_commit",), after=3)  # what a store without its log loses there is more than is allowed


def missing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have one durable file left out of what is put back."""
    put_back = Shelf.put_back

    def torn(self: Shelf, capture: Capture) -> int:
        written = put_back(self, capture)
        log = self.root / "durable" / "history.jsonl"
        if log.exists():
            log.unlink()
        return written

    monkeypatch.setattr(Shelf, "put_back", torn)


def old(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have one durable file be put back as it was some steps before."""
    put_back = Shelf.put_back

    def torn(self: Shelf, capture: Capture) -> int:
        written = put_back(self, capture)
        log = self.root / "durable" / "history.jsonl"
        if log.exists():
            log.write_text("".join(log.read_text().splitlines(keepends=True)[:-3]))
        return written

    monkeypatch.setattr(Shelf, "put_back", torn)


@pytest.mark.parametrize("lie", [missing, old])
@pytest.mark.parametrize("verify", [False, True], ids=["sampled", "verified"])
def test_a_capture_that_is_not_true_is_found_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lie: Callable[[pytest.MonkeyPatch], None], verify: bool
) -> None:
    lie(monkeypatch)
    scenario = toying(toy.spec(Kill(), LATE), target=Toy(steps=STEPS))
    ran = run_scenario(tmp_path / "fast", scenario, Speed.FAST, verify=verify)
    assert (ran.cell.verdict, ran.cell.passed) == (CellVerdict.HARNESS_ERROR, False)
    wrong = [run for run in ran.runs if run.verdict is CellVerdict.HARNESS_ERROR]
    assert len(wrong) == (3 if verify else 1)
    assert "derived from a captured crash state this run is recovered with loss; breaks recovery" in wrong[0].error
    assert "killed for real it is recovered: use --chaos-speed real" in wrong[0].error
    assert wrong[0].error in ran.cell.why


BESIDE = """
import subprocess
WRITER = '''
import itertools, os
for number in itertools.count(1):
    for name in ("a", "z"):
        open(name + ".new", "w").write(str(number))
        os.replace(name + ".new", name)
'''
for number in range(300): Path(f"m{number}").write_text(str(number))
for name in ("a", "z"):
    if Path(name).exists(): say(f"{name} {Path(name).read_text()}")
writer = subprocess.Popen((sys.executable, "-S", "-c", WRITER))
while not Path("z").exists(): time.sleep(0.01)
work()
writer.kill()
writer.wait()
for name in ("a", "z", "a.new", "z.new"): Path(name).unlink(missing_ok=True)
"""


@dataclass(frozen=True)
class Restless(Toy):
    """A toy with something beside it that is never still."""

    code: str = BESIDE

    def watch(self) -> Watch:
        return Watch(volatile=("workspace/a", "workspace/z", "workspace/a.new", "workspace/z.new"))


def test_what_runs_while_the_agent_stands_is_captured_at_one_instant(tmp_path: Path) -> None:
    """The writer makes a and z the same number, a first: at no instant are they further apart than one."""
    with recorded(tmp_path, setup_of(Restless(), "keeps"), toy.CHECKS) as made:
        found = []
        for plan in made.plans()[::3]:
            keys = [event.key for event in made.derive(plan).record.events if isinstance(event, Reached)]
            a, z = (int(key.split()[1]) for key in keys if key.startswith(("a ", "z ")))
            found.append((a, z))
    assert len(found) == 4
    assert all(a - z in (0, 1) for a, z in found), found
    assert found == sorted(found) and found[0] < found[-1], "it went on"


def test_an_agent_that_is_not_deterministic_has_no_reference(tmp_path: Path) -> None:
    target = Toy("Path('when').write_text(str(time.time_ns())); work()")
    scenario = toying(toy.spec(Kill(), EVERYWHERE), target=target)
    fast, real = (run_scenario(tmp_path / speed, scenario, speed) for speed in (Speed.FAST, Speed.REAL))
    assert fast.cell.verdict is real.cell.verdict is CellVerdict.UNKNOWN
    assert fast.cell.why == real.cell.why and "workspace/when has other content" in fast.cell.why
    assert fast.runs == real.runs == []
