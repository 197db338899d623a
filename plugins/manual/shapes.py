"""A JSON Schema's types in words, and the fields of one of its objects as a table."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from typing import Any

from chaos.plugins.manual.markdown import code, prose, sentence, table

Schema = dict[str, Any]

ANYTHING = "anything"
PARTS = ("Fault", "At", "Expect", "ExpectedFailure", "Limits")
"""Parts of a scenario that have their own section."""

HEADER = ("field", "type", "default", "meaning")
WORDS = {"string": "text", "integer": "whole number", "number": "number", "boolean": "`true` or `false`"}
UNITS = {"ms|s|m|h": "time, as in `5s` or `250ms`", "B|kB|MB": "size, as in `512MiB`"}
"""Part of a text's pattern, to what such a text is."""


def fields(schema: Schema, leave_out: Collection[str] = ()) -> str:
    """Return a table of the properties of *schema*; those that must be given have no default and say so."""
    required = schema.get("required", ())
    rows = [
        (f"`{name}`", words(shape), "required" if name in required else default(shape), meaning(shape))
        for name, shape in schema.get("properties", {}).items()
        if name not in leave_out
    ]
    return table(HEADER, rows)


def meaning(shape: Schema) -> str:
    """Return what the field is for."""
    return sentence(prose(shape.get("description", "")))


def default(shape: Schema) -> str:
    """Return the default as one would write it; "" if there is none."""
    if "default" not in shape:
        return ""
    found = shape["default"]
    return code(found if isinstance(found, str) and found else json.dumps(found, ensure_ascii=False))


def words(shape: Schema) -> str:
    """Return what a value of *shape* is; that it may be an expression instead is said once, on top of the page."""
    if "anyOf" in shape:
        return _choice([each for each in shape["anyOf"] if not _expression(each)])
    if "enum" in shape:
        return ", ".join(code(str(value)) for value in shape["enum"])
    if "const" in shape:
        return code(json.dumps(shape["const"]) if not isinstance(shape["const"], str) else shape["const"])
    if "$ref" in shape:
        name = shape["$ref"].rpartition("/")[2]
        return f"[{name}](scenario.md#{name.lower()})" if name in PARTS else "mapping"
    if shape.get("type") == "array":
        inner = words(shape.get("items", {}))
        return f"list, each: {inner}" if inner != ANYTHING else "list"
    if shape.get("type") == "object":
        return "mapping"
    for ending, text in UNITS.items():
        if ending in shape.get("pattern", ""):
            return text
    return WORDS.get(shape.get("type", ""), ANYTHING) + _bounds(shape)


def _choice(shapes: Sequence[Schema]) -> str:
    """Return *shapes* as one choice; a list of what was named before is not told once more."""
    found: list[str] = []
    named: set[str] = set()
    for shape in shapes:
        inner = shape.get("items", {})
        again = bool(inner) and (set(inner.get("enum", ())) <= named if "enum" in inner else words(inner) in found)
        found.append("list of these" if again else words(shape))
        named |= set(shape.get("enum", ()))
    return " or ".join(dict.fromkeys(found))


def _bounds(shape: Schema) -> str:
    least, most = shape.get("minimum"), shape.get("maximum")
    if least is not None and most is not None:
        return f" from {least} to {most}"
    return f" from {least}" if least is not None else ""


def _expression(shape: Schema) -> bool:
    return bool(shape.get("$ref", "").endswith("/Expression"))
