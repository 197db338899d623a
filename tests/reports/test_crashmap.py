"""The map of crash points: what became of each place, in a picture that stays small, in numbers and in words."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaos.plan import STEP_PHASES
from chaos.reports import crashmap, html
from chaos.reports.crashmap import Map, Place
from chaos.results import DERIVED, EQUAL, Campaign, Landed, RunResult
from chaos.verdict import CellVerdict
from tests.reports.made import campaign, run

REACHED = frozenset((step, phase) for step in range(6) for phase in STEP_PHASES)


def only(*runs: RunResult, reached: frozenset[tuple[int, str]] = REACHED) -> Map:
    (found,) = crashmap.maps(campaign(runs), {"a": reached})
    return found


def drawn(found: Map, said: Place) -> str:
    assert found.picture is not None
    return next((mark.d for mark in found.picture.marks if mark.css == f"place-{said.name.lower()}"), "")


def numbers(found: Map) -> dict[str, dict[str, str]]:
    return {row[0]: dict(zip(found.table.head[1:], row[1:], strict=True)) for row in found.table.rows}


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (run("a"), Place.RECOVERED),
        (run("a", how=DERIVED), Place.RECOVERED),
        (run("a", how=EQUAL), Place.EQUAL),
        (run("a", broke=("files",)), Place.BROKEN),
        (run("a", broke=("files",), how=EQUAL), Place.BROKEN),
        (run("a", broke=("files",), expected=("files",)), Place.EXPECTED),
        (run("a", broke=("files", "state"), expected=("files",)), Place.BROKEN),
        (run("a", open=("state",)), Place.UNJUDGED),
        (run("a", verdict=CellVerdict.HARNESS_ERROR), Place.UNJUDGED),
        (run("a", verdict=CellVerdict.NOT_EXERCISED), Place.UNJUDGED),
    ],
)
def test_what_a_run_says_of_its_places(made: RunResult, said: Place) -> None:
    assert crashmap.state(made) is said
    assert numbers(only(made))["after_act"][f"{said.icon} {said.word}"] == "1"


def test_a_place_is_as_bad_as_the_worst_run_there() -> None:
    found = only(run("a", at="2/before_act"), run("a", at="2/before_act", broke=("state",)), run("a", how=EQUAL))
    assert numbers(found)["before_act"] == {
        "✗ broken": "1", "= equal crash state": "0", "· not hit": "5", "where it broke": "2",
    }  # fmt: skip
    assert found.summary.startswith("2 of 30 points hit; never: before_think, during_commit and after_commit")
    assert "1 broken; 1 by an equal crash state" in found.summary


def test_both_faults_of_a_run_are_on_the_map() -> None:
    hits = (Landed("kill", "1/before_act", "", {}), Landed("kill", "recovery/after_load", "", {}))
    found = only(run("a", landed=hits, planned=2))
    assert numbers(found)["before_act"]["✓ recovered"] == "1"
    assert found.elsewhere == ("✓ recovery/after_load × 1, recovered",)


def test_points_that_are_counted_by_themselves_have_rows_of_their_own() -> None:
    found = only(run("a", at="7/fsync"), run("a", at="2/effect"), run("a", at="recovery/3/before_act"))
    assert [row[0] for row in found.table.rows][-3:] == ["effect", "fsync", "recovery: before_act"]


def test_that_nothing_crashed_inside_a_commit_is_a_warning() -> None:
    assert only(run("a")).warning == "never crashed inside a commit"
    assert only(run("a", at="1/during_commit")).warning == ""
    assert only(run("a", at="3/fsync")).warning == ""
    no_commits = frozenset(point for point in REACHED if "commit" not in point[1])
    assert only(run("a"), reached=no_commits).warning == ""
    assert only(run("a"), reached=frozenset()).warning == ""  # nobody knows what there is to crash in


def test_without_a_reference_only_what_was_hit_is_known() -> None:
    found = only(run("a"), reached=frozenset())
    assert found.summary == "1 point hit" and not drawn(found, Place.MISSED)


def test_equal_neighbours_are_one_stretch() -> None:
    found = only(*(run("a", at=f"{step}/after_act") for step in (0, 1, 2, 4)))
    assert drawn(found, Place.RECOVERED).count("M") == 2
    assert drawn(found, Place.MISSED).count("M") == 6  # four other rows, and steps 3 and 5


def test_no_state_is_told_by_its_colour_alone() -> None:
    shapes = {crashmap._shape(said, 0, 0, 10) for said in Place if said is not Place.UNJUDGED}
    assert len(shapes) == len(Place) - 1  # what was not judged is hollow
    assert len({said.icon for said in Place}) == len({said.word for said in Place}) == len(Place)
    css = (Path(html.__file__).parent / "templates/figures.css").read_text()
    assert "svg .place-unjudged{fill:var(--warn);stroke:" in css


@given(
    st.lists(st.tuples(st.integers(0, 3000), st.sampled_from(STEP_PHASES), st.booleans(), st.booleans()), min_size=1),
    st.integers(0, 3000),
)
def test_all_of_it_is_inside_and_every_place_is_counted(hits: list[tuple[int, str, bool, bool]], steps: int) -> None:
    reached = frozenset((step, phase) for step in range(0, steps, 7) for phase in STEP_PHASES)
    found = only(
        *(run("a", at=f"{s}/{p}", broke=("state",) * bad, how=EQUAL if eq else DERIVED) for s, p, bad, eq in hits),
        reached=reached,
    )
    assert found.picture is not None
    for mark in found.picture.marks:
        for x, y, wide in re.findall(r"M([\d.]+) ([\d.]+)h([\d.]+)", mark.d):
            assert float(x) >= 0
            assert float(x) + float(wide) <= found.picture.width
            assert 0 <= float(y) <= found.picture.height
    assert all(0 <= text.x <= found.picture.width for text in found.picture.texts)
    counted = sum(int(value) for row in numbers(found).values() for name, value in row.items() if "where" not in name)
    assert counted == len(reached | {(step, phase) for step, phase, _, _ in hits})


def test_what_broke_shows_where_steps_share_a_column() -> None:
    reached = frozenset((step, "after_act") for step in range(2000))
    found = only(run("a", at="1203/after_act", broke=("state",)), reached=reached)
    assert drawn(found, Place.BROKEN).count("M") == 1
    assert found.picture is not None and found.picture.width <= 1010
    assert "one column stands for 5 steps, and shows the worst" in found.picture.described


def test_hundreds_of_steps_of_a_dozen_strategies_stay_small() -> None:
    runs = [
        run(f"s{n}", at=f"{step}/{phase}", broke=("state",) * (step % 9 == 0), how=EQUAL if step % 2 else DERIVED)
        for n in range(12)
        for step in range(400)
        for phase in STEP_PHASES
    ]
    found = crashmap.maps(campaign(runs), {})
    sizes = [sum(len(mark.d) for mark in each.picture.marks) for each in found if each.picture]
    assert len(sizes) == 12 and sum(sizes) < 700_000  # every step unlike its neighbours: the worst there is
    calm = crashmap.maps(campaign(run("a", at=f"{step}/{p}") for step in range(400) for p in STEP_PHASES), {})
    assert sum(len(mark.d) for mark in calm[0].picture.marks) < 300  # type: ignore[union-attr]


def test_the_page_has_the_map_and_its_warning(folder: Path, campaign: Campaign) -> None:
    page = html.render(campaign, folder)
    section = page[page.index('<h2 id="coverage">') : page.index("<footer>")]
    assert "never crashed inside a commit" in section
    assert section.count('<figure class="map">') == section.count("<summary>In numbers</summary>") == 4
    assert "of 120 points hit" in section
