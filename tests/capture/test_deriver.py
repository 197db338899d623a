"""Derived runs are what real ones are: cell by cell, and where an agent, or its sandbox, could fool the engine."""

from __future__ import annotations

import json
import os
import random
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from hashlib import blake2b
from pathlib import Path
from typing import Any, ClassVar

import pytest

from chaos import journal, route
from chaos.campaign import Runner
from chaos.capture.chain import Chain
from chaos.capture.convergence import Convergence
from chaos.capture.moments import Recorder
from chaos.capture.shelf import Capture, Shelf
from chaos.errors import HarnessError
from chaos.events.seen import Called, Operated, Reached
from chaos.explorers.every import Every
from chaos.explorers.fixed import Fixed
from chaos.faults import Fault
from chaos.faults.corrupt_delta import CorruptDelta
from chaos.faults.crash_loop import CrashLoop
from chaos.faults.evict import Evict
from chaos.faults.kill import Kill
from chaos.faults.rate_limit import RateLimit
from chaos.leftovers import PREFIX
from chaos.plan import STEP_PHASES, Plan, Point, parse_plan
from chaos.pool import Pool
from chaos.results import DERIVED, EQUAL, KILLED
from chaos.route import Speed
from chaos.sandbox import Watch
from chaos.sandbox.process import able
from chaos.scenario import StrategySpec
from chaos.servers.redis import Redis
from chaos.targets.reference import Reference, media
from chaos.targets.reference.strategies.cow import Cow
from chaos.verdict import CellVerdict, Outcome
from chaos.world import Answer
from chaos.world.server import World
from tests import toy
from tests.bench import remains
from tests.capture.recorded import Ran, Toy, planted, recorded, reference, run_scenario, setup_of, toying

EVERYWHERE = Every()
STEPS = 6  # enough for the toy to be equal twice in a row after most deaths


# -- equal verdicts, cell by cell


def agree(derived: Ran, other: Ran) -> None:
    assert derived.errors == other.errors == []
    assert derived.verdicts == other.verdicts
    assert (derived.cell.verdict, derived.cell.passed) == (other.cell.verdict, other.cell.passed)


@pytest.mark.parametrize("strategy", [toy.KEEPS, toy.FORGETS], ids=lambda strategy: strategy.name)
def test_the_toy_gives_the_same_verdicts_however_its_runs_are_made(tmp_path: Path, strategy: StrategySpec) -> None:
    scenario = toying(toy.spec(Kill(), EVERYWHERE), strategies=(strategy,))
    derived = run_scenario(tmp_path / "derived", scenario, Speed.FAST)
    assert len(derived.runs) == 4 * toy.STEPS and derived.cell.real_because == ""
    assert sorted({run.how for run in derived.runs}) == [DERIVED, EQUAL, KILLED]
    assert sum(run.how == KILLED for run in derived.runs) == 1, "one of twenty is killed for real"
    assert {run.like for run in derived.runs if run.how == EQUAL} <= {run.plan for run in derived.runs if not run.like}
    real = run_scenario(tmp_path / "real", scenario, Speed.REAL)
    assert {run.how for run in real.runs} == {KILLED}
    agree(derived, real)
    every = run_scenario(tmp_path / "every", scenario, Speed.FAST, prune=False)
    assert {run.how for run in every.runs} == {DERIVED, KILLED} and not any(run.like for run in every.runs)
    agree(every, real)


def test_an_old_journal_is_a_whole_run(tmp_path: Path) -> None:
    """What a derived run's journal holds, and names, gives the record that was judged."""
    with recorded(tmp_path, setup_of(Toy(steps=STEPS), "keeps")) as made:
        for plan in ("kill@1/after_act", "kill@5/after_commit"):
            derived = made.derive(plan)
            assert tuple(derived.record.events) == journal.read(derived.journal)
            assert (derived.rest is None) == (plan == "kill@5/after_commit")


COMMIT, TICKET, PAYMENT = 9, 10, 12
BUGS = {
    "none": (Fixed((PAYMENT,), STEP_PHASES), set[str]()),
    "effect_without_key": (Fixed((PAYMENT,), ("before_act", "after_act", "after_commit")), {"effects"}),
    "record_before_effect": (
        Fixed((TICKET,), ("before_act", "after_act", "after_commit")),
        {"effects", "goal", "files", "state", "budget"},
    ),
    "stale_snapshot": (Fixed((PAYMENT,), ("before_act", "after_commit")), {"recovery"}),
    "checkpoint_in_place": (Fixed((COMMIT,), ("during_commit", "after_commit")), {"finishes"}),
}


