"""A campaign in Markdown and a failure in plain text: complete, in order, whatever an agent wrote."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from chaos import results
from chaos.reports import markdown, terminal
from chaos.reports import matrix as matrices
from chaos.reports.cells import State
from chaos.reports.failure_text import failure
from chaos.results import Campaign, Minimal
from chaos.verdict import CellVerdict
from tests.reports.conftest import HOSTILE, broken


def test_the_most_important_comes_first(campaign: Campaign) -> None:
    head, *rest = markdown.sections(campaign, ["over the threshold: rto_p95>5s"], "report.html")
    assert head.startswith("## pytest-chaos: ✗ 5 broken promises\n")
    for told in ("47 of 50 planned faults landed", "seed `8412`", "**1 of 21 cells were not judged**", "`report.html`"):
        assert told in head
    assert "- over the threshold: rto\\_p95&gt;5s" in head and "pytest --chaos damage.chaos.yaml" in head
    kinds = ["table" if each.startswith("| |") else "failure" if "Replay:" in each else "skips" for each in rest]
    assert kinds == sorted(kinds, key=["table", "failure", "skips"].index) and kinds.count("failure") == 10


def test_what_an_agent_wrote_is_text(campaign: Campaign) -> None:
    text = "\n".join(markdown.sections(campaign))
    outside = "".join(text.split("```")[::2])
    assert HOSTILE in text and "<script>" not in outside and "&lt;script&gt;" in outside
    assert "hunter2" not in text


@given(st.text(alphabet="`|*_<>&\\ab\n", max_size=30))
def test_a_block_of_code_ends_where_it_should(text: str) -> None:
    first, *_, last = markdown.fenced(text).split("\n")
    assert first == f"{last}text" and last not in text and set(last) == {"`"}
    assert "\n" not in markdown.escaped(text) and "|" not in markdown.escaped(text).replace("\\|", "")


def test_known_failures_are_called_so_everywhere(build: Callable[[], Any]) -> None:
    sample = build()
    known = {"known": {"files": ("file a",)}, "passed": False, "why": "known: files broke in 1 of 1 runs"}
    sample.simple("s", "cow", "kill", (CellVerdict.DIVERGED,), broken("files"), **known)
    campaign = results.read(sample.folder)
    matrix = matrices.of(campaign)
    [cell] = matrix.cells
    assert (cell.state, cell.word, cell.good, matrix.bad) == (State.KNOWN, "known: lost files", True, ())
    assert matrix.headline.word == "No new failure" and "1 known failure was accepted" in matrix.headline.rest
    assert {figure.label: figure.value for figure in matrices.figures(matrix, campaign)}["known failure"] == "1"
    lines = terminal.render(campaign, None, 80)
    assert "cow  known 0/1" in lines and "1 known failure accepted" in lines
    assert "≡ known: lost files 0/1" in "".join(markdown.sections(campaign))


def test_a_failure_is_told_in_the_order_in_which_it_is_asked_about(build: Callable[[], Any]) -> None:
    sample = build()
    run = sample.run("s", "cow", "kill", 0, CellVerdict.DIVERGED, **broken("files", "effects"))
    minimal = Minimal(
        verdict=CellVerdict.DIVERGED, check="files", finding="gone", was="kill@7/after_act", case="kill@1/after_act",
        runs=9, proven=True, replay="pytest --chaos small", bundle="minimal/1",
    )  # fmt: skip
    findings = {name: run.checks[name].finding for name in run.broke}
    sample.cell("s", "cow", "kill", (run,), passed=False, why="2 broke", findings=findings, minimal=(minimal,))
    campaign = results.read(sample.folder)
    text = "\n".join(failure(campaign.cells[0], campaign.runs, "report.html"))
    told = [
        "cow x kill: diverged", "2 broke", "files: files differs at step 9", "[check.files]", "[check.effects]",
        "smallest: kill@1/after_act breaks files", "replay: pytest --chaos small",
        "promises, in run 0 (kill@7/after_act)",
        "files    BROKEN: ", "kept: state", "what differs from the run without a crash:",
        "files: - workspace/report.md: 9f2c… (reference only)", "replay: pytest --chaos s.chaos.yaml",
        "report: report.html", "`pytest-chaos explain check.files` says",
    ]  # fmt: skip
    places = [text.index(each) for each in told]
    assert places == sorted(places), text
