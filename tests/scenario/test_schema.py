"""The JSON Schema that editors get, and the models of plug-in options."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from chaos.scenario import options
from chaos.scenario.jsonschema import DRAFT, json_schema
from chaos.scenario.parse import parse
from chaos.scenario.positions import Problems


def nodes(schema: object) -> Iterator[dict[str, Any]]:
    if isinstance(schema, dict):
        yield schema
        for child in schema.values():
            yield from nodes(child)
    elif isinstance(schema, list):
        for child in schema:
            yield from nodes(child)


def test_it_is_json_with_all_plug_ins() -> None:
    schema = json.loads(json.dumps(json_schema()))
    assert schema["$schema"] == DRAFT
    assert schema["properties"]["version"]["const"] == 1
    assert schema["$defs"]["Fault"]["oneOf"] == [{"$ref": "#/$defs/fault_evict"}, {"$ref": "#/$defs/fault_kill"}]
    checks = schema["$defs"]["Expect"]["properties"]["checks"]
    assert checks["items"]["enum"] == ["effects", "files", "processes", "state"]
    names = [choice.get("const") for choice in schema["properties"]["strategies"]["items"]["anyOf"]]
    assert names == ["delta", "restart", None]


def test_every_reference_leads_somewhere_and_every_pattern_compiles() -> None:
    schema = json_schema()
    for node in nodes(schema):
        if isinstance(node.get("$ref"), str):
            assert node["$ref"].removeprefix("#/$defs/") in schema["$defs"]
        if isinstance(node.get("pattern"), str):
            re.compile(node["pattern"])


def test_fields_of_a_fault_are_its_keys() -> None:
    evict = json_schema()["$defs"]["fault_evict"]
    own = ["grace", "lose_disk", "codes", "keep", "copy"]
    assert list(evict["properties"]) == ["kind", "name", "at", "then", "vary", *own]
    assert evict["required"] == ["kind"]
    assert evict["additionalProperties"] is False
    assert evict["properties"]["grace"]["default"] == "200ms"
    assert evict["properties"]["lose_disk"]["description"] == "A new machine: everything outside the store is gone."


def test_it_accepts_what_the_loader_accepts(good: str) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    schema = json_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    tree = parse(good, Problems(Path("s.yaml")))
    assert list(validator.iter_errors(tree)) == []
    wrong = {
        "runs": 0,
        "scenario": "X",
        "expects": {},
        "target": "toi",
        "limits": {"memory": 5},
        "faults": [{"kind": "x"}],
    }
    for key, value in wrong.items():
        assert list(validator.iter_errors({**tree, key: value})), key


@dataclass(frozen=True)
class Example:
    """Breaks *much* of it. The rest stays.

    Args:
        late: when it hits,
            in seconds.
        json: a name that pydantic uses itself.
    """

    late: float
    json: int = 1
    much: float = 0.5
    own: tuple[str, ...] = field(default=("a",))
    """A text below the field."""
    silent: bool = False
    hidden: int = field(default=3, init=False)


def test_where_descriptions_come_from() -> None:
    assert options.field_docs(Example) == {
        "late": "when it hits, in seconds.",
        "json": "a name that pydantic uses itself.",
        "much": "Breaks *much* of it.",
        "own": "A text below the field.",
    }
    assert options.summary(Example) == "Breaks *much* of it. The rest stays."


def test_options_become_the_dataclass() -> None:
    made, given = options.build(Example, {"late": 1, "own": ["x", "y"]})
    assert made == Example(1.0, own=("x", "y"))
    assert given == {"late": 1.0, "own": ("x", "y")}


@pytest.mark.parametrize("wrong", [{}, {"late": "1"}, {"late": True}, {"late": 1, "hidden": 2}, {"late": 1, "x": 2}])
def test_options_are_strict(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        options.build(Example, wrong)
