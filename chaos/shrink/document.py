"""A candidate as a scenario: complete, and with nothing in it that the failure does not need."""

from __future__ import annotations

import dataclasses
import json
import re
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path

from pydantic import JsonValue

from chaos import registry
from chaos.cell import Cell
from chaos.checks import Terms
from chaos.errors import HarnessError
from chaos.faults import Fault
from chaos.plan import COUNTED, PROCESS_PHASES, STEP_PHASES, SYSCALLS, Plan, PlannedFault, Point
from chaos.scenario import Limits, Scenario, StrategySpec
from chaos.scenario.parse import parse
from chaos.scenario.positions import Problems
from chaos.scenario.units import format_bytes, format_seconds
from chaos.shrink.candidate import Candidate, Hit
from chaos.shrink.fields import written
from chaos.targets import Target

WIDTH = 100  # columns of the text in a test file: what a page of code has
VARIANT = re.compile(r",(?=\w+=)")
"""What stands between the options in the label of a strategy."""

_PLAIN = re.compile(r"[A-Za-z$_][\w$./*-]*|\d+(?:\.\d+)?[A-Za-z]+")
_UNBROKEN = "\0"  # stands for a space; no text of YAML has it
_MEANT = re.compile(r"(?i)true|false|null|yes|no|on|off|y|n|\d+(?:\.\d+)?e\d*")  # to some reader of YAML something else


def document(cell: Cell, candidate: Candidate, seed: int) -> dict[str, JsonValue]:
    """Return the scenario of *cell* cut down to *candidate*, as plain values; HarnessError if it cannot be said."""
    scenario = cell.scenario
    found: dict[str, JsonValue] = {
        "version": 1,
        "scenario": scenario.name,
        "target": _named(target_name(candidate.target), written(candidate.target)),
        "strategies": [_strategy(cell.strategy)],
        "seed": seed,
        "faults": [_faults(candidate)],
        "expect": _expect(scenario),
        "expected_failures": _expected(cell),
        "limits": _limits(scenario.limits),
    }
    return {key: value for key, value in found.items() if value not in ({}, [])}


def plan_of(candidate: Candidate) -> Plan:
    """Return the plan of *candidate* with the labels that its faults have in its document."""
    return Plan(tuple(map(PlannedFault, labels(candidate.hits), (hit.point for hit in candidate.hits))))


def labels(hits: Sequence[Hit]) -> tuple[str, ...]:
    """Return the labels of *hits*: their own, with a number where another fault has the same."""
    taken: dict[str, Fault] = {}
    found = []
    for hit in hits:
        names = (hit.label, *(f"{hit.label}-{number}" for number in range(2, len(hits) + 2)))
        found.append(next(name for name in names if taken.setdefault(name, hit.fault) == hit.fault))
    return tuple(found)


def block(found: Mapping[str, JsonValue]) -> str:
    """Return *found* as YAML, a line for each key."""
    return "".join(f"{key}: {flow(value)}\n" for key, value in found.items())


def compact(found: Mapping[str, JsonValue]) -> str:
    """Return *found* as YAML in as few lines of WIDTH as it takes; a line for each key where that changes a text."""
    *most, last = (f"{key}: {flow(value)}" for key, value in found.items())
    lines = [""]
    for item in (f"{{{most[0]},", *(f"{item}," for item in most[1:]), f"{last}}}"):
        if lines[-1] and len(lines[-1]) + len(item) >= WIDTH:
            lines.append("")
        lines[-1] += f" {item}" if lines[-1] else item
    text = "".join(f"{part}\n" for line in lines for part in _broken(line))
    return text if parse(text, Problems(Path("found"))) == found else block(found)


def _broken(line: str) -> list[str]:
    """Return *line* in pieces of WIDTH that end behind a comma."""
    kept = re.sub("(?<!,) ", _UNBROKEN, line)
    pieces = textwrap.wrap(kept, WIDTH, break_long_words=False, break_on_hyphens=False)
    return [piece.replace(_UNBROKEN, " ") for piece in pieces]