@pytest.mark.parametrize("bug", BUGS)
def test_a_planted_bug_is_found_at_the_same_points_however_runs_are_made(tmp_path: Path, bug: str) -> None:
    at, breaks = BUGS[bug]
    scenario = planted(toy.spec(Kill(), at), bug)
    derived = run_scenario(tmp_path / "derived", scenario, Speed.FAST, verify=True)
    assert derived.errors == [] and len(derived.runs) == len(at.steps) * len(at.phases)
    assert {name for run in derived.runs for name in run.broke} == breaks
    assert sum(run.how == KILLED for run in derived.runs) == 1


def test_a_fault_that_does_more_than_to_kill_is_real(tmp_path: Path) -> None:
    """An eviction loses the container's files, which this agent trusts."""
    scenario = planted(toy.spec(Evict(grace=0.0), Fixed((PAYMENT,))), "tmp_trusted")
    ran = run_scenario(tmp_path / "fast", scenario, Speed.FAST, verify=True)
    assert ran.runs[0].broke == ("files",) and ran.runs[0].how == KILLED
    assert ran.cell.real_because == "evict does more than to end the agent: there is no crash state to begin with"


LIGHT = ("restart", "in_memory", "chat_history", "full_snapshot", "selective", "cow")
HEAVY = ("delta", "deep_agents", "semantic", "events", "segmented", "layered")


@pytest.mark.parametrize("strategy", LIGHT)
def test_every_embedded_strategy_gives_the_same_verdicts(tmp_path: Path, strategy: str) -> None:
    scenario = reference(toy.spec(Kill(), Fixed((5,), STEP_PHASES)), strategy)
    ran = run_scenario(tmp_path / "fast", scenario, Speed.FAST, verify=True)
    assert ran.errors == [] and ran.cell.real_because == ""
    assert len(ran.runs) == (3 if strategy == "restart" else 5)  # it commits nothing
    assert sum(run.how == KILLED for run in ran.runs) == 1 and DERIVED in ran.how.values()


@dataclass(frozen=True)
class Stairs:
    """Each phase once, at another step, with room to recover in between."""

    def plans(self, points: Sequence[Point], fault: str, runs: int, rng: random.Random) -> tuple[Plan, ...]:
        return tuple(parse_plan(f"{fault}@{2 * number + 1}/{phase}") for number, phase in enumerate(STEP_PHASES))


@pytest.mark.parametrize("strategy", HEAVY)
def test_heavy_ones_are_killed_for_real_in_one_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, strategy: str
) -> None:
    """A run of theirs takes a second: all five phases are verified, each at another step of the same run."""
    monkeypatch.setattr(route, "SHARE", 1)
    ran = run_scenario(tmp_path / "fast", reference(toy.spec(Kill(), Stairs()), strategy), Speed.FAST)
    assert ran.errors == [] and ran.cell.real_because == ""
    assert [run.how for run in ran.runs] == [KILLED] * len(STEP_PHASES)
    assert all("/real-from-0/" in run.journal for run in ran.runs), "what a run with several of them gave was right"


