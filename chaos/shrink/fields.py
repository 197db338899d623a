"""Fields of faults and targets: how they are written in a scenario, and which values are simpler."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from typing import Any, TypeVar, cast

from pydantic import JsonValue, ValidationError

from chaos.errors import ScenarioError
from chaos.faults import Fault
from chaos.scenario import options
from chaos.shrink import descent
from chaos.targets import Target

_T = TypeVar("_T")

LESS = ("requests", "times", "behind")
"""Numbers of faults of which less is simpler: the length of a burst, how often, how far.

Of other numbers the default is the simplest (a lower rate, say, is a heavier fault), but no time is made longer.
"""

STEPS, DATA = "steps", "bytes_per_step"
"""Numbers of targets that say how long a run is and how much it writes. Data are halved: a byte less tells nothing."""


def written(made: object) -> dict[str, JsonValue]:
    """Return the options of the plug-in *made* that are not at their defaults, as a scenario says them."""
    cls: type[Any] = type(made)
    names = options.keys(cls)
    model = options.model_of(cls)  # type: ignore[arg-type]  # a class can be hashed
    by_field = {info.alias: name for name, info in model.model_fields.items()}
    values = {by_field[name]: getattr(made, name) for name in names}
    dumped = model.model_construct(**values).model_dump(mode="json", by_alias=True)
    return {name: dumped[name] for name in names if getattr(made, name) != _default(cls, name)}


def legal(made: object) -> bool:
    """Tell whether a scenario can say *made*."""
    try:
        return bool(options.build(type(made), written(made))[0] == made)
    except (ValidationError, ScenarioError, ValueError, TypeError):
        return False


def changed(made: _T, **values: object) -> _T | None:
    """Return *made* with other *values*; None if a scenario cannot say it."""
    try:
        found = dataclasses.replace(cast(Any, made), **values)
    except (ScenarioError, ValueError, TypeError):
        return None
    return cast(_T, found) if legal(found) else None


def plainer(fault: Fault) -> Iterator[Fault]:
    """Yield *fault* with one field simpler: less of what less is simpler of, another field at its default."""
    for name in options.keys(type(fault)):
        value, default = getattr(fault, name), _default(type(fault), name)
        values: Iterable[object] = ()
        if name in LESS and isinstance(value, int):
            values = descent(value, least(fault, name, value))
        elif value != default and default is not dataclasses.MISSING and not _shorter_time(value, default):
            values = (default,)
        yield from (found for each in values if (found := changed(fault, **{name: each})) is not None)


def _shorter_time(value: object, default: object) -> bool:
    return isinstance(value, float) and isinstance(default, float) and value < default


def shorter(target: Target) -> Iterator[Target]:
    """Yield *target* with fewer steps, then with less data; nothing where it has no such fields."""
    for name in (STEPS, DATA):
        value = getattr(target, name, None)
        if name in options.keys(type(target)) and isinstance(value, int) and value > 0:
            smaller = descent(value, least(target, name, value)) if name == STEPS else dict.fromkeys((0, value // 2))
            yield from (found for number in smaller if (found := changed(target, **{name: number})) is not None)


def least(made: object, name: str, value: int) -> int:
    """Return the smallest number from 0 to *value* from which on *made* takes each as its *name*."""
    low, high = 0, value
    while low < high:
        middle = (low + high) // 2
        if changed(made, **{name: middle}) is None:
            low = middle + 1
        else:
            high = middle
    return high


def _default(cls: type, name: str) -> object:
    (field,) = (field for field in dataclasses.fields(cls) if field.name == name)
    return field.default_factory() if field.default_factory is not dataclasses.MISSING else field.default
