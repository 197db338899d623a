"""The trend over campaigns, from a history file as it is."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaos import history, results
from chaos.history import Entry, StrategyFigures
from chaos.reports import html, trend
from chaos.reports.trend import MEASURES
from tests.reports.made import campaign, run

SHARE, SECONDS, BYTES = MEASURES
values = st.lists(st.none() | st.floats(0, 1e9), max_size=30)


def entry(number: int, *figures: StrategyFigures, **changes: object) -> Entry:
    made = Entry(
        campaign=f"c{number}", began=f"2026-03-{number % 28 + 1:02d}T06:00:00Z", seed=number, cells=4, as_promised=3,
        commit=f"{number:040x}", strategies=figures,
    )  # fmt: skip
    return msgspec.structs.replace(made, **changes)


def figures(
    recovered: int = 10, rto: float | None = 0.5, stored: float | None = 900.0, **changes: object
) -> StrategyFigures:
    made = StrategyFigures(
        strategy="delta", shape="s1", runs=10, recovered=recovered, rto_p95=rto, bytes_per_step=stored
    )
    return msgspec.structs.replace(made, **changes)


def test_one_campaign_is_no_trend() -> None:
    assert trend.trend([]) is None
    assert trend.trend([entry(1, figures())]) is None


def test_a_strategy_has_a_picture_with_a_line_for_each_measure() -> None:
    found = trend.trend([entry(n, figures(10 - n)) for n in range(3)])
    assert found is not None
    assert found.sentence == (
        "3 campaigns from 00000000 of 2026-03-01 06:00 to 00000000 of 2026-03-03 06:00; as promised: 3 of 4 cells "
        "then, 3 of 4 now"
    )
    (small,) = found.smalls
    assert [mark.css for mark in small.picture.marks].count("curve g0") == len(MEASURES)
    assert small.picture.described.startswith("runs that recovered: 100 % at first, 80 % at last; recovery time")
    assert small.worse == "runs that recovered 90 % → 80 %"
    assert [row[3] for row in small.table.rows] == ["8/10", "9/10", "10/10"]  # the latest first


def test_what_got_worse_is_named_by_its_commit() -> None:
    commits = ["aaaaaaaa1", "bbbbbbbb2", "cccccccc3", "dddddddd4"]
    lost = [10, 10, 6, 6]
    found = trend.trend([entry(n, figures(lost[n]), commit=commits[n]) for n in range(4)])
    assert found is not None
    told = [text.words for text in found.smalls[0].picture.texts if text.css == "worse"]
    assert told == ["▼ cccccccc"]
    assert sum(mark.css == "worse" for mark in found.smalls[0].picture.marks) == 1
    assert found.smalls[0].worse == ""  # not in the last one


@pytest.mark.parametrize(
    ("measure", "before", "after", "worse"),
    [
        (SHARE, 1.0, 0.99, True),
        (SHARE, 0.5, 0.9, False),
        (SECONDS, 1.0, 1.4, False),
        (SECONDS, 1.0, 1.6, True),
        (SECONDS, 1.6, 1.0, False),
        (BYTES, 1000, 1100, False),
        (BYTES, 1000, 1300, True),
    ],
)
def test_worse_is_more_than_the_noise_of_a_machine(
    measure: trend.Measure, before: float, after: float, worse: bool
) -> None:
    assert bool(trend.worsened([before, after], measure)) is worse
    assert bool(trend.worsened([before, None, after], measure)) is worse


@given(values)
def test_what_only_gets_better_is_never_worse(found: list[float | None]) -> None:
    known = iter(sorted(value for value in found if value is not None))
    rising = [None if value is None else next(known) for value in found]
    assert trend.worsened(rising, SHARE) == ()
    assert trend.worsened(rising[::-1], SECONDS) == trend.worsened(rising[::-1], BYTES) == ()


def test_campaigns_of_other_faults_are_not_compared() -> None:
    other = entry(1, figures(2, shape="s2"))
    found = trend.trend([entry(0, figures(10)), other, entry(2, figures(10))])
    assert found is not None and found.smalls[0].worse == ""
    assert len(found.smalls[0].table.rows) == 2
    assert trend.trend([other, entry(2, figures(10))]).smalls == ()  # type: ignore[union-attr]


@given(
    st.lists(st.tuples(st.integers(0, 10), st.none() | st.floats(0, 1e4), st.none() | st.floats(0, 1e9)), min_size=2)
)
def test_everything_is_drawn_inside(given_: list[tuple[int, float | None, float | None]]) -> None:
    found = trend.trend([entry(n, figures(*each)) for n, each in enumerate(given_)])
    assert found is not None
    for small in found.smalls:
        for mark in small.picture.marks:
            for x, y in re.findall(r"[ML]([-\d.]+) ([-\d.]+)", mark.d):
                assert 0 <= float(x) <= small.picture.width and 0 <= float(y) <= small.picture.height
        assert all(0 <= text.x <= small.picture.width for text in small.picture.texts)
        assert "nan" not in str(small.picture)


def test_hundreds_of_campaigns_stay_small_and_the_cut_is_said() -> None:
    found = trend.trend([entry(n, figures(n % 11, rto=0.1 * (n % 7))) for n in range(300)])
    assert found is not None and found.sentence.startswith("200 campaigns from ")
    (small,) = found.smalls
    assert sum(len(mark.d) for mark in small.picture.marks) < 30_000
    assert (
        len(small.table.rows) == trend.LISTED and small.table.note == "188 earlier campaigns are in the history file."
    )
    assert len([text for text in small.picture.texts if text.css == "worse"]) <= trend.TOLD * len(MEASURES)


def test_the_page_shows_the_history_in_its_folder(folder: Path, campaign: results.Campaign, tmp_path: Path) -> None:
    assert 'id="trend"' not in html.render(campaign, tmp_path)
    before = history.entry(campaign, commit="feedface")
    history.append(tmp_path / history.FILE, msgspec.structs.replace(before, campaign="x", began="2026-01-01T00:00:00Z"))
    page = html.render(campaign, tmp_path)
    assert 'id="trend"' in page and "2 campaigns from feedface of 2026-01-01 00:00 to 2026-11-30 06:50" in page
    assert page.count("runs that recovered: ") == len(before.strategies)


def test_a_campaign_that_is_in_its_history_is_there_once(tmp_path: Path) -> None:
    made = campaign([run("a")])
    own = history.entry(made, commit="c0ffee")
    later = msgspec.structs.replace(own, campaign="later", began="2027-01-01T00:00:00Z")
    earlier = msgspec.structs.replace(own, campaign="earlier", began="2026-01-01T00:00:00Z")
    assert trend.until(made, (earlier, own, later)) == (earlier, own)
    assert [each.campaign for each in trend.until(made, (earlier,))] == ["earlier", made.info.campaign]


def test_a_history_elsewhere_is_the_one_that_the_campaign_names(
    folder: Path, campaign: results.Campaign, tmp_path: Path
) -> None:
    earlier = msgspec.structs.replace(history.entry(campaign), campaign="x", began="2026-01-01T00:00:00Z")
    history.append(tmp_path / "kept/trend.jsonl", earlier)
    info = msgspec.structs.replace(campaign.info, history=str(tmp_path / "kept/trend.jsonl"))
    assert 'id="trend"' in html.render(msgspec.structs.replace(campaign, info=info), folder)
    gone = msgspec.structs.replace(campaign.info, history=str(tmp_path / "gone.jsonl"))
    assert 'id="trend"' not in html.render(msgspec.structs.replace(campaign, info=gone), folder)
