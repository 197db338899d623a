"""A campaign with every state of a cell and every kind of evidence, written as the harness writes it."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import pytest

from chaos import results
from chaos.events.done import DiskWiped, HostRenamed, Injecting, MemoryClamped, Signalled, StoreDamaged
from chaos.events.seen import Asked, Effected, Ended, Exited, Measured, Reached, Started
from chaos.journal import Journal
from chaos.plan import STEP_PHASES
from chaos.results import CampaignInfo, CellResult, Landed, RecoveryTime, RunResult, Storage, Tokens
from chaos.verdict import PASS, CellVerdict, Verdict, fail, unknown

STEPS = 24
HOSTILE = "<script>alert('finding')</script> & \"quotes\""
LOG = (
    "Traceback (most recent call last):\n"
    '  File "agent.py", line 7, in act\n'
    "ConnectionError: <img src=x onerror=alert(1)>\n"
    "env: OPENAI_API_KEY=sk-live-abcdef123456 db=postgres://agent:hunter22@db/main tokens: 1300"
)


def landed_of(fault: str, at: str) -> Landed:
    """Return what the harness writes when *fault* hit."""
    proofs: dict[str, tuple[str, dict[str, str | int | float]]] = {
        "kill": ("killed", {"status": -9, "pid": 4711}),
        "oom_kill": (
            "killed by the kernel",
            {"status": -9, "oom_kill_before": 0, "oom_kill_after": 1, "limit_bytes": 41_000_000},
        ),
        "evict": ("evicted", {"status": -15, "entries_lost": 14, "host": "agent-0 -> agent-1"}),
        "rate_limit": ("refused", {"refused_429": 3, "retry_after_seconds": 0.5}),
        "corrupt_delta": (
            "killed, flip in the store",
            {"status": -9, "where": "writes[17]", "bytes_before": 812, "bytes_after": 812,
             "digest": f"{'a' * 64} -> {'b' * 64}"},
        ),
    }  # fmt: skip
    how, evidence = proofs[fault]
    return Landed(fault, at, how, evidence)


@dataclass
class Recorder:
    """Writes one journal of an agent of STEPS steps, with a clock that moves 20 ms per event."""

    path: Path
    ticks: itertools.count[int] = field(default_factory=itertools.count)

    def __post_init__(self) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.journal = Journal(self.path, clock=lambda: next(self.ticks) * 0.02)

    def start(self, host: str = "agent-0") -> None:
        self.journal.attempt += 1
        self.journal.add(Started, pid=4710 + self.journal.attempt, hostname=host, thread_id="thread-1")

    def steps(self, first: int, last: int, until: str = "after_commit") -> None:
        for step in range(first, last + 1):
            for phase in STEP_PHASES:
                self.journal.add(Reached, step=step, phase=phase, key=f"step-{step}")
                if phase == "before_think":
                    self.journal.add(
                        Asked,
                        turn=step,
                        status=200,
                        prompt=f"p{step}",
                        prefixes=(),
                        messages=msgspec.Raw(b"[]"),
                        goal="g",
                    )
                if phase == "before_act" and step % 4 == 1:
                    self.effect(step)
                if step == last and phase == until:
                    return

    def effect(self, step: int) -> None:
        payload = f'{{"title": "Q{step} <b>report</b>", "token": "t0p-s3cret"}}'
        self.journal.add(
            Effected, service="tickets", operation="create", identity=f"tickets create {step}", payload=payload
        )

    def inject(self, fault: str, at: str) -> None:
        self.journal.add(Injecting, index=0, fault=fault, point=at)
        if fault == "oom_kill":
            self.journal.add(
                MemoryClamped, limit_bytes=41_000_000, usage_bytes=44_000_000, oom_kill_before=0, oom_kill_after=1
            )
        elif fault == "rate_limit":
            for _ in range(3):
                self.journal.add(
                    Asked, turn=9, status=429, prompt="p9", prefixes=(), messages=msgspec.Raw(b"[]"), goal="g"
                )
            return
        else:
            self.journal.add(Signalled, pid=4711, signal=15 if fault == "evict" else 9)
        self.journal.add(Exited, status=-15 if fault == "evict" else -9, oom_kill=int(fault == "oom_kill"), log=LOG)
        if fault == "evict":
            self.journal.add(DiskWiped, zones=("workspace", "tmp"), files=14)
            self.journal.add(HostRenamed, old="agent-0", new="agent-1")
        if fault == "corrupt_delta":
            self.journal.add(
                StoreDamaged, store="checkpoints.sqlite", how="flip", where="writes[17]", bytes_before=812,
                bytes_after=812, digest_before="a" * 64, digest_after="b" * 64,
            )  # fmt: skip

    def end(self, how: str = "finished") -> None:
        self.journal.add(Measured, stored_bytes=361_000)
        self.journal.add(Ended, how=how)
        self.journal.close()


def record(path: Path, fault: str = "", at: int = 0, resume: int = 0) -> None:
    """Write the journal of a run that *fault* hits after the act of step *at*, resumed at step *resume*."""
    recorder = Recorder(path)
    recorder.start()
    if fault == "rate_limit":
        recorder.steps(0, at, until="before_think")
        recorder.inject(fault, f"{at}/before_think")
        recorder.steps(at, STEPS - 1)
    elif fault:
        recorder.steps(0, at, until="after_act")
        recorder.inject(fault, f"{at}/after_act")
        recorder.start("agent-1" if fault == "evict" else "agent-0")
        recorder.steps(resume, STEPS - 1)
    else:
        recorder.steps(0, STEPS - 1)
    recorder.end()


class Sample:
    """Builds a results folder cell by cell."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        results.write_info(
            folder,
            CampaignInfo(
                campaign="3f9c2a", seed=8412, began="2026-11-30T06:50:00Z", command="pytest --chaos scenarios",
                versions={"pytest-chaos": "0.1.0", "Python": "3.11.7", "LangGraph": "1.2.24", "kernel": "6.1.0"},
                machine={"pid namespaces": "yes", "docker": "no daemon answers", "API_TOKEN": "abc123"},
            ),
        )  # fmt: skip
        record(folder / "journals/reference.jsonl")

    def run(
        self,
        scenario: str,
        strategy: str,
        fault: str,
        number: int,
        verdict: CellVerdict,
        *,
        write: bool = True,
        **changes: object,
    ) -> RunResult:
        """Append one run and return it; *write*: with its journal."""
        at, name = 7 + 3 * number, f"journals/{scenario}-{strategy}-{fault}-{number}.jsonl".replace(":", "_")
        resume = at if verdict is CellVerdict.RECOVERED else at - 3
        if write:
            record(self.folder / name, fault, at, resume)
        point = f"{at}/before_think" if fault == "rate_limit" else f"{at}/after_act"
        run = RunResult(
            campaign="3f9c2a", scenario=scenario, strategy=strategy, fault=fault, run=number, seed=number,
            plan=f"{fault}@{point}", planned=1, landed=(landed_of(fault, point),),
            checks={"state": PASS, "effects": PASS}, verdict=verdict, attempts=2, steps=STEPS, rpo_steps=at - resume,
            rto_seconds=RecoveryTime(0.02, 0.41, 0.11, 0.1 * (at - resume) + 0.05 * number),
            tokens=Tokens(8200, 410 * (at - resume), 90 * (fault == "rate_limit")),
            storage=Storage(361_000, 402_000 + at),
            claims={"messages": "kept", "files": "refuted" if verdict is CellVerdict.DIVERGED else "kept"},
            replay=f"pytest --chaos {scenario}.chaos.yaml --chaos-strategy {strategy} --chaos-case {number}",
            journal=name, reference="journals/reference.jsonl",
        )  # fmt: skip
        run = msgspec.structs.replace(run, **changes)
        results.append(self.folder, run)
        return run

    def cell(self, scenario: str, strategy: str, fault: str, runs: tuple[RunResult, ...], **fields: object) -> None:
        """Append the result of one cell."""
        verdict = max((run.verdict for run in runs), key=list(CellVerdict).index, default=CellVerdict.NOT_EXERCISED)
        base = CellResult(
            campaign="3f9c2a", scenario=scenario, strategy=strategy, fault=fault, verdict=verdict, passed=True,
            runs=len(runs), planned=sum(run.planned for run in runs), landed=sum(len(run.landed) for run in runs),
            replay=next((run.replay for run in runs if run.verdict is verdict), ""),
        )  # fmt: skip
        results.append(self.folder, msgspec.structs.replace(base, **fields))

    def simple(
        self,
        scenario: str,
        strategy: str,
        fault: str,
        verdicts: tuple[CellVerdict, ...],
        changes: dict[str, object],
        **fields: object,
    ) -> None:
        """Append one cell whose runs have *verdicts*; *changes* apply to those that did not recover."""
        runs = tuple(
            self.run(scenario, strategy, fault, n, v, **({} if v is CellVerdict.RECOVERED else changes))
            for n, v in enumerate(verdicts)
        )
        self.cell(scenario, strategy, fault, runs, **fields)


