"""The JSON Schema of scenarios, for editors: generated from the models and from every plug-in that is installed."""

from __future__ import annotations

from typing import Any, cast

from pydantic import BaseModel

from chaos import registry
from chaos.scenario import options
from chaos.scenario.schema import LABEL, At, Document, Expect, Expected, FaultPart, LimitsPart
from chaos.scenario.template import OPEN

DRAFT = "https://json-schema.org/draft/2020-12/schema"
LITERAL_KEYS = ("version", "scenario", "seed", "kind")  # read before expressions are, or chosen by

Schema = dict[str, Any]


def json_schema() -> Schema:
    """Return the schema of a scenario file with all faults, strategies, targets and checks found here."""
    schema = _of(Document)
    parts = {"At": _of(At), "Expect": _of(Expect), "ExpectedFailure": _of(Expected), "Limits": _of(LimitsPart)}
    checks = {"enum": registry.names("checks")}
    parts["Expect"]["properties"]["checks"]["items"] = checks
    for key in ("breaks", "may_break"):
        parts["ExpectedFailure"]["properties"][key]["items"] = checks
    faults = {f"fault_{name}": _fault(name) for name in registry.names("faults")}
    shapes = {
        "target": _named("targets"),
        "strategies": {"items": _named("strategies")},
        "faults": {"items": {"$ref": "#/$defs/Fault"}},
        "expect": {"$ref": "#/$defs/Expect"},
        "expected_failures": {"items": {"$ref": "#/$defs/ExpectedFailure"}},
        "limits": {"$ref": "#/$defs/Limits"},
    }
    for key, shape in shapes.items():
        schema["properties"][key] |= shape
    parts["Fault"] = {"oneOf": [{"$ref": f"#/$defs/{name}"} for name in faults]} if faults else {"not": {}}
    expression = {
        "type": "string",
        "pattern": r"\$\{\{",
        "description": f"An expression: {OPEN} vars.name }}}}",
    }
    whole = {"$schema": DRAFT, **schema, "$defs": {**parts, **faults, "Expression": expression}}
    for part in (schema, *parts.values(), *faults.values()):
        _allow_expressions(part)
    return whole


def _of(model: type[BaseModel]) -> Schema:
    """Return the schema of *model* without the parts that only pydantic needs."""
    # In the mode of serialization, defaults are as one would write them: "200ms", not 0.2.
    schema = cast(Schema, _tidy(model.model_json_schema(mode="serialization")))
    schema.pop("$defs", None)
    for name, shape in schema.get("properties", {}).items():
        field = model.model_fields.get(name)
        if field is not None and field.default is None:
            shape.pop("default", None)  # editors would write `null`, which says nothing
    return schema


def _tidy(node: object, names: bool = False) -> object:
    """Return *node* without titles and without null; *names* tells that its keys are names of properties."""
    if isinstance(node, list):
        return [_tidy(item) for item in node]
    if not isinstance(node, dict):
        return node
    found = {
        key: _tidy(value, key in ("properties", "$defs")) for key, value in node.items() if names or key != "title"
    }
    if found.get("$ref") == "#/$defs/JsonValue":
        del found["$ref"]  # anything
    choices = found.get("anyOf")
    if not names and isinstance(choices, list) and {"type": "null"} in choices:
        kept = [choice for choice in choices if choice != {"type": "null"}]
        del found["anyOf"]
        found = {**kept[0], **found} if len(kept) == 1 else {**found, "anyOf": kept}
    return found


def _plugin(kind: str, name: str) -> Schema:
    """Return the schema of the options of one plug-in."""
    schema = _of(options.model_of(registry.load(kind, name)))
    for shape in schema.get("properties", {}).values():
        if shape.get("default", ...) is None:
            del shape["default"]
    return schema


def _fault(name: str) -> Schema:
    schema = _plugin("faults", name)
    common = _of(FaultPart)["properties"]
    common["kind"] = {"const": name, "description": schema.get("description", "")}
    common["name"]["pattern"] = LABEL
    common["at"] |= {"$ref": "#/$defs/At"}
    common["then"] |= {"items": {"$ref": "#/$defs/Fault"}}
    common["vary"] |= {"propertyNames": {"enum": list(schema.get("properties", {}))}}
    schema["properties"] = {**common, **schema.get("properties", {})}
    schema["required"] = ["kind", *schema.get("required", [])]
    return schema


def _named(kind: str) -> Schema:
    """Return the schema of a plug-in of *kind* as a bare name, or as a name with its options."""
    schemas = {name: _plugin(kind, name) for name in registry.names(kind)}
    for schema in schemas.values():
        _allow_expressions(schema)
    bare = [{"const": name, "description": schema.get("description", "")} for name, schema in schemas.items()]
    mapping = {
        "type": "object",
        "properties": schemas,
        "additionalProperties": False,
        "minProperties": 1,
        "maxProperties": 1,
    }
    return {"anyOf": [*bare, mapping]}


def _allow_expressions(schema: Schema) -> None:
    """Let each property of *schema* that not every text fits be an expression as well."""
    for name, shape in schema.get("properties", {}).items():
        if name not in LITERAL_KEYS and _narrow(shape):
            kept = {key: shape.pop(key) for key in ("description", "default", "examples") if key in shape}
            choices = shape["anyOf"] if set(shape) == {"anyOf"} else [shape]
            schema["properties"][name] = {"anyOf": [*choices, {"$ref": "#/$defs/Expression"}], **kept}


def _narrow(shape: Schema) -> bool:
    if shape.get("type") in ("integer", "number", "boolean") or {"enum", "const", "pattern"} & set(shape):
        return True
    return any(_narrow(choice) for choice in shape.get("anyOf", ()))
