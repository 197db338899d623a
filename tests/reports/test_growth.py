"""How a storage tax is shown: panels on one scale, a table beside what others say, lines of text."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaos import growth as growths
from chaos import results, tax
from chaos.reports import growth, growth_text, html
from chaos.tax import Cited, Growth, Modelled, Tax, TaxRow
from tests.reports.conftest import Sample

NS = (50, 100, 200, 400)
S = 50_000


def row(strategy: str, n: int, stored: int, written: int) -> TaxRow:
    return TaxRow(
        strategy=strategy, n=n, stored_bytes=stored, written_bytes=written, step_ms=5.25 if n > 50 else None,
        resume_ms=80.0 if n > 50 else None,
    )  # fmt: skip


def sample_tax(**changes: object) -> Tax:
    rows = [row("restart", n, 0, S * n // 4) for n in NS]
    rows += [row("chat_history", n, S * n, 2 * S * n) for n in NS]
    rows += [row("delta:every=20", n, S * n + S * n * n // 40, 3 * S * n) for n in NS]
    rows += [row("delta:every=1000,database=postgres", n, S * n, 2 * S * n) for n in NS]
    strategies = list(dict.fromkeys(row.strategy for row in rows))

    def fitted(strategy: str, field: str) -> growths.Fit | None:
        return growths.fit([(row.n, getattr(row, field)) for row in rows if row.strategy == strategy])

    fields: dict[str, object] = {
        "bytes_per_step": S, "seed": 7, "began": "2026-11-30T06:50:00+00:00", "seconds": 9.0,
        "versions": {"Python": "3.11"}, "machine": {}, "rows": tuple(rows),
        "exponents": tuple(
            Growth(strategy=name, stored=fitted(name, "stored_bytes"), written=fitted(name, "written_bytes"))
            for name in strategies
        ),
        "model": (
            Modelled(strategy="chat_history", n=200, formula="s·N", stored_bytes=S * 200, written_bytes=S * 250),
        ),
        "published": (
            Cited(strategy="chat_history", about="chat_history", n=200, stored_bytes=10_000_000, kind="article",
                  source="A", comparable=True, remark=""),
            Cited(strategy="delta:every=20", about="delta:every=20", n=200, stored_bytes=129_000_000,
                  kind="vendor blog", source="B", comparable=False, remark="another agent"),
        ),
        "skipped": {"cow:snapshots=zfs": "no zfs"}, "problems": (),
    }  # fmt: skip
    return Tax(**{**fields, **changes})  # type: ignore[arg-type]


def places(path: str) -> list[tuple[float, float]]:
    return [(float(x), float(y)) for x, y in re.findall(r"[ML]([\d.]+) ([\d.]+)", path)]


def test_there_is_a_panel_for_each_strategy_with_its_variants() -> None:
    found = growth.panels(sample_tax().rows)
    assert [(panel.name, [curve.label.words for curve in panel.curves]) for panel in found] == [
        ("restart", ["default"]),
        ("chat_history", ["default"]),
        ("delta", ["K = 20", "K = 1000, postgres"]),
    ]


def test_linear_growth_has_slope_one_on_axes_that_all_panels_share() -> None:
    found = growth.panels(sample_tax().rows)
    assert len({(panel.grid, panel.ticks, panel.others) for panel in found}) == 1
    xs, ys = zip(*places(found[1].curves[0].stored), strict=True)
    rises = [(a - b) / (y - x) for x, y, a, b in zip(xs, xs[1:], ys, ys[1:], strict=False)]
    assert max(rises) - min(rises) < 0.05 * max(rises)
    quadratic = places(found[2].curves[0].stored)
    assert quadratic[0][1] - quadratic[-1][1] > ys[0] - ys[-1]


def test_what_stores_nothing_has_no_line_of_that() -> None:
    curve = growth.panels(sample_tax().rows)[0].curves[0]
    assert curve.stored == "" and len(places(curve.written)) == len(NS)


@given(
    st.dictionaries(st.sampled_from(["a", "a:x=1", "a:x=2", "b", "c:y=longest-of-all-options", "d"]),
                    st.lists(st.integers(0, 10**11), min_size=3, max_size=3), min_size=1)
)  # fmt: skip
def test_everything_stays_within_its_panel_and_labels_apart(sizes: dict[str, list[int]]) -> None:
    rows = [row(name, n, size, 2 * size) for name, given in sizes.items() for n, size in zip(NS, given, strict=False)]
    for panel in growth.panels(rows):
        for curve in panel.curves:
            for x, y in (*places(curve.stored), *places(curve.written)):
                assert 0 <= x <= growth.WIDTH and 0 <= y <= growth.HEIGHT
        heights = sorted(curve.label.y for curve in panel.curves)
        assert all(below - above > 10 for above, below in pairwise(heights))
        assert all(0 < height <= growth.HEIGHT for height in heights)


def test_one_row_is_no_picture() -> None:
    assert growth.panels([row("cow", 50, 1, 1)]) == growth.panels([]) == ()


def test_the_table_tells_measurement_model_and_publication_apart() -> None:
    found = {(line.row.strategy, line.row.n): line for line in growth.table(sample_tax())}
    line = found["chat_history", 200]
    assert line.model is not None and line.model.stored_bytes == S * 200
    assert line.cited is not None and line.cited.kind == "article"
    other = found["delta:every=20", 200]
    assert other.model is None and other.cited is None  # what was published for other work stands in no row
    assert found["chat_history", 50].first and not line.first


def test_the_sentence_is_about_the_largest_n_and_those_who_came_so_far() -> None:
    whole = sample_tax()
    short = sample_tax(rows=tuple(row for row in whole.rows if row.strategy != "chat_history" or row.n <= 200))
    assert growth.sentence(whole) == "After 400 steps chat_history stores 20.0 MB, delta:every=20 220.0 MB."
    assert growth.sentence(short).startswith("After 400 steps delta:every=1000,database=postgres stores 20.0 MB,")
    assert growth.sentence(sample_tax(rows=())) == "Nothing was stored."


def test_the_text_has_all_of_it() -> None:
    text = "\n".join(growth_text.lines(sample_tax(problems=("cow: lost",))))
    assert re.search(r"^N = 200, s = 50.0 kB +stored +model +published +written +model +step +resume$", text, re.M)
    assert re.search(
        r"^chat_history +10.0 MB +10.0 MB +10.0 MB \(article\) +20.0 MB +12.5 MB +5.2 ms +80 ms$", text, re.M
    )
    assert re.search(r"^delta:every=20 +1.\d\d +1.\d\d +0.9\d\d +1.00 +1.00 +1.000$", text, re.M)
    assert "published: delta:every=20, vendor blog (B): 129 MB at N = 200, another agent" in text
    assert "skipped: cow:snapshots=zfs: no zfs" in text
    assert "NOT A RESULT: cow: lost" in text


def test_nothing_measured_is_said_too() -> None:
    assert growth_text.lines(sample_tax(rows=(), exponents=(), published=()))[-1] == "Nothing was stored."


def test_who_comes_less_far_stands_where_he_ends() -> None:
    rows = (*sample_tax().rows, row("events", 50, 1_000_000, 9), row("events", 100, 2_000_000, 9))
    text = growth_text.lines(sample_tax(rows=rows))
    at = text.index(next(line for line in text if line.startswith("N = 100, ")))
    assert text[at + 1].startswith("events ") and text[at + 2] == ""
    assert not any(line.startswith("N = 50, ") for line in text)


def test_the_page_of_a_storage_tax_alone_is_about_it(build: Callable[[], Sample]) -> None:
    folder = build().folder
    tax.write(folder, sample_tax())
    page = html.render(results.read(folder), folder)
    assert "<h1>The storage tax: After 400 steps" in page
    assert page.count('<figure class="growth">') == 3
    assert "no zfs" in page
    assert 'id="matrix"' not in page and "No cell was run" not in page
    assert html.render(results.read(folder), folder) == page


def test_beside_a_campaign_it_is_a_section(folder: Path, campaign: results.Campaign, tmp_path: Path) -> None:
    assert 'id="growth"' not in html.render(campaign, folder)
    tax.write(tmp_path, sample_tax())
    page = html.render(campaign, tmp_path)
    assert 'id="growth"' in page and 'id="matrix"' in page


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    assert tax.read(tmp_path) is None
    tax.write(tmp_path, sample_tax())
    assert tax.read(tmp_path) == sample_tax()


@pytest.mark.parametrize(
    ("bytes_", "words"), [(None, "–"), (0, "0 B"), (81_700, "81.7 kB"), (4_051_600_000, "4 051.6 MB")]
)
def test_megabytes_can_be_compared(bytes_: int | None, words: str) -> None:
    from chaos.reports.text import megabytes

    assert megabytes(bytes_).replace("\u202f", " ") == words
