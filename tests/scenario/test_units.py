"""Durations and sizes."""

from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaos.scenario.units import format_bytes, format_seconds, parse_bytes, parse_seconds


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("5s", 5.0), ("250ms", 0.25), ("2m", 120.0), ("1.5h", 5400.0), ("0s", 0.0), ("0.3s", 0.3), ("300ms", 0.3)],
)
def test_seconds(text: str, seconds: float) -> None:
    assert parse_seconds(text) == seconds


@pytest.mark.parametrize(
    ("text", "size"), [("512MiB", 512 << 20), ("2GiB", 2 << 30), ("1.5KiB", 1536), ("4096B", 4096), ("1MB", 1_000_000)]
)
def test_bytes(text: str, size: int) -> None:
    assert parse_bytes(text) == size


@pytest.mark.parametrize(
    "value", ["", "5", "s", "-1s", "5 s", "5s\n", "5S", "1e3s", "٥s", "9" * 16 + "s", True, None, [1]]
)
def test_what_is_no_duration(value: object) -> None:
    with pytest.raises(ValueError, match="write a duration with a unit, such as '5s', '250ms' or '2m', not "):
        parse_seconds(value)


def test_long_values_are_cut() -> None:
    with pytest.raises(ValueError, match=r"not 'list'$"):
        parse_seconds([1] * 100)
    with pytest.raises(ValueError, match=r"not 'x{39}$"):
        parse_seconds("x" * 100)


def test_a_bare_number_is_told_its_units() -> None:
    with pytest.raises(ValueError, match="5 needs a unit: write '5s' or '5ms'"):
        parse_seconds(5)
    with pytest.raises(ValueError, match="512 needs a unit: write '512MiB' or '512B'"):
        parse_bytes(512)
    with pytest.raises(ValueError, match=r"'1\.5B' is no whole number of bytes"):
        parse_bytes("1.5B")


@given(st.floats(0.001, 1e6).map(lambda seconds: round(seconds, 6)))
def test_seconds_round_trip(seconds: float) -> None:
    assert parse_seconds(format_seconds(seconds)) == seconds


@given(st.integers(0, 1 << 48))
def test_bytes_round_trip(size: int) -> None:
    assert parse_bytes(format_bytes(size)) == size


def test_formatted_short() -> None:
    assert [format_seconds(seconds) for seconds in (0, 0.25, 5, 120, 5400, 0.0005)] == [
        "0s",
        "250ms",
        "5s",
        "2m",
        "90m",
        "0.0005s",
    ]
    assert [format_bytes(size) for size in (0, 1000, 2 << 30, 1536)] == ["0B", "1000B", "2GiB", "1536B"]


def test_plug_ins_do_not_pay_for_the_parser() -> None:
    code = "import sys, chaos.scenario.units; print({'pydantic', 'ruamel.yaml', 'jinja2', 'faker'} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "set()\n"
