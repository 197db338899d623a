"""Variants of a scenario's faults: a label of a plan may give fields of its fault other values.

kill                                    the fault as the scenario has it
kill:signal=SIGTERM,grace=1500ms        the same with two fields that differ, written as in a scenario
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, cast, get_type_hints

from pydantic import JsonValue, TypeAdapter, ValidationError

from chaos.errors import ScenarioError, UnknownName, did_you_mean
from chaos.faults import Fault
from chaos.scenario import messages, options
from chaos.scenario.schema import STRICT

_TEXT = re.compile(
    r"[A-Za-z0-9_.-]+"
)  # what `chaos.plan.parse_plan` reads as part of a label, without `:`, `=` and `,`
_BARE = re.compile(r"-?\d+(\.\d+)?(e-?\d+)?|true|false|null")  # JSON that is no text


def name_of(label: str) -> str:
    """Return the scenario's own label in *label*."""
    return label.partition(":")[0]


@dataclasses.dataclass(frozen=True, eq=False)
class Variants(Mapping[str, Fault]):
    """From label to fault: those that are *known* by the scenario's labels, and every variant of them.

    Only the scenario's own labels are counted and gone over: the variants have no end.
    """

    known: Mapping[str, Fault]

    def fault(self, label: str) -> Fault:
        """Return the fault that *label* means; raise ScenarioError with what would be right."""
        name, colon, text = label.partition(":")
        if name not in self.known:
            raise UnknownName(f"no fault {name!r}; {did_you_mean(name, self.known)}")
        fault = self.known[name]
        if not colon:
            return fault
        try:
            return varied(fault, dict(_given(fault, text)))
        except ScenarioError as error:
            raise ScenarioError(f"{label!r}: {error}") from None

    def label(self, name: str, fault: Fault) -> str:
        """Return the label of *fault*, a variant of the one called *name*: the fields that differ, in their order.

        Raises:
            ScenarioError: a plan cannot say it.
        """
        base = self.known[name]
        if type(fault) is not type(base):
            raise ScenarioError(f"{fault!r} is no variant of {name!r}, which is {base!r}")
        fields = [each for each in options.keys(type(base)) if getattr(fault, each) != getattr(base, each)]
        if not fields:
            return name
        label = f"{name}:{','.join(f'{each}={write(fault, each)}' for each in fields)}"
        if self.fault(label) != fault:
            raise ScenarioError(f"{label!r} does not say what it should: {fault!r}")
        return label

    def __getitem__(self, label: str) -> Fault:
        try:
            return self.fault(label)
        except ScenarioError as error:
            raise KeyError(str(error)) from error

    def __iter__(self) -> Iterator[str]:
        return iter(self.known)

    def __len__(self) -> int:
        return len(self.known)


def varied(fault: Fault, fields: Mapping[str, object]) -> Fault:
    """Return *fault* with other values of *fields*; raise ScenarioError if it takes none of them together."""
    try:
        return cast(Fault, dataclasses.replace(cast(Any, fault), **fields))
    except (TypeError, ValueError) as error:
        raise ScenarioError(str(error)) from error


def read(fault: Fault, field: str, value: JsonValue) -> object:
    """Return what *value*, as a scenario has it, means as *field* of *fault*; raise ScenarioError if nothing."""
    known = options.keys(type(fault))
    if field not in known:
        raise UnknownName(f"no field {field!r}; {did_you_mean(field, known)}")
    try:
        # As JSON, so that strict still takes a text for an enum.
        return _types(type(fault))[field].validate_json(json.dumps(value))
    except ValidationError as error:
        raise ScenarioError(next(message for _, message, *_ in messages.problems_of(error, known))) from None


def write(fault: Fault, field: str) -> str:
    """Return *field* of *fault* as a plan says it; raise ScenarioError if none can."""
    value = _types(type(fault))[field].dump_python(getattr(fault, field), mode="json")
    # A plan joins its faults by plus signs; JSON reads 1e16 as well.
    text = value if isinstance(value, str) else json.dumps(value).replace("+", "")
    if not _TEXT.fullmatch(text):
        raise ScenarioError(
            f"a plan cannot say {field}={value!r}: letters, digits, '_', '-' and '.' are all that it has"
        )
    return text


def _given(fault: Fault, text: str) -> Iterator[tuple[str, object]]:
    """Yield each field of *fault* and its value in *text*, what stands behind the colon of a label."""
    seen: set[str] = set()
    for pair in text.split(","):
        field, equals, value = pair.partition("=")
        if not equals or not field or not value:
            raise ScenarioError(f"{pair!r} gives no field a value; write LABEL:field=value,field=value")
        if field in seen:
            raise ScenarioError(f"{field!r} is there twice")
        seen.add(field)
        try:
            yield field, _read_text(fault, field, value)
        except UnknownName:
            raise
        except ScenarioError as error:
            raise ScenarioError(f"{field} {error}") from None


def _read_text(fault: Fault, field: str, text: str) -> object:
    """Return what *text* means as *field*: a text if the field takes one, else the number or constant that it is."""
    if not _BARE.fullmatch(text):
        return read(fault, field, text)
    try:
        return read(fault, field, json.loads(text))
    except ScenarioError:
        try:
            return read(fault, field, text)
        except ScenarioError:
            pass
        raise


@cache
def _types(cls: type) -> dict[str, TypeAdapter[Any]]:
    """Return for each field of the dataclass *cls* what reads and writes it as a scenario does."""
    hints = get_type_hints(cls, include_extras=True)
    return {name: TypeAdapter(hints[name], config=STRICT) for name in options.keys(cls)}
