"""What pydantic found, in the words of someone who edits a scenario."""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Iterator, Sequence

from pydantic import JsonValue, ValidationError
from pydantic_core import ErrorDetails

from chaos.errors import Kind, did_you_mean
from chaos.scenario.positions import Loc

WANTED = {
    "bool": "true or false",
    "dict": "a mapping (key: value)",
    "float": "a number",
    "int": "a whole number",
    "list": "a list",
    "model": "a mapping (key: value)",
    "string": "text",
    "tuple": "a list",
}
"""First word of pydantic's `*_type` errors to what should stand there."""

BOUNDS = {
    "greater_than": ("more than", "gt"),
    "greater_than_equal": ("at least", "ge"),
    "less_than": ("less than", "lt"),
    "less_than_equal": ("at most", "le"),
}


def problems_of(error: ValidationError, known: Collection[str]) -> Iterator[tuple[Loc, str, bool, Kind]]:
    """Yield (loc, message, whether the key is meant, what kind of mistake it is) for each problem in *error*.

    Args:
        error: from a model of one level.
        known: the keys of that level, to suggest from.
    """
    details = error.errors(include_url=False)
    strange = [str(each["loc"][-1]) for each in details if each["type"] == "extra_forbidden"]
    for each in details:
        loc = each["loc"]
        if each["type"] == "extra_forbidden":
            yield loc, f"unknown key {loc[-1]!r}; {did_you_mean(str(loc[-1]), known)}", True, Kind.UNKNOWN_FIELD
        elif each["type"] == "unexpected_keyword_argument":  # inside of a field that has fields of its own
            yield loc, f"unknown key {loc[-1]!r}", True, Kind.UNKNOWN_FIELD
        elif each["type"] != "missing":
            yield loc, _message(each), False, _kind(each)
        elif not difflib.get_close_matches(str(loc[-1]), strange):
            # One slip is one error: 'targett' is unknown, and that 'target' is missing follows.
            yield loc[:-1], f"{loc[-1]!r} is required here", False, Kind.MISSING_FIELD


def _kind(error: ErrorDetails) -> Kind:
    if error["input"] is None:
        return Kind.NO_VALUE
    return Kind.TYPE if error["type"].endswith("_type") else Kind.VALUE


def _message(error: ErrorDetails) -> str:
    kind, given, context = error["type"], error["input"], error.get("ctx", {})
    if given is None:
        return f"{_key(error['loc'])} has no value; give it one or remove the key"
    if kind == "value_error":
        return str(context["error"])
    if kind == "literal_error":
        return _choice(re.findall(r"'([^']*)'|(\d+)", str(context["expected"])), given)
    if kind in BOUNDS:
        words, name = BOUNDS[kind]
        return f"must be {words} {context[name]}, not {given!r}"
    if kind == "too_short":
        return f"{_key(error['loc'])} is empty; give at least {context['min_length']}"
    if kind.endswith("_type") and kind.split("_")[0] in WANTED:
        return f"must be {WANTED[kind.split('_')[0]]}, not {named(given)}{_quotes(kind, given)}"
    return f"{error['msg'][:1].lower()}{error['msg'][1:]}, not {named(given)}"


def _key(loc: Sequence[str | int]) -> str:
    if not loc:
        return "this"
    return repr(loc[-1]) if isinstance(loc[-1], str) else f"item {loc[-1] + 1}"


def _choice(found: Sequence[tuple[str, str]], given: JsonValue) -> str:
    choices = [text or number for text, number in found]
    close = difflib.get_close_matches(str(given), choices, n=1)
    shown = [repr(text) if text else number for text, number in found]
    wanted = " or ".join([", ".join(shown[:-1]), shown[-1]] if len(shown) > 1 else shown)
    return f"must be {wanted}, not {named(given)}" + (f"; did you mean {close[0]!r}?" if close else "")


def _quotes(kind: str, given: JsonValue) -> str:
    if kind == "string_type" and isinstance(given, int | float):
        return "; put it in quotes"
    if kind in ("int_type", "float_type") and isinstance(given, str) and re.fullmatch(r"-?\d+(\.\d+)?", given):
        return "; remove the quotes"
    return ""


def named(value: object) -> str:
    """Return *value* as an error message may show it."""
    if isinstance(value, list | tuple):
        return "a list"
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, bool):
        return str(value).lower()
    return f"the text {value[:40]!r}" if isinstance(value, str) else repr(value)
