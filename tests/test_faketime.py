"""The cut library: what it still is in charge of, and what not."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaos import faketime
from chaos.errors import HarnessError

needs_library = pytest.mark.skipif(not faketime.installed(), reason="no libfaketime; apt-get install libfaketime")


def offset_and_sleep(library: Path, offset: str) -> tuple[float, float]:
    """Return by how much a program reads a wrong time, and how long half a second of sleep is by its own stopwatch."""
    program = "import time; t = time.monotonic(); w = time.time(); time.sleep(0.5); print(w, time.monotonic() - t)"
    env = {"LD_PRELOAD": str(library), "FAKETIME": offset, "FAKETIME_DONT_FAKE_MONOTONIC": "1"}
    words = subprocess.run(
        [sys.executable, "-I", "-S", "-c", program], env=env, capture_output=True, text=True, timeout=30, check=True
    ).stdout.split()
    true = subprocess.run(["date", "+%s"], capture_output=True, text=True, check=True).stdout
    return float(words[0]) - float(true), float(words[1])


@needs_library
@pytest.mark.parametrize("days", [-1, 90])
def test_the_wall_clock_is_moved_and_a_sleep_is_as_long_as_it_was(days: int) -> None:
    off, slept = offset_and_sleep(faketime.library(), f"{days:+d}d")
    assert off == pytest.approx(days * 86_400, abs=30)
    assert 0.5 <= slept < 10  # uncut, 0.9.10 sleeps a day, or not at all


@needs_library
def test_the_copy_is_one_and_goes_with_the_process() -> None:
    assert faketime.library() is faketime.library()
    done = subprocess.run(
        [sys.executable, "-c", "from chaos import faketime; print(faketime.library())"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout.strip() and not Path(done.stdout.strip()).parent.exists()


@given(st.binary(max_size=200), st.booleans())
def test_what_is_no_library_is_refused_and_not_cut(junk: bytes, begins: bool) -> None:
    """Nor is what begins like one."""
    with pytest.raises(HarnessError, match=r"no.* ELF file|no clock_gettime"):
        faketime.cut_down(faketime.ELF64_LITTLE + junk if begins else junk)
