"""What recovery costs: the numbers, the scorecard, the charts, and how the page shows them."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaos import growth as growths
from chaos import results
from chaos.history import percentile
from chaos.journal import Journal
from chaos.plugins import command_line
from chaos.reports import charts, costs, curves, html, numbers, picture
from chaos.reports.advice import advice
from chaos.reports.crash_free import CrashFree, crash_free
from chaos.reports.evidence import Journals
from chaos.reports.scorecard import Parts, Row, score, scorecard
from chaos.results import DERIVED, Campaign, RecoveryTime, Tokens
from chaos.verdict import CellVerdict
from tests.reports.made import campaign, run
from tests.reports.test_growth import sample_tax

SHARES = st.floats(0, 1)


# Numbers and score


def test_a_run_that_never_came_back_has_no_recovery_time() -> None:
    found = numbers.costs(campaign([run("a", seconds=0.3), run("a", broke=("finishes",), seconds=0.01)]))[0]
    assert (found.rto, found.away) == ((0.3,), 1)
    assert "1 never" in curves.recovery([found])[0].described


def test_runs_whose_faults_missed_cost_nothing() -> None:
    assert numbers.costs(campaign([run("a", landed=()), run("b", verdict=CellVerdict.HARNESS_ERROR)])) == ()


@given(st.builds(Parts, SHARES, *(st.none() | SHARES for _ in range(4))))
def test_a_score_is_between_0_and_100_and_grows_with_what_is_kept(parts: Parts) -> None:
    assert 0 <= score(parts) <= 100
    whole = Parts(1.0, parts.steps, parts.time, parts.tokens, parts.bytes)
    assert score(parts) <= score(whole) and score(whole) >= 80
    assert score(Parts(0.0, 1.0, 1.0, 1.0, 1.0)) == 0


def rows(found: Campaign) -> dict[str, Row]:
    made = scorecard(numbers.costs(found), numbers.by_strategy(found), advice(found), {"a": (3, 1)}, {"a": 4.5})
    return {row.costs.strategy: row for row in made}


def test_the_parts_of_a_score_are_what_the_formula_says() -> None:
    tokens = Tokens(90_000, 5_000, 5_000)
    found = rows(
        campaign(
            [run("a", rpo_steps=1, tokens=tokens, stored=400_000, seconds=0.4), run("b", stored=4_000, seconds=0.1)]
        )
    )
    assert found["a"].parts == Parts(kept=1.0, steps=0.5, time=0.25, tokens=0.9, bytes=0.1)
    assert found["b"].parts == Parts(kept=1.0, steps=1.0, time=1.0, tokens=1.0, bytes=1.0)
    assert found["b"].score == 100 and found["a"].score == pytest.approx(
        100 * (0.8 + 0.2 * (0.5 + 0.25 + 0.9 + 0.1) / 4)
    )
    assert (found["a"].duplicates, found["b"].duplicates) == ((3, 1), None)


def test_a_check_that_could_not_judge_has_not_kept_its_promise() -> None:
    found = rows(campaign([run("a", open=("state",)), run("a"), run("b", broke=("files", "state"))]))
    assert (found["a"].passed, found["a"].judged, found["a"].percent) == (7, 8, "87.5")
    assert found["b"].percent == "50"


def test_a_hundred_percent_means_all_of_them() -> None:
    many = [run("a")] * 1000 + [run("a", broke=("state",))]
    assert rows(campaign(many))["a"].percent == "99.9"


# Pictures


@given(st.lists(st.integers(0, 50), min_size=1), st.integers(0, 9))
def test_a_cumulative_curve_rises_and_ends_at_the_share_that_came_back(values: list[int], away: int) -> None:
    found = picture.ecdf([float(value) for value in values], len(values) + away)
    assert all(a < b and low < high for (a, low), (b, high) in pairwise(found))
    assert found[-1] == (max(values), len(values) / (len(values) + away))
    assert picture.ecdf([float(value) for value in values])[-1][1] == 1
    for value, share in found:
        assert share == pytest.approx(sum(each <= value for each in values) / (len(values) + away))


@given(st.lists(st.floats(0, 1e6), min_size=1), SHARES)
def test_percentiles_lie_between_the_values(values: list[float], share: float) -> None:
    found = percentile(values, share)
    assert found is not None and min(values) - 1e-6 <= found <= max(values) + 1e-6
    assert percentile(values, 0) == min(values) and percentile(values, 1) == pytest.approx(max(values))


@given(st.floats(1e-3, 1e5), st.floats(1, 1e4))
def test_ticks_enclose_all_values(low: float, factor: float) -> None:
    ticks = picture.one_two_five(low, low * factor)
    assert ticks[0] <= low and ticks[-1] >= low * factor and len(ticks) > 1
    assert all(b / a == pytest.approx(2) or b / a == pytest.approx(2.5) for a, b in pairwise(ticks))
    across = picture.logarithmic(ticks[0], ticks[-1], 10, 90)
    assert 10 <= across(low) <= across(low * factor) <= 90


@given(st.floats(0.1, 3), st.floats(1, 1e6), st.lists(st.integers(1, 5_000), min_size=3, unique=True))
def test_the_exponent_of_an_exact_power_is_found(exponent: float, factor: float, ns: list[int]) -> None:
    fit = growths.fit([(n, factor * n**exponent) for n in ns])
    assert (
        fit is not None and fit.exponent == pytest.approx(exponent, abs=1e-6) and fit.r2 == pytest.approx(1, abs=1e-6)
    )


@pytest.mark.parametrize(
    ("exponent", "words"),
    [(0.02, "hardly, with N^0.02"), (1.1, "linearly, with N^1.10"), (1.95, "with the square, with N^1.95"),
     (1.5, "with N^1.50"), (3.0, "with N^3.00")],
)  # fmt: skip
def test_growth_is_named_where_it_is_near_a_whole_power(exponent: float, words: str) -> None:
    assert costs.grows(growths.Fit(exponent=exponent, r2=1.0, last=exponent)) == words


names = st.sampled_from(["a", "b:x=1", "b:x=2", "events:runtime=dbos,database=postgres", "c", "d", "e", "f", "g"])


@given(st.lists(st.tuples(names, st.floats(0, 1e4), st.integers(0, 2000), st.integers(0, 10**6)), min_size=1))
def test_everything_is_drawn_within_its_picture(given_: list[tuple[str, float, int, int]]) -> None:
    found = numbers.costs(
        campaign([run(name, seconds=time, rpo_steps=lost, again=again) for name, time, lost, again in given_])
    )
    for chart in charts.charts(found, {}, 3.0):
        assert {row[0] for row in chart.table.rows} == {each.strategy for each in found}
        assert all(len(row) == len(chart.table.head) for row in chart.table.rows)
        for drawn in chart.pictures:
            for mark in drawn.marks:
                for x, y in re.findall(r"M([-\d.]+) ([-\d.]+)", mark.d):
                    assert -1 <= float(x) <= drawn.width + 1 and -1 <= float(y) <= drawn.height + 1
            assert all(0 <= text.x <= drawn.width and 0 <= text.y <= drawn.height for text in drawn.texts)


def test_no_two_lines_of_a_picture_look_alike() -> None:
    found = numbers.costs(campaign([run(f"s{n}", seconds=0.1 * n + 0.1) for n in range(14)]))
    for drawn in curves.recovery(found):
        looks = [mark.css for mark in drawn.marks if mark.css.startswith("curve")]
        assert len(looks) == len(set(looks)) <= curves.LINES
    assert len({picture.symbol(kind, 0, 0) for kind in range(picture.SYMBOLS)}) == picture.SYMBOLS == curves.LINES


def test_thousands_of_runs_make_a_small_curve() -> None:
    found = numbers.costs(campaign([run("a", seconds=0.01 + n / 1000) for n in range(2000)]))
    assert sum(len(mark.d) for mark in curves.recovery(found)[0].marks) < 8_000


@pytest.mark.parametrize(
    ("label", "short"),
    [
        ("delta", "delta"),
        ("delta:every=20", "delta:every=20"),
        ("events:runtime=temporal", "events:temporal"),
        ("chat_history:database=redis,write=rewrite", "chat_…:redis,rewrite"),
        ("a_strategy_of_somebody_else", "a_strategy_of_someb…"),
    ],
)
def test_a_long_label_keeps_what_tells_variants_apart(label: str, short: str) -> None:
    assert curves.shortened(label, 20) == short


@pytest.mark.parametrize(
    ("tokens", "price", "words"),
    [(1_000_000, 3.0, "$3.00"), (12_000_000, 100.0, "$1,200.00"), (410, 3.0, "$0.0012"), (1, 3.0, "under $0.0001"),
     (0, 3.0, "$0.00")],
)  # fmt: skip
def test_money(tokens: float, price: float, words: str) -> None:
    assert charts.money(tokens, price) == words


def test_money_is_told_only_at_a_price() -> None:
    found = numbers.costs(campaign([run("a", again=1_000_000)]))
    free, priced = (charts.charts(found, {}, price)[2] for price in (0.0, 3.0))
    assert "$" not in str(free.table) and "--price" in free.notes[0]
    assert priced.table.rows[0][-1] == "$3.00" and priced.table.head[-1] == "wasted in all runs"


# From journals


def points(path: Path, spent: float, steps: int = 4) -> None:
    """Write a crash-free run whose commits take so many seconds of the journal's clock."""
    from chaos.events.seen import Reached

    now = [0.0]
    journal = Journal(path, clock=lambda: now[0])
    for step in range(steps):
        for phase in ("before_think", "after_act"):
            journal.add(Reached, step=step, phase=phase, key="")
        if step % 2 == 0:
            now[0] += spent
            journal.add(Reached, step=step, phase="after_commit", key="")
    journal.close()


