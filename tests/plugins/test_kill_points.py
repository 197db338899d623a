"""The kill-point table: a few of its fields for real, by the command; the rest of it by values."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from chaos.events.seen import Effected
from chaos.plugins import kill_points
from chaos.plugins.command_line import main
from chaos.plugins.kill_points import Figure, Skipped
from chaos.record import Record


def test_what_a_crash_costs_on_langgraph_is_what_it_costs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "points.json"
    points = "after the effect,inside the commit,in recovery"
    assert main(["kill-points", "--runtime", "LangGraph sync", "--point", points, "--json", str(file)]) == 0
    table = [[field.strip() for field in line.split("|")[1:-1]] for line in capsys.readouterr().out.splitlines()]
    assert table[0] == ["kill point", "LangGraph sync"]
    assert dict(row for row in table[2:] if row) == {
        "after the effect": "1 + 0; 1",  # nothing recorded it yet: done again, with its e-mail
        "inside the commit": "0 + 0; 0",  # its writes are saved, only their checkpoint is not
        "in recovery": "1 + 0; 1",
    }
    figures = {(f["row"], f["effect"]): f for f in json.loads(file.read_text())["figures"]}
    assert len(figures) == 6
    paid = figures["after the effect", "payment"]
    assert (paid["without_key"], paid["with_key"], paid["recognised"], paid["redone_steps"]) == (0, 0, 1, 1)
    assert figures["in recovery", "e-mail"]["plan"] == "kill@13/after_act+kill@recovery/after_load"


@pytest.mark.parametrize("option", ["--runtime", "--point"])
def test_an_unknown_name_is_answered_with_a_near_one(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["kill-points", option, "LangGraph synk" if option == "--runtime" else "in recoverie"]) == 2
    assert "did you mean" in capsys.readouterr().err


def figure(**given: object) -> Figure:
    return Figure(
        **{"runtime": "DBOS", "row": "in recovery", "effect": "e-mail", "plan": "", "end": "finished", **given}
    )  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("figures", "says"),
    [
        ([figure(without_key=1, redone_steps=2), figure(recognised=1, redone_steps=1)], "1 + 0; 2"),
        ([figure(), figure(with_key=3, end="diverged")], "0 + 3; 0; diverged"),
        ([figure(end="stuck")], "0 + 0; 0; stuck"),
        ([figure(end="–"), figure(end="–")], "–"),
        ([figure(), figure(end="nothing proved")], "nothing proved"),
        ([], "nothing proved"),
    ],
)
def test_a_field_says_the_worse_of_both_effects(figures: list[Figure], says: str) -> None:
    assert kill_points.told(figures) == says


def test_a_runtime_that_cannot_run_has_its_reason_below_the_table() -> None:
    found = [figure(), Skipped("Temporal", "no binary 'temporal'")]
    *table, legend, reason = kill_points.lines(["DBOS", "Temporal"], ["in recovery"], found)
    assert [line.count("|") for line in table] == [3, 3, 3]
    assert legend == kill_points.LEGEND
    assert reason == "Temporal: skipped: no binary 'temporal'"


def effect(identity: str, key: str | None = None, *, deduplicated: bool = False) -> Effected:
    return Effected(
        at=1.0, attempt=1, service="s", operation="o", identity=identity, payload="", key=key, deduplicated=deduplicated
    )


def test_duplicates_are_what_changed_the_world_more_than_once() -> None:
    record = Record([
        effect("mail"), effect("mail"), effect("mail"), effect("pay", "k1"), effect("pay", "k1", deduplicated=True),
        effect("pay", "k2"), effect("ticket", "k3"),
    ])  # fmt: skip
    assert kill_points.duplicates(record) == (2, 1)
