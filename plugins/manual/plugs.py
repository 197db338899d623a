"""The pages on plug-ins, a section for each: what its docstring says, and its fields."""

from __future__ import annotations

import dataclasses
import inspect

from chaos import registry
from chaos.plugins.manual.markdown import code, document, prose, sentence, table
from chaos.plugins.manual.scenario import COMMON
from chaos.plugins.manual.shapes import HEADER, fields
from chaos.sandbox import Survival
from chaos.scenario import options
from chaos.scenario.jsonschema import json_schema

TAKES = {
    Survival.NONE: "nothing",
    Survival.PROCESS: "the process and its memory",
    Survival.CONTAINER: "the process and its container's disk",
    Survival.NODE: "the process, its container's disk and the host's name",
    Survival.POWER: "the process, its memory, and whatever no disk has synced",
    Survival.STORE: "the process and its memory, and damages stored bytes",
}
"""What a fault takes away, in words."""


def faults() -> str:
    """Return the page on faults."""
    definitions = json_schema()["$defs"]
    sections = []
    for name in registry.names("faults"):
        survival = registry.load("faults", name)().survival
        takes = f"With its defaults it takes away {TAKES.get(survival, survival)}."
        sections += [_about("faults", name), takes, fields(definitions[f"fault_{name}"], leave_out=COMMON)]
    return document(
        "Faults",
        "What breaks. Where and how often it does is said by [At](scenario.md#at), whatever the fault is. What proves "
        "that one landed: [What a landing proof is](../explanation/landing.md).",
        *sections,
    )


def strategies() -> str:
    """Return the page on recovery strategies."""
    sections = []
    for name in registry.names("strategies"):
        made = registry.load("strategies", name)()
        says = ", ".join(sorted(made.claims)) or "nothing"
        sections += [
            _about("strategies", name),
            f"With its defaults it says that it restores: {says}. Its store is {code(made.store) or 'none'}.",
            _options("strategies", name),
        ]
    return document(
        "Strategies",
        "How the reference agent comes back: a name in `strategies`, or a name with its options, as in "
        "`{delta: {every: 10}}`. What each of them loses: "
        "[What each strategy loses](../explanation/strategies.md).",
        *sections,
    )


def checks() -> str:
    """Return the page on checks."""
    return document(
        "Checks",
        "One promise each. All of them are made in every scenario; `expect.checks` names a choice. In a table: "
        "[The promises](../explanation/promises.md).",
        *(_about("checks", name) for name in registry.names("checks")),
    )


def explorers() -> str:
    """Return the page on explorers, with the values that a scenario's `at` gives them."""
    sections = []
    for name in registry.names("explorers"):
        sections += [_about("explorers", name), _fields(registry.load("explorers", name))]
    return document(
        "Explorers",
        "An explorer turns the points of a crash-free run into plans. A scenario does not name one: "
        "[At](scenario.md#at) says where a fault hits, and the explorer for it is chosen. The fields are those of the "
        "Python class.",
        *sections,
    )


def targets() -> str:
    """Return the page on targets, and on what else is found by its name: stores and servers."""
    sections = ["## Targets"]
    for name in registry.names("targets"):
        sections += [_about("targets", name, "###"), _options("targets", name)]
    for kind, title in (("stores", "Stores"), ("servers", "Servers")):
        sections += [f"## {title}", *(_about(kind, name, "###") for name in registry.names(kind))]
    return document(
        "Targets, stores, servers",
        "A target is the system under test: a name in `target`, or a name with its options. A store is a layout of "
        "saved records, which faults damage and the harness reads back; a strategy names its own. A server is what a "
        "strategy `needs`. An agent of your own: [Test your own agent](../how-to/own-agent.md).",
        *sections,
    )


def _about(kind: str, name: str, level: str = "##") -> str:
    """Return the heading of a plug-in and what its module and its class say."""
    cls = registry.load(kind, name)
    module = inspect.getdoc(inspect.getmodule(cls)) or ""
    return f"{level} {name}\n\n{prose(module)}\n\n{prose(cls.__doc__ or '')}"


def _options(kind: str, name: str) -> str:
    return fields(options.model_of(registry.load(kind, name)).model_json_schema(mode="serialization"))


def _fields(cls: type) -> str:
    """Return the fields of a dataclass whose values are Python's, with the types as they are written."""
    docs = options.field_docs(cls)
    rows = [
        (code(field.name), code(str(field.type)), _default(field), sentence(prose(docs.get(field.name, ""))))
        for field in dataclasses.fields(cls)
    ]
    return table(HEADER, rows)


def _default(field: dataclasses.Field[object]) -> str:
    return "" if field.default is dataclasses.MISSING else code(repr(field.default))