def test_commits_are_timed_in_runs_without_a_crash_that_nobody_captured(tmp_path: Path) -> None:
    points(tmp_path / "plain.jsonl", 0.010)
    points(tmp_path / "slow.jsonl", 0.030, steps=6)
    points(tmp_path / "captured.jsonl", 0.001)
    found = crash_free(
        [run("a", reference="plain.jsonl"), run("a", reference="slow.jsonl"),
         run("a", reference="captured.jsonl", how=DERIVED), run("b", reference="captured.jsonl", how=DERIVED),
         run("c", reference="gone.jsonl")],
        Journals(tmp_path),
    )  # fmt: skip
    assert found["a"].committing == pytest.approx(5.0)  # two commits in four steps
    assert (5, "after_act") in found["a"].points and len(found["a"].points) == 15
    assert found["b"].committing is None and found["b"].points
    assert found["c"] == CrashFree()


# On the page


def test_the_page_says_whom_to_take_and_how_a_score_is_made(folder: Path, campaign: Campaign) -> None:
    page = html.render(campaign, folder)
    found = advice(campaign)
    assert found.sentence.replace("'", "&#39;") in page
    assert "score = 100 × kept × (0.8 + 0.2 × thrift)" in page and "Cheapest means: fewest tokens" in page
    assert "pytest-chaos storage-tax" in page


