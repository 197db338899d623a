"""Durations and sizes, always written with a unit: "5s", "250ms", "512MiB".

`Seconds` and `Bytes` are the field types of plug-ins; a default given in Python is in the base unit. Standard
library only: strategies are imported in the agent's own process, which must not pay for the parser.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated

if TYPE_CHECKING:
    from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
    from pydantic_core.core_schema import CoreSchema

SECONDS = {"ms": Decimal("0.001"), "s": Decimal(1), "m": Decimal(60), "h": Decimal(3600)}
BYTES = {
    "B": Decimal(1),
    **{f"{prefix}B": Decimal(1000**power) for power, prefix in enumerate("kMG", 1)},
    **{f"{prefix}iB": Decimal(1024**power) for power, prefix in enumerate("KMG", 1)},
}
MAX_DIGITS = 15  # what a float holds exactly; more is a slip of the keyboard


def _pattern(units: Mapping[str, Decimal]) -> str:
    return rf"^(\d{{1,{MAX_DIGITS}}}(?:\.\d{{1,{MAX_DIGITS}}})?)({'|'.join(units)})$"


def parse_seconds(value: object) -> float:
    """Return the seconds that *value* says, as in "5s"; raise ValueError with the form that is right."""
    return float(_parse(value, SECONDS, "a duration with a unit, such as '5s', '250ms' or '2m'", ("s", "ms")))


def parse_bytes(value: object) -> int:
    """Return the bytes that *value* says, as in "512MiB"; raise ValueError with the form that is right."""
    found = _parse(value, BYTES, "a size with a unit, such as '512MiB' or '2GiB'", ("MiB", "B"))
    if found != int(found):
        raise ValueError(f"{value!r} is no whole number of bytes")
    return int(found)


def format_seconds(seconds: float) -> str:
    """Return the shortest text that `parse_seconds` reads as *seconds*."""
    return _format(Decimal(repr(float(seconds))), SECONDS, "s")


def format_bytes(size: int) -> str:
    """Return the shortest text that `parse_bytes` reads as *size*."""
    return _format(Decimal(size), {unit: factor for unit, factor in BYTES.items() if unit == "B" or "i" in unit}, "B")


def _parse(value: object, units: Mapping[str, Decimal], form: str, usual: tuple[str, str]) -> Decimal:
    if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 10**MAX_DIGITS:
        raise ValueError(f"{value} needs a unit: write " + " or ".join(f"'{value}{unit}'" for unit in usual))
    found = re.match(_pattern(units), value) if isinstance(value, str) and value.isascii() else None
    if found is None or found.end() != len(str(value)):
        shown = value if isinstance(value, str | int | float) else type(value).__name__
        raise ValueError(f"write {form}, not {shown!r:.40}")
    return Decimal(found[1]) * units[found[2]]


def _format(amount: Decimal, units: Mapping[str, Decimal], base: str) -> str:
    for unit, factor in sorted(units.items(), key=lambda item: -item[1]):
        if amount >= factor and amount % factor == 0:
            return f"{int(amount / factor)}{unit}"
    return f"{amount.normalize():f}{base}"


@dataclass(frozen=True)
class _Written:
    """Tells pydantic, where it is in use, how a quantity is written in a scenario."""

    parse: Callable[[object], float]
    write: Callable[[float], str]
    pattern: str
    examples: tuple[str, ...]

    def __get_pydantic_core_schema__(self, source: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        from pydantic_core import core_schema

        written = core_schema.plain_serializer_function_ser_schema(self.write, when_used="json")
        return core_schema.no_info_before_validator_function(self.parse, handler(source), serialization=written)

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, object]:
        return {"type": "string", "pattern": self.pattern, "examples": list(self.examples)}


Seconds = Annotated[float, _Written(parse_seconds, format_seconds, _pattern(SECONDS), ("5s", "250ms", "2m"))]
"""A duration: "5s" in YAML, seconds in Python."""

Bytes = Annotated[
    int, _Written(parse_bytes, lambda size: format_bytes(int(size)), _pattern(BYTES), ("512MiB", "2GiB", "4096B"))
]
"""A size: "512MiB" in YAML, bytes in Python."""
