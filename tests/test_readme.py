"""What the README and the shipped files say is what the code does."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from chaos import registry
from chaos.scenario.jsonschema import json_schema
from chaos.scenario.loader import load

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
DOCS = ROOT / "docs"
MAX_LINES = 260  # what is longer is not read; the rest is in docs/

TABLES = {"faults": ("fault", "landing"), "strategies": ("strategy", "strategies"), "checks": ("check", "promises")}
"""Kind to the header of the table that is written by hand, and the page of docs/explanation that has it."""


def first_column(text: str, header: str) -> list[str]:
    """Return the names in the first column of the table in *text* whose first header is *header*."""
    table = text.split(f"| {header} | ", 1)[1].split("\n\n", 1)[0]
    return [name for row in table.splitlines()[2:] for name in re.findall(r"`([^`]+)`", row.split("|")[1])]


def test_the_example_scenario_is_right(tmp_path: Path) -> None:
    path = tmp_path / "readme.chaos.yaml"
    path.write_text(re.search(r"```yaml[^\n]*\n(.*?)```", README, re.DOTALL)[1])  # type: ignore[index]
    scenario = load(path)
    assert [str(spec.label) for spec in scenario.faults] == ["oom_kill", "kill-twice"]


def test_it_is_short_enough_to_be_read() -> None:
    assert len(README.splitlines()) <= MAX_LINES


@pytest.mark.parametrize("kind", TABLES)
def test_the_readme_names_every_plug_in(kind: str) -> None:
    """In its list of what there is, and none that is not there."""
    entry = re.search(rf"^\* \*\*\[{kind.title()}\].*?(?=^\* |^$)", README, re.DOTALL | re.MULTILINE)
    assert entry and sorted(re.findall(r"`(\w+)`", entry[0])) == registry.names(kind)


@pytest.mark.parametrize("kind", TABLES)
def test_the_tables_name_every_plug_in(kind: str) -> None:
    header, page = TABLES[kind]
    text = (DOCS / "explanation" / f"{page}.md").read_text()
    assert sorted(first_column(text, header)) == registry.names(kind)


def test_the_options_are_those_of_the_plug_in(pytestconfig: pytest.Config) -> None:
    documented = {word for cell in first_column(README, "option") for word in re.findall(r"--chaos[a-z-]*", cell)}
    known = {option for option in vars(pytestconfig.option) if option == "chaos" or option.startswith("chaos_")}
    assert documented == {f"--{option.replace('_', '-')}" for option in known}


def test_the_shipped_schema_is_the_generated_one() -> None:
    shipped = json.loads((ROOT / "scenarios" / "scenario-v1.json").read_text())
    assert shipped == json_schema(), "run `make schema`"


@pytest.mark.parametrize("path", sorted((ROOT / "scenarios").glob("*.chaos.yaml")), ids=lambda path: path.name)
def test_every_shipped_scenario_loads(path: Path) -> None:
    assert load(path).strategies