def test_every_picture_has_a_title_a_description_and_its_numbers(folder: Path, campaign: Campaign) -> None:
    page = html.render(campaign, folder)
    for names_ in re.findall(r'aria-labelledby="(\S+-title) (\S+-desc)"', page):
        assert all(page.count(f'id="{name}"') == 1 for name in names_)
    section = page[page.index('id="numbers"') : page.index('id="claims"')]
    assert section.count('<figure class="chart">') == section.count("<summary>In numbers</summary>") == 4


def test_at_a_price_the_page_tells_money(folder: Path, campaign: Campaign) -> None:
    assert "In money at 3 USD per million tokens." in html.render(results.priced(campaign, 3.0), folder)
    assert "$" not in html.render(campaign, folder).split('id="numbers"')[1].split('id="claims"')[0]


def test_a_storage_tax_beside_the_campaign_is_linked(folder: Path, campaign: Campaign, tmp_path: Path) -> None:
    from chaos import tax

    tax.write(tmp_path, sample_tax())
    page = html.render(campaign, tmp_path)
    assert '<a href="#growth">the storage tax</a>' in page


def test_growth_is_fitted_to_the_crashes_of_a_campaign(tmp_path: Path) -> None:
    from chaos.events.done import Injecting
    from chaos.events.seen import Exited, Reached, Started

    made = []
    for number, n in enumerate((4, 8, 16, 32)):
        journal = Journal(tmp_path / f"{n}.jsonl", clock=lambda: 0.0)
        journal.attempt = 1
        journal.add(Started, pid=1, hostname="h", thread_id="t")
        for step in range(n):
            journal.add(Reached, step=step, phase="after_commit", key="")
        journal.add(Injecting, index=0, fault="kill", point=f"{n - 1}/after_commit")
        journal.add(Exited, status=-9, stored_bytes=100 * n * n + 7, log_bytes=7, written_bytes=n)
        journal.close()
        made.append(run("a", at=f"{n - 1}/after_commit", journal=f"{n}.jsonl", run=number))
    found = costs.stored_at_crashes(made, Journals(tmp_path))
    assert [(row.n, row.stored_bytes) for row in found] == [(n, 100 * n * n) for n in (4, 8, 16, 32)]
    shown = costs.view(campaign(made), Journals(tmp_path), {}, None)
    assert shown is not None and shown.growth and shown.exponents.rows[0][3] == "with the square, with N^2.00"
    few = costs.view(campaign(made[:2]), Journals(tmp_path), {}, None)
    assert few is not None and not few.exponents.rows and not few.growth and "cannot be told" in few.grown


