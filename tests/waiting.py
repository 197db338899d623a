"""Waiting for what takes milliseconds on an idle machine, and may take long on a busy one."""

from __future__ import annotations

import time
from collections.abc import Callable

PATIENCE = 30.0  # seconds
LOOKS_EVERY = 0.005  # seconds


def until(true: Callable[[], object], what: str = "what is waited for", seconds: float = PATIENCE) -> None:
    """Return once *true* holds; fail after *seconds*, naming *what* was waited for."""
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, f"not within {seconds:g} s: {what}"
        time.sleep(LOOKS_EVERY)
