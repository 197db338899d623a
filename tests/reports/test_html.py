"""The HTML report: complete, self-contained, harmless, and a pure function of the results folder."""

from __future__ import annotations

import re
import shutil
from collections import Counter
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from chaos import results
from chaos.reports import html, matrix, sections
from chaos.reports.failures import failures
from chaos.results import Campaign
from chaos.verdict import CellVerdict

VOID = {"meta", "rect", "path", "line", "br", "wbr", "col", "input", "circle"}
BYTES_PER_RUN = 4_000  # of a large campaign: hundreds of runs stay under a few MB


class Page(HTMLParser):
    """Collects what the tests ask for, and insists that elements are closed in order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: Counter[str] = Counter()
        self.ids: list[str] = []
        self.links: list[str] = []
        self.handlers: list[str] = []
        self.open_cells = self.open_failures = 0
        self._stack: list[str] = []
        self.feed(text)
        assert not self._stack

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        for name, value in attrs:
            if name == "id":
                self.ids.append(value or "")
            elif name in ("href", "src"):
                self.links.append(value or "")
            elif name.startswith("on"):
                self.handlers.append(name)
        self.open_cells += tag == "details" and {("open", None), ("class", "cell")} <= set(attrs)
        self.open_failures += tag == "details" and {("open", None), ("class", "evidence")} <= set(attrs)
        if tag not in VOID:
            self._stack.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self._stack.pop() == tag


@pytest.fixture(scope="module")
def text(campaign: Campaign, folder: Path) -> str:
    return html.render(campaign, folder)


@pytest.fixture(scope="module")
def page(text: str) -> Page:
    return Page(text)


def test_every_judged_cell_has_a_section_and_a_link_to_it(campaign: Campaign, page: Page) -> None:
    anchors = [cell.anchor for cell in matrix.of(campaign).judged]
    assert set(anchors) <= set(page.ids)
    assert {f"#{anchor}" for anchor in anchors} <= set(page.links)


def test_a_cell_of_the_matrix_leads_to_the_cause_of_its_failure(campaign: Campaign, text: str) -> None:
    found = failures(matrix.of(campaign).judged)
    for failure in found:
        assert f'<section class="failure" id="{failure.anchor}"' in text
    leads = re.findall(r'<td class="[^"]*" data-fault="[^"]*" data-state="[^"]*"><a href="#([^"]+)">', text)
    judged = [cell for cell in matrix.of(campaign).cells if not cell.skipped]
    told = {at.cell.anchor for failure in found for at in failure.where}
    assert sum(lead.startswith("failure-") for lead in leads) == len(told) == 7
    assert sum(lead.startswith("cell-") for lead in leads) == len(judged) - len(told)


def test_ids_are_unique_and_links_resolve(page: Page) -> None:
    assert len(page.ids) == len(set(page.ids))
    assert {link.removeprefix("#") for link in page.links} <= set(page.ids)


def test_bad_cells_without_a_cause_are_open_and_the_worst_causes(campaign: Campaign, page: Page) -> None:
    found = failures(matrix.of(campaign).judged)
    told = {at.cell.anchor for failure in found for at in failure.where}
    assert page.open_cells == sum(cell.anchor not in told for cell in matrix.of(campaign).bad) > 0
    assert page.open_failures == min(sum(not failure.expected for failure in found), sections.OPEN_FAILURES)


def test_nothing_is_loaded_from_elsewhere(text: str, page: Page) -> None:
    assert all(link.startswith("#") for link in page.links)
    assert not re.search(r"https?://|@import|url\(", text)
    assert page.tags["link"] == page.tags["img"] == page.tags["iframe"] == 0
    assert "default-src 'none'" in text


def test_hostile_text_stays_text(text: str, page: Page) -> None:
    assert "&lt;script&gt;alert(&#39;finding&#39;)&lt;/script&gt;" in text
    assert "&lt;img src=x onerror=alert(1)&gt;" in text
    assert page.tags["script"] == 1
    assert not page.handlers


def test_hostile_names_stay_text(build: Callable[[], Any]) -> None:
    sample = build()
    name = '"><script>alert(1)</script>'
    sample.cell(name, name, name, (), passed=False, why=name, replay=name)
    found = Page(html.render(results.read(sample.folder), sample.folder))
    assert found.tags["script"] == 1


@pytest.mark.parametrize("secret", ["sk-live-abcdef123456", "hunter2", "t0p-s3cret", "abc123"])
def test_secrets_are_masked(text: str, secret: str) -> None:
    assert secret not in text


def test_counts_of_tokens_are_not_secrets(text: str) -> None:
    assert "tokens: 1300" in text


@pytest.mark.parametrize(
    "proof",
    [
        "killed by the kernel: status -9 (SIGKILL), oom_kill 0 → 1, limit 41.0 MB",
        "evicted: status -15 (SIGTERM), entries lost 14, host agent-0 → agent-1",
        "refused: 429 × 3, retry after 0.50 s",
        "bytes 812 → 812, digest aaaaaaaaaaaa… → bbbbbbbbbbbb…",
        "killed: status -9 (SIGKILL), pid 4711",
    ],
)
def test_evidence_is_written_out(text: str, proof: str) -> None:
    assert proof in text


def test_the_story_of_a_run_is_told(text: str) -> None:
    assert "container disk lost: workspace and tmp, 14 entries gone" in text
    assert "oom_kill counter 0 → 1" in text.replace("&#39;", "'")
    assert "the model endpoint answered 429 × 3" in text
    assert "checkpoints.sqlite damaged (flip) in writes[17]" in text


def test_the_timeline_says_in_words_what_it_draws(text: str) -> None:
    described = (
        "reference: steps 0–23; before the crash: steps 0–7; after resume: steps 4–23; fault: evict at 7/after_act"
    )
    assert described in text
    assert "redone: steps 4–7" in text


def test_a_duplicate_effect_is_in_the_ledger(text: str) -> None:
    assert "✗ duplicate" in text
    assert ">×2</text>" in text


def test_checks_that_held_take_one_line(text: str) -> None:
    assert "<b>✓ held in every run:</b> state, effects</p>" in text


def test_claims_are_kept_or_refuted(text: str) -> None:
    assert "✓ kept in 18 of 18" in text
    assert "✗ refuted in 5 of 12" in text


def test_coverage_names_the_phases_that_were_never_hit(text: str) -> None:
    assert "of 120 points hit; never: before_act, during_commit and after_commit" in text


def test_the_same_folder_gives_the_same_bytes(campaign: Campaign, folder: Path, text: str) -> None:
    assert html.render(results.read(folder), folder) == text


def test_missing_and_damaged_journals_are_said_not_fatal(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder, tmp_path / "copy")
    journals = sorted((tmp_path / "copy/journals").glob("*.jsonl"))
    for number, journal in enumerate(journals):
        journal.write_text('{"event": "from the future"}\n') if number % 2 else journal.unlink()
    text = html.render(results.read(tmp_path / "copy"), tmp_path / "copy")
    assert "not readable (No such file or directory)" in text
    assert "not a journal that this version can read" in text
    assert "<span>duplicate effects</span>" not in text


def test_an_empty_campaign_has_a_report(build: Callable[[], Any]) -> None:
    sample = build()
    text = html.render(results.read(sample.folder), sample.folder)
    Page(text)
    assert "Nothing proved" in text


def test_hundreds_of_runs_stay_small_and_the_cut_is_said(build: Callable[[], Any]) -> None:
    sample = build()
    runs = 60
    for strategy in range(5):
        sample.simple("s", f"strategy-{strategy}", "kill", (CellVerdict.RECOVERED,) * runs, {})
    text = html.render(results.read(sample.folder), sample.folder)
    assert len(text) < 5 * runs * BYTES_PER_RUN
    assert f"{runs - sections.SHOWN_RUNS} more runs not shown" in text
