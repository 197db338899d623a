"""Fields of a JSON state that may differ between equal runs, named by paths such as `$.session.started`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TypeAlias

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"

MASK = "(volatile)"
_PART = re.compile(r"\.(?P<name>[^.\[\]]+)|\[(?P<index>\d+|\*)\]")


def is_path(text: str) -> bool:
    """Tell whether *text* is meant as a path into a state; other texts are patterns of files."""
    return text.startswith("$")


def parse(path: str) -> tuple[str, ...]:
    """Return the parts of *path*, `$` and then `.name`, `[3]` or `[*]` each; raise ValueError if it is none."""
    parts, at = [], 1
    while at < len(path):
        found = _PART.match(path, at)
        if found is None:
            raise ValueError(
                f"{path!r} is no path into the state; write one like '$.session.started' or '$.items[*].id'"
            )
        parts.append(found["name"] or found["index"])
        at = found.end()
    return tuple(parts)


def masked(value: Json, paths: Sequence[str]) -> Json:
    """Return *value* with everything that *paths* name replaced by a mask; what is not there stays absent."""
    for path in paths:
        value = _masked(value, parse(path))
    return value


def _masked(value: Json, parts: Sequence[str]) -> Json:
    if not parts:
        return MASK
    here, rest = parts[0], parts[1:]
    if isinstance(value, dict):
        return {key: _masked(item, rest) if here in (key, "*") else item for key, item in value.items()}
    if isinstance(value, list):
        return [_masked(item, rest) if here in (str(index), "*") else item for index, item in enumerate(value)]
    return value
