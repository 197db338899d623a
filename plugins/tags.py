"""Tags of scenarios as pytest's marks."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from chaos.errors import Kind, Problem, ScenarioError

if TYPE_CHECKING:
    from chaos.scenario import Scenario

RESERVED = ("chaos", "filterwarnings", "parametrize", "skip", "skipif", "usefixtures", "xdist_group", "xfail")
"""Marks that mean something to pytest, to xdist or to us: a tag of such a name would change what runs."""


def mark(tag: str) -> str:
    """Return *tag* as it can be asked for with `-m`: hyphens are fine there, spaces are not."""
    return re.sub(r"[^\w.+-]", "_", tag).lstrip("_")


def marks(scenario: Scenario) -> list[str]:
    """Return the marks of *scenario*; raise ScenarioError for a tag that is one with a meaning."""
    found = [mark(tag) for tag in scenario.tags]
    if wrong := next((each for each in found if each in RESERVED), ""):
        message = f"the tag {wrong!r} is a mark with a meaning; take another word"
        raise ScenarioError((Problem(str(scenario.path), 0, 0, message, Kind.RESERVED_TAG),))
    return found