def test_hostile_names_and_secrets_stay_harmless(build: Callable[[], Any]) -> None:
    sample = build()
    name = '"><script>x(1)</script> api_key=hunter2hunter2'
    sample.simple("s", "a", "kill", (CellVerdict.RECOVERED,) * 3, {})
    results.append(sample.folder, run(name, reference="journals/reference.jsonl"))
    page = html.render(results.read(sample.folder), sample.folder)
    assert page.count("<script>") == 1
    for start, end in (('id="numbers"', 'id="claims"'), ('id="coverage"', "<footer>")):
        section = page[page.index(start) : page.index(end)]
        assert "&lt;script&gt;" in section and "hunter2hunter2" not in section


def test_rto_parts_are_those_of_the_median_run() -> None:
    times = [RecoveryTime(0.1, 0.2, 0.3, replay) for replay in (0.1, 0.5, 2.0)]
    found = numbers.costs(campaign([run("a", rto_seconds=time) for time in times]))[0]
    assert found.split == times[1] and found.rto[1] == pytest.approx(1.1)


@pytest.mark.parametrize("text", ["-1", "free", "nan", "inf", "1000001"])
def test_a_price_that_is_none_is_refused(folder: Path, text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert command_line.main(["report", str(folder), f"--price={text}"]) == command_line.WRONG_INPUT
    assert f"takes the USD for a million tokens, from 0 to 1,000,000, not '{text}'" in capsys.readouterr().err


def test_the_command_renders_at_a_price(folder: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    assert command_line.main(["report", str(folder), "-o", str(page), "--price", "2.5"]) == command_line.OK
    assert "In money at 2.5 USD per million tokens." in page.read_text(encoding="utf-8")
