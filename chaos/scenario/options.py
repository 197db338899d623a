"""A plug-in's dataclass is its schema: its fields are the keys, with types, defaults and documentation."""

from __future__ import annotations

import ast
import dataclasses
import functools
import inspect
import itertools
import json
import re
import textwrap
from collections.abc import Mapping
from typing import Any, get_type_hints

from pydantic import BaseModel, Field, JsonValue, create_model

from chaos.scenario.schema import STRICT

_PREFIX = "option_"  # keeps a field called `json` or `copy` from hiding a method of pydantic's


@functools.cache
def model_of(cls: type) -> type[BaseModel]:
    """Return the model of the options of the dataclass *cls*, each key with its description."""
    hints, docs = get_type_hints(cls, include_extras=True), field_docs(cls)
    fields: dict[str, Any] = {}
    for field in _options(cls):
        if field.default_factory is not dataclasses.MISSING:
            default = field.default_factory()
        else:
            default = ... if field.default is dataclasses.MISSING else field.default
        info = Field(default, alias=field.name, title=field.name, description=docs.get(field.name))
        fields[_PREFIX + field.name] = (hints[field.name], info)
    return create_model(cls.__name__, __config__=STRICT, __doc__=summary(cls), **fields)


def build(cls: type, options: Mapping[str, JsonValue]) -> tuple[object, dict[str, object]]:
    """Return *cls* made from *options*, and the options in base units; raise ValidationError for wrong ones.

    What the dataclass refuses itself comes out as its own ValueError or ScenarioError.
    """
    # As JSON, so that strict still takes a list for a tuple and a text for an enum.
    found = model_of(cls).model_validate_json(json.dumps(options))
    given = {name.removeprefix(_PREFIX): getattr(found, name) for name in found.model_fields_set}
    return cls(**given), given


def keys(cls: type) -> list[str]:
    """Return the options of the dataclass *cls*."""
    return [field.name for field in _options(cls)]


def _options(cls: type) -> list[dataclasses.Field[Any]]:
    if not dataclasses.is_dataclass(cls):
        return []
    return [field for field in dataclasses.fields(cls) if field.init and not field.name.startswith("_")]


def summary(cls: type) -> str:
    """Return what the docstring of *cls* says before its `Args:`."""
    return inspect.cleandoc(cls.__doc__ or "").split("\nArgs:")[0].strip()


def field_docs(cls: type) -> dict[str, str]:
    """Return the description of each field: its own docstring, its line under `Args:`, or the sentence about it.

    A sentence is about a field that it shows as `name`, `name: value` or *name*; a line may be about several.
    """
    text = inspect.cleandoc(cls.__doc__ or "")
    found: dict[str, str] = {}
    for sentence in re.split(r"(?<=[.])\s+|\n\n", text.split("\nArgs:")[0]):
        for mentioned in re.findall(r"[*`](\w+)(?:: [^`]+)?[*`]", sentence):
            found.setdefault(mentioned, " ".join(sentence.split()))
    for names, line in re.findall(r"^ {4}(\w[\w, ]*): (.+(?:\n {6,}.+)*)", text.partition("\nArgs:")[2], re.MULTILINE):
        found |= dict.fromkeys(names.split(", "), " ".join(line.split()))
    found.update(_attribute_docs(cls))
    return {name: found[name] for name in keys(cls) if name in found}


def _attribute_docs(cls: type) -> dict[str, str]:
    """Return the texts that stand below the fields in the source of *cls*, where there is a source."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(cls)))
    except (OSError, TypeError, SyntaxError):
        return {}
    body = tree.body[0].body if isinstance(tree.body[0], ast.ClassDef) else []
    found = {}
    for field, below in itertools.pairwise(body):
        match field, below:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                found[name] = inspect.cleandoc(text)
    return found
