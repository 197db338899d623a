"""From `vary:` to values: what a search may give the fields of a fault."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pydantic import JsonValue

from chaos.errors import ScenarioError, UnknownName, did_you_mean
from chaos.faults import Fault
from chaos.scenario import messages, options
from chaos.variants import Variants, read, varied

ENDS = ("from", "to")
MOST_VALUES = 16  # of a range, both ends among them: a search has no runs for more

Vary = tuple[tuple[str, tuple[object, ...]], ...]
Problem = tuple[tuple[str | int, ...], str, bool]


def parse(fault: Fault, raw: dict[str, JsonValue]) -> tuple[Vary, list[Problem]]:
    """Return the fields of *fault* in *raw*, each with its values, and what is wrong where; True: the key is meant."""
    found: list[tuple[str, tuple[object, ...]]] = []
    problems: list[Problem] = []
    for field, given in raw.items():
        values: list[object] = []
        try:
            for item, value in _values(fault, field, given):
                try:
                    values.append(_sayable(fault, field, value))
                except ScenarioError as error:
                    problems.append(((field, *item), str(error), False))
        except ScenarioError as error:
            problems.append(((field,), str(error), isinstance(error, UnknownName)))
        found.append((field, tuple(dict.fromkeys(values))))
    return tuple(found), problems


def _values(fault: Fault, field: str, given: JsonValue) -> Iterator[tuple[tuple[int, ...], JsonValue | _Read]]:
    """Yield each value that *given* says for *field*, with its place in a list."""
    if field not in (known := options.keys(type(fault))):
        raise UnknownName(f"no field {field!r}; {did_you_mean(field, known)}")
    if isinstance(given, list) and given:
        yield from (((index,), value) for index, value in enumerate(given))
    elif isinstance(given, dict) and set(given) == set(ENDS):
        low, high = (read(fault, field, given[end]) for end in ENDS)
        yield from (((), _Read(value)) for value in _between(low, high))
    else:
        shown = messages.named(given) if given != [] else "an empty list"
        raise ScenarioError(f"write a list of values, or {{from: …, to: …}} of a number, not {shown}")


class _Read:
    """A value that is read already."""

    def __init__(self, value: object) -> None:
        self.value = value


def _sayable(fault: Fault, field: str, value: JsonValue | _Read) -> object:
    """Return *value* of *field* if the fault takes it and a plan can say it."""
    found = value.value if isinstance(value, _Read) else read(fault, field, value)
    Variants({"fault": fault}).label("fault", varied(fault, {field: found}))
    return found


def _between(low: object, high: object) -> Sequence[object]:
    """Return the values from *low* to *high*, evenly spaced where there are too many."""
    if isinstance(low, bool) or isinstance(high, bool) or not isinstance(low, int | float):
        raise ScenarioError("only numbers, durations and sizes have a range; write a list of values")
    if not isinstance(high, int | float) or low >= high:
        raise ScenarioError("a range goes from a lesser value to a greater one")
    whole = isinstance(low, int) and isinstance(high, int)
    count = min(MOST_VALUES, int(high - low) + 1) if whole else MOST_VALUES
    spaced = [low + (high - low) * place / (count - 1) for place in range(count)]
    if whole:
        return [round(value) for value in spaced]
    return [low, *(float(f"{value:.3g}") for value in spaced[1:-1]), high]  # as short as one would write them