@pytest.mark.parametrize(
    ("strategy", "fault"),
    [
        ("full_snapshot", CrashLoop(times=2)),
        ("delta", CorruptDelta("truncate", "latest")),
        ("chat_history", CorruptDelta("flip")),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_other_deaths_give_the_same_verdicts(tmp_path: Path, strategy: str, fault: Fault) -> None:
    scenario = reference(toy.spec(fault, Fixed((5,), ("after_act", "after_commit"))), strategy)
    ran = run_scenario(tmp_path / "fast", scenario, Speed.FAST, verify=True)
    assert ran.errors == [] and len(ran.runs) == 2 and DERIVED in ran.how.values()
    assert all(len(run.landed) == 1 for run in ran.runs)


def test_what_is_kept_where_it_cannot_be_copied_is_run_from_its_start(tmp_path: Path) -> None:
    """Snapshots of a file system, taken outside of the sandbox, cannot be put back with the zones."""
    medium = next((name for name in ("reflink", "overlay", "btrfs") if not media.missing(name)), "")
    if not medium:
        pytest.skip(media.missing("overlay"))
    strategies = (StrategySpec("cow", "cow", Cow(snapshots=medium)),)  # type: ignore[arg-type]
    scenario = toying(toy.spec(Kill(), Fixed((5,))), target=Reference(steps=12), strategies=strategies)
    ran = run_scenario(tmp_path / "fast", scenario, Speed.FAST)
    assert ran.how == {"kill@5/after_act": KILLED} and ran.cell.verdict is CellVerdict.RECOVERED
    assert f"{medium} snapshots are a part of the file system that they were taken on" in ran.cell.real_because


# -- two cells whose crash-free run is the same


def test_cells_share_a_recorded_run_and_nothing_else(tmp_path: Path) -> None:
    faults = toy.spec(Kill(), EVERYWHERE), toy.spec(Kill(), EVERYWHERE, label="late")
    scenario = toying(*faults)
    folder = tmp_path / "out"
    folder.mkdir()
    runner = Runner(folder, "campaign", toy.SEED, speed=Speed.FAST)
    try:
        cells = [runner.run_cell(cell) for cell in toy.cells(scenario)]
    finally:
        runner.close()
    assert [cell.verdict for cell in cells] == [CellVerdict.RECOVERED] * 2, [cell.why for cell in cells]
    assert len(list((folder / "runs/reference").glob("*/recorded-*"))) == 1
    for run in toy.runs(folder):
        assert [one.fault for one in run.landed] == ["kill"] and run.error == ""
        assert run.plan.startswith(f"{run.fault}@") and (not run.like or run.like.startswith(f"{run.fault}@"))


# -- what could fool it


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


# -- several faults


@pytest.mark.parametrize(
    ("plan", "landed"),
    [
        ("kill@1/after_act+kill@recovery/after_load", 2),
        ("kill@1/after_act+kill@recovery/3/after_act", 2),
        ("kill@2/after_commit+rate_limit@recovery/before_think", 2),
        ("kill@2/after_act+rate_limit@recovery/4/before_think", 2),
        ("kill@2/after_act+kill@recovery/99/before_think", 1),
        ("crash_loop@2/after_act+kill@recovery/3/after_commit", 2),
    ],
)
def test_what_happens_after_a_derived_death_is_real(tmp_path: Path, plan: str, landed: int) -> None:
    faults: Mapping[str, Fault] = {"kill": Kill(), "rate_limit": RateLimit(2, 0.001), "crash_loop": CrashLoop(2)}
    setup = setup_of(Toy(steps=STEPS), "keeps", faults, backoff_limit=6)
    with recorded(tmp_path, setup, toy.CHECKS) as made:
        assert made.deriver.obstacle(parse_plan(plan)) == ""
        told = made.told(made.derive(plan, prune=True).record, plan)
        assert told == made.told(made.execute(plan), plan)
        assert len(told.landed) == landed


def test_plans_that_cannot_be_derived_say_why(tmp_path: Path) -> None:
    faults: Mapping[str, Fault] = {"kill": Kill(), "rate_limit": RateLimit(2, 0.001), "evict": Evict(0.1)}
    with recorded(tmp_path, setup_of(Toy(), "keeps", faults)) as made:
        for plan, why in (
            ("kill@99/after_act", "no such point as 99/after_act"),
            ("kill@after_load", "no such point as after_load"),
            ("kill@recovery/1/after_act", "no such point as recovery/1/after_act"),
            ("rate_limit@1/before_think", "rate_limit does more than to end the agent"),
            ("evict@1/after_act+kill@recovery/after_load", "evict does more than to end the agent"),
            ("no fault", "nothing is to happen"),
        ):
            assert why in made.deriver.obstacle(parse_plan(plan))


def test_held_system_calls_and_operations_are_captured_too(tmp_path: Path) -> None:
    if missing := able().syscalls:
        pytest.skip(missing)
    code = (
        "def durably(answers):\n"
        "    with open(toy.DURABLE / 'copy', 'w') as file:\n"
        "        file.write(str(len(answers))); file.flush(); os.fsync(file.fileno())\n"
        "answers = begin()\n"
        "while len(answers) < toy.STEPS:\n"
        "    step(answers)\n"
        "    durably(answers)\n"
        "finish(answers)\n"
    )
    setup = replace(
        setup_of(Toy(code, STEPS), "keeps"),
        syscalls=frozenset({"fsync"}),
        operations=frozenset({"model_reply", "effect"}),
    )
    with recorded(tmp_path, setup, toy.CHECKS) as made:
        for plan in ("kill@3/fsync", "kill@2/model_reply", "kill@1/effect", "kill@1/fsync+kill@recovery/2/fsync"):
            assert made.deriver.obstacle(parse_plan(plan)) == ""
            told = made.told(made.derive(plan).record, plan)
            assert len(told.landed) == plan.count("kill") and told == made.told(made.execute(plan), plan), plan
        assert not any(made.deriver.chains(parse_plan(plan)) for plan in ("kill@1/effect", "kill@4/fsync"))
        plans = [parse_plan(plan) for plan in ("kill@1/after_act", "kill@4/after_act")]
        killed = list(made.deriver.kill(plans, random.Random(1), tmp_path / "real"))
        assert [real.plan for real in killed] == plans
        for real in killed:
            derived = made.derive(real.plan).record
            assert made.told(real.record, real.plan) == made.told(derived, real.plan)
            held = [[e.phase for e in run.events if isinstance(e, Called | Operated)] for run in (real.record, derived)]
            assert held[0] == held[1] and "fsync" in held[0]


# -- the place


def here() -> list[str]:
    """Return everything of ours on this machine that is there for a run, or a recorded one."""
    folders = Path(tempfile.gettempdir()).glob(f"{PREFIX}{os.getpid()}-*")
    descriptors = [f"/proc/self/fd/{name}" for name in os.listdir("/proc/self/fd")]
    opened = [os.readlink(name) for name in descriptors if os.path.islink(name)]
    files = [name for name in opened if "captures-" in name or name.endswith("journal.jsonl")]
    sockets = {name.removeprefix("socket:[").removesuffix("]") for name in opened}
    claims = [line.split() for line in Path("/proc/net/unix").read_text().splitlines() if "@chaos-port-" in line]
    claimed = [words[-1] for words in claims if words[-2] in sockets]
    return sorted([*remains.of_a_run(os.getpid()), *map(str, folders), *claimed, *files])


def breaking(monkeypatch: pytest.MonkeyPatch, of: Any, method: str, number: int, error: type[BaseException]) -> None:
    """Have the call of that *number* (from 1) of a *method* raise *error*, and no other."""
    calls, real = iter(range(1, 10**6)), getattr(of, method)

    def broken(*given: Any, **named: Any) -> Any:
        if next(calls) == number:
            raise error("broken by the test")
        return real(*given, **named)

    monkeypatch.setattr(of, method, broken)


MOMENTS = {
    "at the first capture": (Recorder, "taken_before", 1),
    "while recording": (Recorder, "standing", 7),
    "in a capture": (Shelf, "take", 7),
    "while it is put back": (World, "recall", 1),
    "in the middle of a derived run": (Convergence, "standing", 2),
    "in a real one": (Chain, "standing", 9),
}


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("error", [KeyboardInterrupt, HarnessError, ZeroDivisionError])
def test_nothing_is_left_after_an_interrupt_or_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str, error: type[BaseException]
) -> None:
    before = here()
    breaking(monkeypatch, *MOMENTS[moment], error)
    plans = [parse_plan("kill@1/after_act"), parse_plan("kill@4/after_act")]
    with (
        pytest.raises(error, match="broken by the test"),
        recorded(tmp_path, setup_of(Toy(steps=STEPS), "keeps"), toy.CHECKS) as made,
    ):
        made.derive(plans[0])
        list(made.deriver.kill(plans, random.Random(1), tmp_path / "real"))
    assert here() == before


def test_nothing_is_left_when_it_is_closed(tmp_path: Path) -> None:
    before = here()
    with recorded(tmp_path, setup_of(Toy(steps=STEPS), "keeps")) as made:
        made.derive("kill@1/after_act")
        there = os.listdir(tempfile.gettempdir())
        assert any(name.startswith(f"{PREFIX}{os.getpid()}-captures-") for name in there), "so this test shows nothing"
        made.deriver.close()
    assert here() == before


def test_a_run_that_failed_spoils_none_of_those_that_follow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = "kill@2/after_act"
    with recorded(tmp_path, setup_of(Toy(steps=STEPS), "keeps"), toy.CHECKS) as made:
        right = made.told(made.derive(plan).record, plan)
        for of, method in ((Convergence, "standing"), (World, "recall"), (Shelf, "current"), (Shelf, "put_back")):
            with monkeypatch.context() as patched:
                breaking(patched, of, method, 1, ZeroDivisionError)
                with suppress(ZeroDivisionError):
                    made.derive("kill@4/after_act")
                    pytest.fail("nothing was broken, so this test shows nothing")
            assert made.told(made.derive(plan).record, plan) == right
