"""The page of a large campaign: 2,000 runs, each with a journal, of which many fail in different ways."""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Callable
from typing import Any

import msgspec

from chaos import results
from chaos.checks._diff import json_diff
from chaos.events.seen import FileEntry, Observation, Observed, Reached
from chaos.mask import Json
from chaos.reports import html
from chaos.verdict import PASS, CellVerdict, Verdict, fail
from tests.reports.conftest import STEPS, Recorder

MEGABYTES = 11
STRATEGIES, SCENARIOS, RUNS = 10, 10, 20
CHECKS = ("budget", "environment", "fencing", "finishes", "goal", "processes", "recovery", "retries", "streams")
LETTERS = "abcdefghijkl"  # in names: numbers play no part in a cause
VARIANTS = len(LETTERS)  # different journals; the runs share them, as the evidence of many runs is alike


def state(lost: int = 0) -> Json:
    """The state of an agent after a long conversation, *lost* of whose messages are gone."""
    messages: list[Json] = [
        {"role": "assistant", "content": f"Turn {n}: " + "the figures of the quarter are in the report. " * 12}
        for n in range(2 * STEPS - lost)
    ]
    return {"messages": messages, "steps": STEPS - lost, "session": {"cwd": "analysis", "tokens": 22_000 + lost}}


def seen(lost: int = 0) -> Observation:
    """A sandbox with fifty files, of which *lost* are gone and as many are others."""
    files = [
        FileEntry(f"workspace/data/q{n}.csv", "file", 0o644, 1800, f"{n + (n < 2 * lost):032x}", text=f"row {n + lost}")
        for n in range(lost, 50)
    ]
    return Observation(files=tuple(files), repositories=(), processes=())


def write(sample: Any, name: str, lost: int = 0) -> str:
    """Write the journal of a run that ends without *lost* messages and files; return its path among the results."""
    recorder = Recorder(sample.folder / name)
    recorder.start()
    if lost:
        recorder.steps(0, 7 + lost, until="after_act")
        recorder.inject("kill", f"{7 + lost}/after_act")
        recorder.start()
    recorder.steps(7 if lost else 0, STEPS - 1)
    snapshot = msgspec.Raw(msgspec.json.encode(state(lost)))
    recorder.journal.add(Reached, step=STEPS, phase="finished", key="finished", snapshot=snapshot)
    recorder.journal.add(Observed, step=STEPS, phase="finished", seen=seen(lost))
    recorder.end()
    return name


def fill(sample: Any) -> int:
    """Write a campaign of 2,000 runs of which nearly half fail, each cell in its own ways; return how many."""
    reference = write(sample, "journals/whole.jsonl")
    journals = [reference, *(write(sample, f"journals/{lost}.jsonl", lost) for lost in range(1, VARIANTS))]
    diffs = [json_diff(state(lost), state()) for lost in range(VARIANTS)]
    held = dict.fromkeys(CHECKS, PASS)
    count = 0
    for strategy, scenario in itertools.product(range(STRATEGIES), range(SCENARIOS)):
        runs = []
        for number in range(RUNS):
            lost = (strategy + number) % VARIANTS if number % 2 else 0
            own = f"journals/{strategy}-{scenario}-{number}.jsonl"
            os.link(sample.folder / journals[lost], sample.folder / own)
            wrong: dict[str, Verdict] = {
                "files": fail(f"workspace/data/{LETTERS[scenario]}{LETTERS[lost]}.csv is missing (and {lost} more)"),
                "state": fail("attempt 2 resumed at step 9 with a state that the reference had not there", diffs[lost]),
            }
            changes: dict[str, Any] = {"checks": {**held, **wrong}, "broke": ("files", "state")} if lost else {}
            run = sample.run(
                f"large-{scenario}", f"strategy_{strategy}", "kill", number,
                CellVerdict.DIVERGED if lost else CellVerdict.RECOVERED,
                write=False, journal=own, reference=reference, **changes,
            )  # fmt: skip
            runs.append(run)
            count += 1
        bad = any(run.broke for run in runs)
        why = f"{sum(bool(run.broke) for run in runs)} of {RUNS} runs broke files and state"
        sample.cell(f"large-{scenario}", f"strategy_{strategy}", "kill", tuple(runs), passed=not bad, why=why)
    return count


def test_two_thousand_runs_with_evidence_fit_on_a_page_that_opens(build: Callable[[], Any]) -> None:
    sample = build()
    assert fill(sample) == 2000
    page = html.build(results.read(sample.folder), sample.folder)
    assert 3_000_000 < len(page.html.encode()) < MEGABYTES * 1_000_000
    causes = len(re.findall('<section class="failure"', page.html))
    assert causes > 2 * html.DETAILED_FAILURES
    assert page.html.count("<h4>State at the end</h4>") == html.DETAILED_FAILURES
    assert "come without evidence, to keep this page small" in page.html
    assert page.html.count("<h3>") >= STRATEGIES * SCENARIOS
