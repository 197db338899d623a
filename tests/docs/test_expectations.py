"""The table of expectations names tests that exist, or says what is missing."""

from __future__ import annotations

import ast
import re

import pytest

from tests.docs.blocks import DOCS, ROOT

COUNT = 26
ROWS = [
    [cell.strip() for cell in line.strip("| ").split(" | ")]
    for line in (DOCS / "expectations.md").read_text().splitlines()
    if re.match(r"\| \d", line)
]


def test_every_expectation_has_its_row() -> None:
    assert [int(row[0]) for row in ROWS] == list(range(1, COUNT + 1))


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_the_tests_of_a_row_exist(row: list[str]) -> None:
    """One that names no test says what is not there yet."""
    named = re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", " ".join(row[3:]))
    assert named or "not yet" in row[2], "name a test, or say what is missing"
    for file, test in named:
        assert (ROOT / file).exists(), file
        if test:
            assert test in functions(file), f"{file} has no {test}"


def functions(file: str) -> set[str]:
    """Return the names of all functions in *file*."""
    tree = ast.parse((ROOT / file).read_text())
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