def flow(value: JsonValue) -> str:
    """Return *value* as YAML in one line."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{flow(key)}: {flow(each)}" for key, each in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(flow, value)) + "]"
    if isinstance(value, str) and _PLAIN.fullmatch(value) and not _MEANT.fullmatch(value):
        return value
    return json.dumps(value)


def target_name(target: Target) -> str:
    """Return what scenarios call *target*."""
    for name in registry.names("targets"):
        if registry.load("targets", name) is type(target):
            return name
    raise HarnessError(f"the target {type(target).__name__} has no name that a scenario can say")


def _named(name: str, options: dict[str, JsonValue]) -> JsonValue:
    return {name: options} if options else name


def _strategy(spec: StrategySpec) -> JsonValue:
    """Return *spec* with its options as its label has them: the label is part of the seeds."""
    pairs = (pair.partition("=") for pair in VARIANT.split(spec.label.partition(":")[2]) if pair)
    return _named(spec.name, {key: _value(text) for key, _, text in pairs})


def _value(text: str) -> JsonValue:
    try:
        found: JsonValue = json.loads(text)
    except ValueError:
        return text
    return found


def _faults(candidate: Candidate) -> JsonValue:
    """Return the first fault with all others under its `then:`, each with the next one below it."""
    found: dict[str, JsonValue] = {}
    for label, hit in reversed(list(zip(labels(candidate.hits), candidate.hits, strict=True))):
        named: dict[str, JsonValue] = {"name": label} if label != hit.kind else {}
        then: dict[str, JsonValue] = {"then": [found]} if found else {}
        found = {"kind": hit.kind, **named, **written(hit.fault), "at": _at(hit.point), **then}
    return found


def _at(point: Point) -> JsonValue:
    """Return where `at:` is for *point*."""
    during: dict[str, JsonValue] = {"during": "recovery"} if point.recovery else {}
    if point.phase in STEP_PHASES and (point.step is not None or point.recovery):
        return {**during, **({} if point.step is None else {"step": point.step}), "phase": point.phase}
    if point.phase in PROCESS_PHASES:
        return {**during, "phase": point.phase}
    if point.phase in COUNTED and point.step is not None:
        return {**during, "syscall" if point.phase in SYSCALLS else "operation": point.phase, "n": point.step}
    raise HarnessError(f"a scenario has no words for the point {point}")


def _expect(scenario: Scenario) -> JsonValue:
    terms, default = scenario.terms, Terms()
    said = {
        "checks": None if set(scenario.checks) == set(registry.names("checks")) else list(scenario.checks),
        "effects": terms.effects if terms.effects != default.effects else None,
        **{
            name: getattr(terms, name)
            for name in ("max_lost_steps", "max_tokens_asked_again")
            if getattr(terms, name) != getattr(default, name)
        },
        "max_recovery": format_seconds(terms.max_recovery_seconds) if terms.max_recovery_seconds is not None else None,
        "volatile": list(scenario.volatile) or None,
    }
    return {name: value for name, value in said.items() if value is not None}


def _expected(cell: Cell) -> JsonValue:
    """Return what may break besides: in a single run none of it has to."""
    return [
        {
            "strategy": cell.strategy.label,
            "may_break": [*each.breaks, *each.may_break],
            "because": each.because,
            **({"issue": each.issue} if each.issue else {}),
        }
        for each in cell.scenario.expectation(cell.strategy, cell.fault)
    ]


def _limits(limits: Limits) -> JsonValue:
    default = Limits()
    written_as = {"backoff_limit": int, "memory_bytes": format_bytes}
    changed = {
        field.name: getattr(limits, field.name)
        for field in dataclasses.fields(limits)
        if getattr(limits, field.name) != getattr(default, field.name)
    }
    return {
        re.sub("_(seconds|bytes)$", "", name): written_as.get(name, format_seconds)(value)  # type: ignore[operator]
        for name, value in changed.items()
    }
