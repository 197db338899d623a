"""The options that gates and history are about, as they were given; UsageError for what makes no sense."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from chaos.scenario.units import parse_seconds

HISTORY = "history.jsonl"
FAIL_ON = "--chaos-fail-on"


def read(config: pytest.Config, folder: Path, *, replaying: bool) -> dict[str, Any]:
    """Return the fields of `Settings` that are about them.

    Args:
        folder: of the results.
        replaying: one run only: that is no campaign, and has no place in a history that nobody named.
    """
    budget = _budget(config)
    return {
        "history": _below(config, "--chaos-history") or ("" if replaying else str(folder / HISTORY)),
        "baseline": _below(config, "--chaos-baseline"),
        "learn": bool(config.getoption("--chaos-write-baseline")),
        "fail_on": tuple(config.getoption(FAIL_ON) or ()),
        "budget": budget,
        "ends": time.monotonic() + budget,
    }


def _below(config: pytest.Config, option: str) -> str:
    """Return the file that *option* names; "" if it names none."""
    given = config.getoption(option)
    return str(config.invocation_params.dir / given) if given else ""


def _budget(config: pytest.Config) -> float:
    if not (text := config.getoption("--chaos-budget")):
        return 0.0
    try:
        seconds = parse_seconds(text)
    except ValueError as error:
        raise pytest.UsageError(f"--chaos-budget: {error}") from None
    if not seconds:
        raise pytest.UsageError("--chaos-budget: nothing can be done in no time; leave it out for no limit")
    return seconds