def broken(*names: str, **changes: object) -> dict[str, object]:
    """Return what differs in a run that broke the checks *names*."""
    details = ("  workspace:", "- workspace/report.md: 9f2c… (reference only)", "+ workspace/report.md: 41aa…", HOSTILE)
    checks: dict[str, Verdict] = {name: fail(f"{name} differs at step 9: {HOSTILE}", details) for name in names}
    return {"broke": names, "checks": {"state": PASS, **checks, "effects": checks.get("effects", PASS)}, **changes}


ALL_GOOD = (CellVerdict.RECOVERED,) * 3
NO_CGROUP = "no memory cgroup: run as root or delegate one"


def fill(sample: Sample) -> None:
    """Write a campaign in which every state occurs."""
    lost, good = CellVerdict.DIVERGED, CellVerdict.RECOVERED
    for scenario, fault in (("oom", "oom_kill"), ("evict", "evict"), ("limits", "rate_limit"), ("crash", "kill")):
        sample.simple(scenario, "full_snapshot", fault, ALL_GOOD, {})
    expected = broken("files", expected=("files",), because="it keeps messages only, files are lost with the container")
    sample.simple(
        "oom", "chat_history", "oom_kill", (lost,) * 3, expected, expected=True, why="files lost, as expected"
    )
    why = "after the eviction workspace/report.md is missing, and the agent does not write it again"
    sample.simple(
        "evict", "chat_history", "evict", (lost, good, lost), broken("files", "effects"), passed=False, why=why
    )
    sample.simple("limits", "chat_history", "rate_limit", ALL_GOOD, {})
    kept = {"passed": False, "why": "files must break here, and did not"}
    sample.simple("crash", "chat_history", "kill", ALL_GOOD, {}, **kept)
    sample.simple("oom", "delta:every=5", "oom_kill", ALL_GOOD, {})
    refused = broken("finishes")
    sample.simple(
        "evict", "delta:every=5", "evict", (CellVerdict.REFUSED,) * 3, refused, passed=False, why="it raised on resume"
    )
    stuck = broken("finishes")
    sample.simple(
        "limits", "delta:every=5", "rate_limit", (CellVerdict.STUCK,) * 3, stuck, passed=False, why="deadline"
    )
    why = f"a flipped byte was applied without a word, {HOSTILE}"
    sample.simple("damage", "delta:every=5", "corrupt_delta", (lost,) * 3, broken("corruption"), passed=False, why=why)
    noticed = {**broken("finishes"), "expected": ("finishes",)}
    why = "it noticed the damage"
    sample.simple(
        "damage", "full_snapshot", "corrupt_delta", (CellVerdict.REFUSED,) * 3, noticed, expected=True, why=why
    )
    sample.cell("oom", "cow", "oom_kill", (), skipped=NO_CGROUP)
    sample.cell("evict", "cow", "evict", (), skipped=NO_CGROUP)
    missed: dict[str, object] = {"landed": (), "rto_seconds": None}
    none = (CellVerdict.NOT_EXERCISED,) * 2
    sample.simple("limits", "cow", "rate_limit", none, missed, passed=False, why="the fault never landed")
    unjudged: dict[str, object] = {"checks": {"state": unknown("no snapshot was sent")}}
    sample.simple("crash", "cow", "kill", (CellVerdict.UNKNOWN,), unjudged, passed=False, why="two references differ")
    error: dict[str, object] = {
        "error": "the sandbox could not be made: password=hunter2",
        "landed": (),
        "rto_seconds": None,
    }
    sample.simple("damage", "cow", "corrupt_delta", (CellVerdict.HARNESS_ERROR,), error, passed=False, why="no sandbox")
    redone = broken("recovery")
    loss = (CellVerdict.RECOVERED_WITH_LOSS,) * 3
    sample.simple("crash", "delta:every=5", "kill", loss, redone, passed=False, why="3 steps were redone, 1 is allowed")
    sample.simple("again", "full_snapshot", "kill", ALL_GOOD, {})
    sample.run("again", "delta:every=5", "kill", 0, good)  # the campaign was interrupted here


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A results folder with every state."""
    sample = Sample(tmp_path_factory.mktemp("results"))
    fill(sample)
    return sample.folder


@pytest.fixture(scope="session")
def campaign(folder: Path) -> results.Campaign:
    """The campaign in `folder`."""
    return results.read(folder)


@pytest.fixture
def build(tmp_path: Path) -> Callable[[], Sample]:
    """Makes an empty campaign to fill."""
    return lambda: Sample(tmp_path / "results")
