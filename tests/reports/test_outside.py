"""What halves outside the sandbox did, summed over runs and said in a sentence."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from chaos import results
from chaos.reports import html, terminal
from chaos.reports.outside import outside
from chaos.verdict import CellVerdict
from tests.reports.conftest import Sample

TURNS = {"turns": 40, "skip": 30, "files": 9, "processes": 2}


def told(sample: Sample, *given: dict[str, Any]) -> Path:
    """Fill *sample* with one run for each of *given*; return its folder."""
    for number, one in enumerate(given):
        sample.run("told", "semantic", "kill", number, CellVerdict.RECOVERED, outside=one)
    return sample.folder


def test_sums_over_all_runs_of_a_strategy(build: Callable[[], Sample]) -> None:
    audited = {"turns": {**TURNS, "false_negatives": 1, "false_positives": 2}, "processes": {"how": "restored"}}
    folder = told(build(), audited, {"turns": TURNS, "processes": {"how": "respawned"}})
    (found,) = outside(results.read(folder))
    assert (found.turns, found.skipped, found.files, found.processes) == (80, 60, 18, 4)
    assert (found.audited, found.missed, found.needless) == (40, 1, 2)
    assert found.sentence == (
        "semantic: 75 % of 80 turns needed no snapshot; by a full diff 1 missed (false negatives), 2 needless; "
        "processes came back with their memory in 1 of 2 recoveries"
    )


def test_who_tells_nothing_is_not_there(build: Callable[[], Sample], campaign: results.Campaign) -> None:
    assert outside(campaign) == ()
    assert outside(results.read(told(build(), {"restore": {"step": 3}}))) == ()


def test_both_reports_say_it(build: Callable[[], Sample]) -> None:
    folder = told(build(), {"turns": TURNS})
    campaign, wanted = results.read(folder), "semantic: 75 % of 40 turns needed no snapshot"
    assert wanted in terminal.render(campaign, None, 100)
    assert wanted in html.render(campaign, folder)
