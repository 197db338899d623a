"""The planted target as a plug-in: its fields, its strategy, and the form of its bugs."""

from __future__ import annotations

import ast
import dataclasses
import importlib
from pathlib import Path
from typing import Any

import pytest

from chaos import registry
from chaos.errors import ScenarioError, UnknownName
from chaos.targets import Target
from chaos.targets.planted import NONE, Planted, bug_names, catch_of, driver_of, said_of
from chaos.targets.planted.driver import Driver

MAX_LINES = 60  # a bug is one slip; what is longer is another agent


def test_planted_is_a_target() -> None:
    target: Target = registry.load("targets", "planted")()
    assert target == Planted(bug=NONE, steps=16)
    assert target.steps == 16
    with pytest.raises(dataclasses.FrozenInstanceError):
        target.bug = "budget_reset"  # type: ignore[misc]


@pytest.mark.parametrize("bug", bug_names())
def test_a_bug_is_one_small_class_that_says_what_catches_it(bug: str) -> None:
    kind = driver_of(bug)
    assert issubclass(kind, Driver) and kind is not Driver
    assert kind.__doc__ is not None
    for part in ("In real agents: ", "Exposed by ", f"caught by `{catch_of(bug).check}`"):
        assert part in " ".join(kind.__doc__.split()) + " "
    assert said_of(bug).endswith(".")
    source = importlib.import_module(kind.__module__).__file__
    assert source is not None
    text = Path(source).read_text()
    [catch] = [node for node in ast.parse(text).body if isinstance(node, ast.Assign) and "CATCH" in ast.unparse(node)]
    assert len(text.splitlines()) - len(ast.get_source_segment(text, catch).splitlines()) <= MAX_LINES  # type: ignore[union-attr]


def test_the_correct_sibling_is_the_driver_itself() -> None:
    assert driver_of(NONE) is Driver


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"bug": "budget_rest"}, "no bug 'budget_rest'; did you mean 'budget_reset'?"),
        ({"bug": "nome"}, "no bug 'nome'; did you mean 'none'?"),
        ({"steps": 11}, "steps must be at least 12 (got 11)"),
        ({"bug": "budget_rest", "steps": 1}, "no bug 'budget_rest'"),
    ],
)
def test_wrong_fields_are_told(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ScenarioError) as told:
        Planted(**given)
    assert message in str(told.value)
    assert len(str(told.value).splitlines()) == len(given)


def test_there_is_one_strategy_without_options() -> None:
    assert Planted().strategy("loop", {}).durable
    with pytest.raises(UnknownName, match="did you mean 'loop'"):
        Planted().strategy("lop", {})
    with pytest.raises(ScenarioError, match="loop has no option 'every'"):
        Planted().strategy("loop", {"every": 3})
