"""The plain-text summary: it fits, it says what landed, and every failure has its replay command."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from chaos import results
from chaos.reports import terminal
from chaos.results import Campaign
from chaos.verdict import CellVerdict


def test_the_table_says_each_cell_in_words(campaign: Campaign) -> None:
    lines = terminal.render(campaign, None, 120)
    assert lines[0].split() == ["crash", "again"]
    assert lines[1].split() == ["oom_kill", "evict", "rate_limit", "kill", "corrupt_delta", "kill"]
    assert lines[3].split() == ["chat_history", "files", "0/3", "FILES", "1/3", "ok", "3/3", "XPASS", "3/3", "-", "-"]
    assert lines[5].split()[:5] == ["cow", "skip", "skip", "NOT", "EXERCISED"]


def test_the_lines_that_people_and_scripts_look_for(campaign: Campaign) -> None:
    lines = terminal.render(campaign, ".chaos/report.html", 100)
    assert "47/50 planned faults landed" in lines
    assert "seed 8412" in lines
    assert "report: .chaos/report.html" in lines
    assert "ended early: 1 of 21 cells were not judged" in lines
    assert sum(line.startswith("replay: pytest --chaos") for line in lines) == 1
    assert sum("no memory cgroup" in line for line in lines) == 1
    assert not any(line.startswith("report:") for line in terminal.render(campaign, None, 100))


def test_every_bad_cell_is_explained_and_replayed(campaign: Campaign) -> None:
    lines = terminal.render(campaign, None, 200)
    at = next(number for number, line in enumerate(lines) if line.startswith("FILES chat_history × evict: after"))
    assert lines[at + 1].startswith("    replay: pytest --chaos evict.chaos.yaml --chaos-strategy chat_history")
    assert sum(line.startswith("    replay: ") for line in lines) == 10


@pytest.mark.parametrize("width", [100, 80, 60])
def test_all_but_commands_fit_the_width(campaign: Campaign, width: int) -> None:
    lines = [line for line in terminal.render(campaign, "r.html", width) if "replay: " not in line]
    assert max(map(len, lines)) <= width


def test_many_faults_are_split_into_blocks(build: Callable[[], Any]) -> None:
    sample = build()
    for number in range(9):
        sample.cell("s", "full_snapshot", f"a_long_fault_name_{number}", (), skipped="no")
    lines = terminal.render(results.read(sample.folder), None, 80)
    assert sum(line.startswith("full_snapshot") for line in lines) == 3
    assert max(map(len, lines)) <= 80


def test_costs_are_a_second_table(campaign: Campaign) -> None:
    lines = terminal.render(campaign, None, 120)
    head = next(line for line in lines if line.startswith("medians"))
    assert re.split(r"  +", head) == [
        "medians", "RPO", "RTO", "RTO p95", "asked again (mean)", "stored a step", "written a step",
    ]  # fmt: skip
    row = next(line for line in lines if line.startswith("delta:every=5") and "tokens" in line)
    assert re.split(r"  +", row) == ["delta:every=5", "3", "0.84 s", "0.94 s", "922 tokens", "15.0 kB", "16.8 kB"]
    narrow = terminal.render(campaign, None, 60)
    assert any(re.fullmatch(r"medians +RPO +RTO +RTO p95 +asked again \(mean\)", line) for line in narrow)


def test_codes_stand_with_what_broke_and_how_to_read_more_once(campaign: Campaign) -> None:
    text = " ".join(" ".join(terminal.render(campaign, None, 200)).split())
    assert "it raised on resume [check.finishes, verdict.refused]" in text
    assert "the fault never landed [verdict.not-exercised]" in text
    assert "before this cell was judged, after 1 run [verdict.not-exercised]" in text
    assert text.count("pytest-chaos explain") == 1 and text.endswith(
        "`pytest-chaos explain check.corruption` says what it means and what to do"
    )


def test_what_the_gates_say_stands_below_the_report(campaign: Campaign) -> None:
    lines = terminal.render(campaign, "r.html", 100, ["over the threshold: rto_p95>5s"])
    assert lines[lines.index("report: r.html") + 1] == "over the threshold: rto_p95>5s"


def test_what_an_agent_wrote_cannot_move_the_cursor_or_leak(build: Callable[[], Any]) -> None:
    sample = build()
    why = "bad \x1b[2J\rfile, api_key=sk-123456789 was used"
    sample.simple("s", "a", "kill", (CellVerdict.DIVERGED,), {"broke": ("files",)}, passed=False, why=why)
    text = "\n".join(terminal.render(results.read(sample.folder), None, 100))
    assert "\x1b" not in text and "\r" not in text
    assert "sk-123456789" not in text and "api_key=•••" in text


def test_an_empty_campaign_has_a_summary(build: Callable[[], Any]) -> None:
    lines = terminal.render(results.read(build().folder), None, 100)
    assert lines[0] == "no cell was run"
    assert "0/0 planned faults landed" in lines
