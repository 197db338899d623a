"""The reference is what the code says: generated pages are up to date, and nothing that there is has been left out."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from chaos import codes, registry
from chaos.plugins import manual
from chaos.plugins.manual import listing, options, result_files, site
from chaos.scenario.jsonschema import json_schema
from tests.docs.blocks import DOCS, ROOT

PAGES = manual.pages()
REFERENCE = DOCS / "reference"


def page(name: str) -> str:
    return PAGES[f"reference/{name}.md"]


def rows(text: str) -> dict[str, list[str]]:
    """Return the cells of each row of the tables in *text*, by the name in its first cell."""
    lines = (re.split(r"(?<!\\) \| ", line.strip("| ")) for line in text.splitlines() if line.startswith("| `"))
    return {found[1]: cells for cells in lines if (found := re.match(r"`([\w-]+)", cells[0]))}


@pytest.mark.parametrize("name", PAGES)
def test_the_generated_pages_are_those_of_the_code(name: str) -> None:
    assert (DOCS / name).read_text() == PAGES[name], "run `make reference`"


def test_no_other_page_pretends_to_be_generated() -> None:
    assert sorted(path.name for path in REFERENCE.iterdir()) == sorted(Path(name).name for name in PAGES)


@pytest.mark.parametrize("kind", ["faults", "strategies", "checks", "explorers", "targets", "stores", "servers"])
def test_every_plug_in_has_a_section(kind: str) -> None:
    where = "targets" if kind in ("stores", "servers") else kind
    sections = re.findall(r"^##+ (\w+)$", page(where), re.MULTILINE)
    assert set(registry.names(kind)) <= set(sections)


def properties(schema: Any) -> Iterator[tuple[str, Any]]:
    """Yield name and shape of every property anywhere in *schema*."""
    if isinstance(schema, dict):
        found = schema.get("properties", {})
        yield from ((name, shape) for name, shape in found.items() if isinstance(shape, dict))
        for part in schema.values():
            yield from properties(part)
    elif isinstance(schema, list):
        for part in schema:
            yield from properties(part)


def test_every_field_of_a_scenario_is_documented_with_its_meaning() -> None:
    """Those of the file, of every fault, of every strategy and of every target."""
    text = "".join(map(page, ("scenario", "faults", "strategies", "targets")))
    known = {*(name for names in map(registry.names, registry.FOLDERS) for name in names), "Expression"}
    fields = {name for name, _ in properties(json_schema())} - known
    documented = rows(text)
    assert fields - documented.keys() == set()
    assert [name for name in fields if not documented[name][-1]] == [], "say in the docstring what it is for"


def test_every_field_of_the_results_has_a_meaning() -> None:
    structs = [struct for _, found in result_files.FILES for struct in found]
    lacking = [
        f"{struct.__name__}.{field.name}"
        for struct in structs
        for field in msgspec.structs.fields(struct)
        if not result_files.meaning(struct, field.name)
    ]
    assert lacking == [], "say it in a comment behind the field"


def test_every_option_is_documented(pytestconfig: pytest.Config) -> None:
    known = {option for option in vars(pytestconfig.option) if option == "chaos" or option.startswith("chaos_")}
    assert {f"--{option.replace('_', '-')}" for option in known} == set(options.told().options)
    assert {name: cells[1] for name, cells in rows(page("options")).items() if not cells[1]} == {}
    for name in options.told().options:
        assert f"| `{name}" in page("options")


def test_every_command_of_the_command_line_is_documented() -> None:
    from chaos.plugins.commands import GROUPS

    sections = re.findall(r"^## (.+)$", page("command-line"), re.MULTILINE)
    assert sorted(sections) == sorted(name for group in GROUPS.values() for name in group)


def test_every_code_has_its_page_and_a_line() -> None:
    assert sorted(re.findall(r"\(\.\./codes/(.+)\.md\)", page("codes"))) == sorted(codes.all())
    assert sorted(path.stem for path in (DOCS / "codes").glob("*.md")) == sorted(codes.all())


def test_the_list_for_machines_has_every_page_and_says_what_it_is_about() -> None:
    text = (DOCS / listing.FILE).read_text()
    assert text == listing.text(DOCS), "run `make reference`"
    listed = dict(re.findall(r"^- \[.+?\]\((.+?)\): (.+)$", text, re.MULTILINE))
    assert sorted(listed) == sorted(str(path.relative_to(DOCS)) for path in DOCS.rglob("*.md"))


def test_the_navigation_has_every_page() -> None:
    config = (ROOT / site.FILE).read_text()
    assert config == site.navigation(config, DOCS), "run `make reference`"
    listed = re.findall(r'= "([\w./-]+\.md)"', config)
    assert sorted(listed) == sorted(str(path.relative_to(DOCS)) for path in DOCS.rglob("*.md"))


def test_writing_it_again_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manual, "pages", lambda: PAGES)  # made a second time they take seconds
    folder = tmp_path / "docs"
    (folder / "codes").mkdir(parents=True)
    (tmp_path / site.FILE).write_text((ROOT / site.FILE).read_text())
    assert {path.name for path in manual.write(folder)} >= {"scenario.md", listing.FILE, site.FILE}
    assert manual.write(folder) == []
