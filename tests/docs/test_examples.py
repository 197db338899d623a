"""Every example of the documentation is run as it stands there: files are saved, commands typed, output looked for."""

from __future__ import annotations

import json
import re
import subprocess
import tomllib
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from chaos.scenario.loader import load
from tests.docs.blocks import Block, blocks, pages
from tests.docs.scratch import Reader

LANGUAGES = ("sh", "text", "yaml", "python", "toml", "diff", "json")
RUN = ("sh", "yaml", "python", "toml", "diff", "json")
PAGES = [page for page in pages() if any(not block.left_out for block in blocks(page))]


@pytest.fixture(scope="module")
def byte_code(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("byte_code")


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.name)
def test_every_block_says_what_it_is(page: Path) -> None:
    for block in blocks(page):
        assert block.language in LANGUAGES, f"{block.where}: name the language: {', '.join(LANGUAGES)}"
        if block.remark.startswith("not run"):
            assert len(block.left_out.split()) > 1, f"{block.where}: say why it is not run"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_examples_of_a_page_work_in_their_order(page: Path, tmp_path: Path, byte_code: Path) -> None:
    reader = Reader(tmp_path, byte_code)
    followed = [block for block in blocks(page) if not block.left_out]
    typed = "".join(block.text for block in followed if block.language == "sh")
    for block in followed:
        follow(reader, block, typed)
    assert reader.left() == []


def follow(reader: Reader, block: Block, typed: str) -> None:
    """Do what a reader does with *block*, who has *typed* all commands of the page in the end."""
    if block.title:
        reader.save(block.title, block.text, block.append)
    if block.language == "sh":
        code, printed = reader.run(block.text)
        assert code == block.exit_code, f"{block.where} ended with {code}:\n{printed}"
    elif block.language == "text":
        printed = plain(reader.printed)
        missing = [line for line in block.text.splitlines() if line.strip("… ") and plain(line) not in printed]
        assert missing == [], f"{block.where}: not in what was printed:\n{reader.printed}"
    elif block.language == "diff":
        done = subprocess.run(
            ["git", "apply", "-"], cwd=reader.folder, input=block.text, text=True, stderr=subprocess.PIPE
        )
        assert done.returncode == 0, f"{block.where}: {done.stderr}"
    elif block.language == "python" and not block.title:
        code, printed = reader.run(block.text, (reader.python,))
        assert code == 0, f"{block.where} ended with {code}:\n{printed}"
    elif not (block.title and block.title in typed):  # else a command reads it
        read(reader, block)


def read(reader: Reader, block: Block) -> None:
    """Read what is data: a scenario by the loader, and anything else by its own format."""
    if block.language == "yaml" and re.search(r"^scenario:", block.text, re.MULTILINE):
        path = reader.folder / "example.chaos.yaml"
        path.write_text(block.text)
        assert load(path).strategies, block.where
    elif block.language == "yaml":
        assert YAML(typ="safe").load(block.text), block.where
    elif block.language == "toml":
        assert tomllib.loads(block.text), block.where
    elif block.language == "json":
        json.loads(block.text)
    elif block.language == "python":
        compile(block.text, block.where, "exec")


def plain(text: str) -> str:
    """Return *text* with one space between words, for tables are as wide as what is in them."""
    return " ".join(text.split())


def test_the_scenario_of_the_readme_has_the_faults_that_the_text_is_about(tmp_path: Path) -> None:
    (found,) = (block for block in blocks(pages()[0]) if block.language == "yaml" and "scenario:" in block.text)
    path = tmp_path / "readme.chaos.yaml"
    path.write_text(found.text)
    assert [str(spec.label) for spec in load(path).faults]
