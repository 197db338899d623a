"""The page on scenarios: every key of the file, from the JSON Schema."""

from __future__ import annotations

from chaos.plugins.manual.markdown import document, prose
from chaos.plugins.manual.shapes import PARTS, Schema, fields
from chaos.scenario.jsonschema import json_schema

COMMON = ("kind", "name", "at", "then", "vary")  # what every fault has beside its own fields

INTRODUCTION = """\
Every `*.chaos.yaml` that pytest finds is a scenario. `pytest-chaos check FILE` reads one and runs nothing;
`pytest-chaos schema` prints the JSON Schema that this page is generated from, with the plug-ins that are installed.
How these keys work together: [Write a scenario](../how-to/scenario.md).

Any value may be an expression: `${{ vars.name }}` or `${{ fake.… }}`, computed when the file is read; not so `version`,
`scenario`, `seed` and `kind`."""

WHERE = {
    "target": "[Target](targets.md)",
    "strategies": "list of [strategies](strategies.md)",
    "faults": "list of [Fault](#fault)",
    "expect": "[Expect](#expect)",
    "expected_failures": "list of [ExpectedFailure](#expectedfailure)",
    "limits": "[Limits](#limits)",
}


def page() -> str:
    """Return the page."""
    schema = json_schema()
    return document("Scenario", INTRODUCTION, "## The file", _file(schema), *(_part(schema, name) for name in PARTS))


def _file(schema: Schema) -> str:
    lines = fields(schema).splitlines()
    return "\n".join(_linked(line) for line in lines)


def _linked(line: str) -> str:
    """Return the row with a link for its type, where the type is a whole part of the file."""
    cells = line.split(" | ")
    name = cells[0].strip("| `")
    return " | ".join((cells[0], WHERE[name], *cells[-2:])) if name in WHERE else line


def _part(schema: Schema, name: str) -> str:
    if name == "Fault":
        return _fault(schema)
    part = schema["$defs"][name]
    return f"## {name}\n\n{prose(part['description'])}\n\n{fields(part)}"


def _fault(schema: Schema) -> str:
    """Return what all faults have in common; their own fields have a page."""
    (one, *_) = (part for name, part in schema["$defs"].items() if name.startswith("fault_"))
    common = {**one["properties"], "kind": {"type": "string", "description": "What breaks: the name of a fault."}}
    common["vary"] = {**common["vary"], "propertyNames": {}}
    common = {key: shape for key, shape in common.items() if key in COMMON}
    shown = fields({"properties": common, "required": ["kind"]})
    return (
        f"## Fault\n\nA fault and where it hits. Its own fields stand beside these: see [Faults](faults.md).\n\n{shown}"
    )
