"""Failures by cause, what differs in them, and evidence beside the page."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from chaos import causes, results
from chaos.events.seen import FileEntry
from chaos.history import FILE, append, entry
from chaos.reports import beside, differences, html, matrix
from chaos.reports.beside import LIMIT_BYTES, PAGE_BYTES, Beside
from chaos.reports.cells import LOSSES
from chaos.reports.differences import json_rows, tables, text_diff, texts
from chaos.reports.failures import News, before, failures
from chaos.results import Minimal
from chaos.verdict import CellVerdict, fail
from tests import journals as told

BAD = CellVerdict.DIVERGED
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text("ab", max_size=3),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=8,
)


def broke(name: str, finding: str, **more: object) -> dict[str, object]:
    return {"broke": (name,), "checks": {name: fail(finding)}, **more}


def found(sample: Any) -> tuple[Any, ...]:
    return failures(matrix.of(results.read(sample.folder)).judged)


# -- by cause


def test_cells_that_fail_for_one_reason_are_told_once(build: Callable[[], Any]) -> None:
    sample = build()
    for fault, step in (("kill", 3), ("evict", 9)):
        wrong = broke("effects", f"email.send happened 2 times instead of once (step {step})")
        sample.simple("s", "delta", fault, (BAD, CellVerdict.RECOVERED), wrong, passed=False)
    sample.simple("s", "cow", "kill", (BAD,), broke("effects", "email.send never happened"), passed=False)
    one, other = found(sample)
    assert (one.cause.strategy, one.runs, [at.cell.column.label for at in one.where]) == ("delta", 2, ["kill", "evict"])
    assert (other.cause.strategy, other.runs) == ("cow", 1)


def test_the_worst_comes_first_and_what_is_expected_last(build: Callable[[], Any]) -> None:
    sample = build()
    sample.simple("s", "a", "kill", (BAD,), broke("files", "x is missing", expected=("files",)), expected=True)
    sample.simple("s", "b", "kill", (CellVerdict.REFUSED,), broke("finishes", "refused to resume: x"), passed=False)
    sample.simple("s", "c", "kill", (BAD,), broke("effects", "a.b never happened"), passed=False)
    sample.simple("s", "d", "kill", (BAD,), broke("corruption", "silent damage: x; the prompt of turn 3"), passed=False)
    assert [each.cause.strategy for each in found(sample)] == ["d", "c", "b", "a"]
    assert [each.expected for each in found(sample)] == [False, False, False, True]


def test_the_words_of_a_cell_and_the_cause_follow_one_order() -> None:
    assert tuple(check for check, _, _ in LOSSES) == causes.ORDER


def test_news_are_of_the_strategies_that_met_the_same_faults(build: Callable[[], Any]) -> None:
    sample = build()
    for strategy in ("a", "b", "c"):
        sample.simple("s", strategy, "kill", (BAD,), broke("files", "x is missing"), passed=False)
    campaign = results.read(sample.folder)
    there = [causes.Cause(name, "files", place).sentence for name, place in (("b", "file x"), ("b", "file gone"))]
    earlier = msgspec.structs.replace(entry(campaign, broken=there), campaign="earlier", began="2026-11-29T06:50:00Z")
    known = tuple(each for each in earlier.strategies if each.strategy != "c")
    append(sample.folder / FILE, msgspec.structs.replace(earlier, strategies=known))
    since = before(campaign, [msgspec.structs.replace(earlier, strategies=known)])
    made = failures(matrix.of(campaign).judged, since)
    assert {each.cause.strategy: each.news for each in made} == {"a": News.NEW, "b": News.STILL, "c": News.UNKNOWN}
    text = html.render(campaign, sample.folder)
    assert "Since the campaign before: 1 new, 1 still there, 1 gone." in text
    assert 'name="regressions"' in text


def test_the_first_campaign_has_no_news(build: Callable[[], Any]) -> None:
    sample = build()
    sample.simple("s", "a", "kill", (BAD,), broke("files", "x is missing"), passed=False)
    campaign = results.read(sample.folder)
    assert before(campaign, [entry(campaign)]) is None  # its own line in the history is none before it
    assert 'name="regressions"' not in html.render(campaign, sample.folder)


# -- the smallest case


def bundled(sample: Any, check: str) -> Minimal:
    """Write a bundle as the harness does, of an agent whose e-mail is sent twice; return what names it."""
    folder = sample.folder / "failures/s/a-kill"
    folder.mkdir(parents=True)
    twice = told.Story().start().steps(0, 1).act(1).crash().start(1).steps(1).finish()
    for name, story in (("journal", twice), ("reference", told.reference())):
        lines = b"\n".join(map(msgspec.json.encode, story.events))
        (folder / f"{name}.jsonl").write_bytes(lines + b"\n")
    (folder / "test_s_a_kill.py").write_text("from chaos import reproduce\n# PASSWORD=hunter2\n", encoding="utf-8")
    return Minimal(
        verdict=BAD, check=check, finding="email.send happened 2 times instead of once (step 1)",
        was="kill@7/after_act#0", case="kill@1/after_act#0", runs=11, proven=True, replay="pytest --chaos smaller",
        bundle="failures/s/a-kill",
    )  # fmt: skip


def test_a_failure_that_was_shrunk_shows_the_smallest_run(build: Callable[[], Any]) -> None:
    sample = build()
    wrong = broke("effects", "email.send happened 2 times instead of once (step 7)")
    sample.simple("s", "a", "kill", (BAD,), wrong, passed=False, minimal=(bundled(sample, "effects"),))
    text = html.render(results.read(sample.folder), sample.folder)
    assert "the smallest case, kill@1/after_act#0" in text
    assert "pytest --chaos smaller" in text
    assert re.search(r"email send.*alice.*<td class=\"num\">1</td><td class=\"num\">2</td>.*✗ duplicate", text)
    assert "kill at somewhere: ended with status -9 (SIGKILL)" in text
    assert "from chaos import reproduce" in text
    assert "hunter2" not in text


def test_the_evidence_is_of_the_run_where_another_promise_was_made_smaller(build: Callable[[], Any]) -> None:
    sample = build()
    smaller = bundled(sample, "budget")
    sample.simple("s", "a", "kill", (BAD,), broke("files", "x is missing"), passed=False, minimal=(smaller,))
    text = html.render(results.read(sample.folder), sample.folder)
    assert "The same run, made smaller by another promise that it broke:" in text
    assert "the smallest case, kill@1/after_act#0" not in text


# -- what differs


def test_every_kind_of_difference_has_its_rows() -> None:
    files = (
        *(one for one in told.SEEN.files if one.path != told.REPORT.path),
        FileEntry(path=told.REPORT.path, kind="file", mode=0o600, size=9, digest="r1"),
        FileEntry(path="workspace/x", kind="file", mode=0o644, size=1, digest="x1"),
    )
    shell = msgspec.structs.replace(told.SHELL, cwd="$ROOT/workspace")
    story = told.Story().start().steps(0)
    story.finish(
        snapshot={**told.state(4), "step": 3},
        seen=told.seen(files=files, processes=(shell,), packages=("salesmath-2.0",)),
    )
    made = {
        table.title: [(row.what, row.note) for row in table.rows]
        for table in tables(story.record, told.reference().record)
    }
    assert made == {
        "State at the end": [("$.step", "")],
        "Files at the end": [(told.REPORT.path, "other mode"), ("workspace/x", "extra")],
        "Processes at the end": [("python server.py", "missing")],
        "Environment at the end": [
            ("working directory of /bin/bash -i", ""),
            ("package salesmath-1.0", "missing"),
            ("package salesmath-2.0", "extra"),
        ],
    }  # fmt: skip


def test_equal_runs_have_no_tables() -> None:
    assert tables(told.reference().record, told.reference().record) == ()


def test_what_is_volatile_is_no_difference() -> None:
    one, other = told.Story().start().steps(0), told.reference()
    one.finish(snapshot={**told.state(4), "step": 9})
    records = [type(one.record)(story.events, ("$.step",)) for story in (one, other)]
    assert [table for table in tables(*records) if table.title == "State at the end"] == []


def test_the_text_of_a_small_file_is_compared() -> None:
    entries = [(msgspec.structs.replace(told.REPORT, digest=text, text=text),) for text in ("a\nb\n", "a\nc\n")]
    one, other = (told.Story().start().steps(0).finish(seen=told.seen(files=files)).record for files in entries)
    (diff,) = texts(one, other)
    assert diff.path == told.REPORT.path
    assert diff.lines[2:] == ("@@ -1,2 +1,2 @@", " a", "-c", "+b")


@given(JSON)
def test_equal_json_has_no_rows(value: Any) -> None:
    assert list(json_rows(value, value)) == []


@given(JSON, JSON)
def test_other_json_has_rows_that_say_where(value: Any, wanted: Any) -> None:
    rows = list(json_rows(value, wanted))
    equal = json.dumps(value, sort_keys=True) == json.dumps(wanted, sort_keys=True)  # true is not 1
    assert (rows == []) == equal
    assert all(row.what.startswith("$") and row.wanted != row.got for row in rows)


def test_a_lost_item_does_not_make_those_behind_it_differ() -> None:
    wanted = [f"message {n}" for n in range(9)]
    (row,) = json_rows(wanted[:4] + wanted[5:], wanted)
    assert (row.what, row.wanted, row.got, row.note) == ("$[4]", '"message 4"', differences.NOTHING, "missing")


def test_lists_too_long_to_align_are_compared_item_by_item() -> None:
    wanted = list(range(differences.ALIGNED_ITEMS + 2))
    assert [row.what for row in json_rows([*wanted[:-1], 0], wanted)] == [f"$[{len(wanted) - 1}]"]


@given(st.text("ab\n"), st.text("ab\n"))
def test_a_text_diff_is_empty_for_equal_lines_only(one: str, other: str) -> None:
    assert bool(text_diff(one, other)) == (one.splitlines() != other.splitlines())


# -- beside the page


@given(st.lists(st.text("ab•", max_size=9), max_size=12), st.integers(0, 9), st.booleans())
def test_no_line_is_lost(lines: list[str], most: int, tail: bool) -> None:
    piece = Beside("data").piece("x", lines, most, tail=tail)
    assert piece.link == ""
    assert list(piece.rest + piece.first if tail else piece.first + piece.rest) == lines
    assert len(piece.first) <= most or not lines


def test_large_evidence_goes_beside_the_page_masked(tmp_path: Path) -> None:
    kept = Beside("report-data")
    line = "x" * 1000
    piece = kept.piece("a failure: log", [line, "API_KEY=s3cret-value"] * (LIMIT_BYTES // 1000), 10)
    (name,) = kept.files
    assert piece.link == f"report-data/{name}"
    assert "524 lines" in piece.note
    assert piece.rest == ()
    beside.write(tmp_path / "report-data", kept.files)
    text = (tmp_path / piece.link).read_text(encoding="utf-8")
    assert text.count(line) == LIMIT_BYTES // 1000
    assert "s3cret-value" not in text


def test_a_single_line_of_megabytes_is_large_evidence_too() -> None:
    kept = Beside("data")
    piece = kept.piece("x", ["y" * 2 * LIMIT_BYTES], 10)
    assert piece.link
    assert sum(map(len, piece.first)) < LIMIT_BYTES / 10


def test_a_page_holds_only_so_much_evidence() -> None:
    kept = Beside("data")
    lines = ["x" * 99] * (LIMIT_BYTES // 100 - 1)
    pieces = [kept.piece(str(n), lines, 1) for n in range(PAGE_BYTES // LIMIT_BYTES + 5)]
    on_page = [piece for piece in pieces if piece.rest]
    assert sum(len(piece.first + piece.rest) * 100 for piece in pieces) <= PAGE_BYTES
    assert len(on_page) + len(kept.files) >= len(pieces) - 1  # equal evidence is one file
    assert all(piece.link for piece in pieces[len(on_page) :])


def test_a_page_that_has_nothing_beside_it_removes_what_an_earlier_one_had(tmp_path: Path) -> None:
    folder = tmp_path / "report-data"
    beside.write(folder, {"evidence-a.txt": "x"})
    beside.write(folder, {"evidence-b.txt": "y"})
    assert [path.name for path in folder.iterdir()] == ["evidence-b.txt"]
    (folder / "mine.txt").write_text("not ours")
    beside.write(folder, {})
    assert [path.name for path in folder.iterdir()] == ["mine.txt"]
    (folder / "mine.txt").unlink()
    beside.write(folder, {})
    assert not folder.exists()


def test_the_page_links_what_is_beside_it_and_says_so(build: Callable[[], Any]) -> None:
    sample = build()
    run = sample.run("s", "a", "kill", 0, BAD, **broke("files", "x is missing"))
    sample.cell("s", "a", "kill", (run,), passed=False)
    flood = json.dumps("".join(f"line {n} of a flood token=s3cret{n}\n" for n in range(9000)))[1:-1]
    path = sample.folder / run.journal
    path.write_text(path.read_text().replace("Traceback (most", flood + "Traceback (most", 1))
    page = sample.folder / "there.html"
    html.write(results.read(sample.folder), sample.folder, page)
    (link,) = re.findall(r'<a href="(there-data/[^"]+)">', page.read_text())
    text = (page.parent / link).read_text()
    assert text.count("of a flood") == 9000
    assert "s3cret8" not in text
    assert "beside this page, for it is large" in page.read_text()
    assert "goes along with the page" in page.read_text()
    assert "s3cret8" not in page.read_text()
