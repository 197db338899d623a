"""Expressions in scenarios."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from chaos.errors import ScenarioError
from chaos.scenario import Scenario
from chaos.scenario.positions import Problems
from chaos.scenario.template import Renderer

Tree = dict[str, object]


def render(tree: Tree, seed: int | None = 1, name: str = "s") -> Tree:
    problems = Problems(Path("s.yaml"))
    found = Renderer(name, seed).document(tree, problems)  # type: ignore[arg-type]
    problems.raise_if_any()
    return dict(found)


@pytest.mark.parametrize(
    ("source", "value"),
    [
        ("${{ vars.n }}", 40),
        ("  ${{ vars.n * 2 }} ", 80),
        ("${{ 1 + 2 }}", 3),
        ("${{ vars.n }} steps", "40 steps"),
        ("${{ vars.n }}${{ vars.n }}", "4040"),
        ("${{ vars.version }}", "1.10"),
        ("${{ [vars.n, 2] }}", [40, 2]),
        ("${{ {'a': vars.n} }}", {"a": 40}),
        ("${{ vars['n'] > 3 }}", True),
        ("${{ vars.items }}", "an item"),
        ("${{ '}}' }}", "}}"),
        ("{% if x %} {{ y }} {# z #}", "{% if x %} {{ y }} {# z #}"),
        ("{% if x %} ${{ vars.n }}", "{% if x %} 40"),
    ],
)
def test_values_keep_their_type(source: str, value: object) -> None:
    assert render({"vars": {"n": 40, "version": "1.10", "items": "an item"}, "x": [source]})["x"] == [value]


def test_variables_see_those_above_them() -> None:
    assert render({"x": "${{ vars.b }}", "vars": {"a": 2, "b": "${{ vars.a + 1 }}"}})["x"] == 3
    with pytest.raises(ScenarioError, match="no variable 'b'"):
        render({"vars": {"a": "${{ vars.b }}", "b": 1}})


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("${{ vars.m }}", "no variable 'm'; known: n"),
        ("${{ fke.name() }}", "'fke' is undefined; did you mean 'fake'?"),
        ("a ${{ nope }}", "'nope' is undefined"),
        ("${{ vars. }}", "not an expression: "),
        ("${{ vars.n", "not an expression: "),
        ("${{ }}", "not an expression: "),
        ("${{ vars.n / 0 }}", "the expression fails with ZeroDivisionError"),
        ("${{ fake.pydecimal() }}", "gives a Decimal; turn it into text with `| string`"),
        ("${{ fake.nothing_like_this() }}", "has no attribute 'nothing_like_this'"),
        ("${{ ''.__class__.__mro__ }}", "unsafe"),
        ("${{ vars.__class__ }}", "unsafe"),
        ("${{ range(10 ** 7) | list }}", "OverflowError"),
        ("${{ 'x' * 20000 }}", "20000 characters"),
    ],
)
def test_wrong_expressions(source: str, says: str) -> None:
    with pytest.raises(ScenarioError) as caught:
        render({"vars": {"n": 40}, "x": source})
    assert says in str(caught.value)


def test_made_up_data_come_from_the_seed() -> None:
    tree: Tree = {"x": ["${{ fake.random_int(3, 900000) }}", "${{ fake.company() }} Ltd"]}
    assert render(tree, 1) == render(tree, 1)
    assert render(tree, 1) != render(tree, 2)
    assert render(tree, 1) != render(tree, 1, "other")


def test_a_drawn_seed_is_kept(loads: Callable[..., Scenario]) -> None:
    text = "version: 1\nscenario: s\ntarget: toy\nstrategies: [restart]\nfaults: [{kind: kill}]\n"
    text += "description: ${{ fake.pystr() }}\n"
    drawn = loads(text)
    assert drawn.seed is not None
    assert loads(text, drawn.seed).description == drawn.description


def test_an_error_stands_at_its_line_and_brings_no_others(errors: Callable[..., list[str]], good: str) -> None:
    assert errors(good.replace("runs: 5", "runs: ${{ vars.m }}")) == ["9:7: no variable 'm'; known: n"]


def test_faker_is_imported_only_where_it_is_used() -> None:
    code = "import sys, chaos.scenario.loader; print('faker' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"
