"""From plain values to the typed parts of a scenario, part by part, so that every problem is found."""

from __future__ import annotations

import dataclasses
import difflib
import json
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TypeVar, cast

from pydantic import BaseModel, JsonValue, ValidationError

from chaos import registry
from chaos.errors import Kind, ScenarioError, UnknownName, did_you_mean
from chaos.faults import Fault
from chaos.scenario import FaultSpec, StrategySpec, messages, options, placing, varying
from chaos.scenario.positions import Loc, Problems
from chaos.scenario.schema import At, FaultPart, Named, parse_named
from chaos.targets import Strategy, Target

_M = TypeVar("_M", bound=BaseModel)

FAULT_KEYS = tuple(FaultPart.model_fields)


@dataclass
class Reader:
    """Reads the parts of one file; what is wrong goes to *problems*, and None comes back."""

    problems: Problems
    target: Target | None = None
    steps: int | None = None

    def part(self, model: type[_M], raw: JsonValue, loc: Loc) -> _M | None:
        """Return *raw* as *model*."""
        if not isinstance(raw, dict):
            self._not_a_mapping(raw, loc)
            return None
        try:
            # As JSON, so that strict still takes a list for a tuple.
            found = model.model_validate_json(json.dumps(self._without_nulls(raw, loc)))
        except ValidationError as error:
            self._report(error, loc, list(model.model_fields), raw)
            return None
        return None if None in raw.values() else found

    def read_target(self, raw: JsonValue, loc: Loc) -> None:
        """Set the target, and the number of its steps where that is known."""
        named = self._named(raw, loc)
        if named is None:
            return
        cls = self._load("targets", named, raw, loc)
        if cls is None:
            return
        made = self._build(cls, named, raw, loc)
        if made is not None:
            self.target = cast(Target, made[0])
            self.steps = self.target.steps
            return
        try:
            self.target = cast(Target, cls())  # with defaults it still knows its strategies
        except (TypeError, ScenarioError, ValueError):
            return

    def strategy(self, raw: JsonValue, loc: Loc) -> StrategySpec | None:
        """Return one item of `strategies`."""
        named = self._named(raw, loc)
        if named is None or self.target is None:
            return None
        where = self._inside(raw, loc, named)
        given: Mapping[str, object] = named.options
        try:
            cls = self._class_of_strategy(self.target, named.name)
            if cls is not None:
                made = self._build(cls, named, raw, loc)
                if made is None:
                    return None
                given = made[1]
            strategy: Strategy = self.target.strategy(named.name, given)
        except UnknownName as error:
            self.problems.add(where, str(error), Kind.UNKNOWN_NAME, key=True)
            return None
        except (TypeError, ValueError, ScenarioError) as error:
            self._refused(error, named, where)
            return None
        return StrategySpec(label_of(named), named.name, strategy)

    def _class_of_strategy(self, target: Target, name: str) -> type | None:
        """Return the dataclass of *target*'s strategy *name*; None leaves it to the target to judge the options."""
        try:
            cls = type(target.strategy(name, {}))
        except UnknownName:
            raise
        except (TypeError, ValueError, ScenarioError):
            return None  # it cannot be had without options
        return cls if dataclasses.is_dataclass(cls) else None

    def fault(self, raw: JsonValue, loc: Loc, *, first: bool = True, searched: bool = False) -> FaultSpec | None:
        """Return one item of `faults` or `then`; *first*: none comes before it, *searched*: it is one of a search."""
        if not isinstance(raw, dict):
            self._not_a_mapping(raw, loc, "a fault is a mapping that begins with `kind:`")
            return None
        known = len(self.problems)
        rest = {key: value for key, value in raw.items() if key not in FAULT_KEYS}
        # A misspelt `kind` goes with the common keys, where it is unknown; there are no options without a kind.
        near = [] if "kind" in raw else difflib.get_close_matches("kind", rest, n=1)
        common = {key: value for key, value in raw.items() if key in FAULT_KEYS or key in near}
        part = self.part(FaultPart, common, loc)
        at = self.part(At, raw.get("at", {}), (*loc, "at"))
        if at is not None:
            for key, message in placing.problems(at, self.steps, first):
                self.problems.add((*loc, "at", key), message, Kind.PLACE)
        made = self._fault_itself(raw.get("kind"), rest, loc)
        searched = searched or (at is not None and at.explore == "search")
        vary = self._vary(part.vary, made, loc, searched) if part is not None else ()
        following = raw.get("then")
        then = [
            self.fault(item, (*loc, "then", index), first=False, searched=searched)
            for index, item in enumerate(following if isinstance(following, list) else [])
        ]
        if len(self.problems) > known or part is None or at is None or made is None:
            return None
        further = tuple(spec for spec in then if spec is not None)
        return FaultSpec(part.name or part.kind, part.kind, made, placing.explorer(at, first), further, vary)

    def _vary(self, raw: dict[str, JsonValue], made: Fault | None, loc: Loc, searched: bool) -> varying.Vary:
        if raw and not searched:
            message = "'vary' is for a search; its first fault has `at: {explore: search}`"
            self.problems.add((*loc, "vary"), message, Kind.PLACE)
        found, wrong = varying.parse(made, raw) if made is not None else ((), [])
        for inner, message, key in wrong:
            kind = Kind.UNKNOWN_FIELD if key else Kind.VALUE
            self.problems.add((*loc, "vary", *inner), message, kind, key=key)
        return found

    def _fault_itself(self, kind: JsonValue, rest: dict[str, JsonValue], loc: Loc) -> Fault | None:
        if not isinstance(kind, str):
            return None
        named = Named(kind, rest)
        cls = self._load("faults", named, kind, (*loc, "kind"))
        made = self._build(cls, named, kind, loc) if cls is not None else None
        return cast(Fault, made[0]) if made is not None else None

    def names(self, raw: JsonValue, loc: Loc, known: Collection[str], what: str) -> None:
        """Report the items of the list *raw* that are not among *known*, or are there twice."""
        seen: set[str] = set()
        for index, name in enumerate(raw if isinstance(raw, list) else []):
            if not isinstance(name, str):
                continue
            if name not in known:
                message = f"no {what} {name!r}; {did_you_mean(name, known)}"
                self.problems.add((*loc, index), message, Kind.UNKNOWN_NAME)
            elif name in seen:
                self.problems.add((*loc, index), f"{name!r} is there twice", Kind.DUPLICATE)
            seen.add(name)

    def _named(self, raw: JsonValue, loc: Loc) -> Named | None:
        try:
            return parse_named(raw)
        except ValueError as error:
            empty = f"{loc[-1]!r} has no value; {error}" if raw is None and isinstance(loc[-1], str) else str(error)
            self.problems.add(loc, empty, Kind.NO_VALUE if raw is None else Kind.TYPE)
            return None

    def _load(self, kind: str, named: Named, raw: JsonValue, loc: Loc) -> type | None:
        try:
            return registry.load(kind, named.name)
        except UnknownName:
            names = registry.names(kind)
            message = f"unknown {kind.removesuffix('s')} {named.name!r}; {did_you_mean(named.name, names)}"
            where = self._inside(raw, loc, named)
            self.problems.add(where, message, Kind.UNKNOWN_NAME, key=isinstance(raw, dict))
            return None

    def _build(self, cls: type, named: Named, raw: JsonValue, loc: Loc) -> tuple[object, dict[str, object]] | None:
        """Return *cls* made from the options of *named*, which stand at *loc* or one level below it."""
        where = self._inside(raw, loc, named)
        try:
            made = options.build(cls, self._without_nulls(named.options, where))
        except ValidationError as error:
            known = [*options.keys(cls), *(FAULT_KEYS[1:] if "faults" in loc else ())]
            self._report(error, where, known, named.options)
        except (TypeError, ValueError, ScenarioError) as error:
            self._refused(error, named, where)
        else:
            return None if None in named.options.values() else made
        return None

    def _inside(self, raw: JsonValue, loc: Loc, named: Named) -> Loc:
        return (*loc, named.name) if isinstance(raw, dict) else loc

    def _without_nulls(self, raw: dict[str, JsonValue], loc: Loc) -> dict[str, JsonValue]:
        for key, value in raw.items():
            if value is None:
                message = f"{key!r} has no value; give it one or remove the key"
                self.problems.add((*loc, key), message, Kind.NO_VALUE, key=True)
        return {key: value for key, value in raw.items() if value is not None}

    def _not_a_mapping(self, raw: JsonValue, loc: Loc, form: str = "") -> None:
        if raw is not None:
            self.problems.add(loc, form or f"must be a mapping (key: value), not {messages.named(raw)}", Kind.TYPE)
        elif form or not isinstance(loc[-1], str):
            self.problems.add(loc, form or "has no value", Kind.NO_VALUE)

    def _report(self, error: ValidationError, loc: Loc, known: Collection[str], raw: Mapping[str, JsonValue]) -> None:
        for inner, message, key, kind in messages.problems_of(error, known):
            missing = re.match(r"'(\w+)' is required", message)
            if missing is None or missing[1] not in raw:  # what has no value is told already
                self.problems.add((*loc, *inner), message, kind, key=key)

    def _refused(self, error: Exception, named: Named, loc: Loc) -> None:
        """Report what a plug-in says against its options, each line at the option that it speaks of."""
        for line in str(error).splitlines() or [type(error).__name__]:
            about = [key for key in named.options if re.search(rf"\b{re.escape(key)}\b", line)]
            self.problems.add((*loc, *about[:1]), line, Kind.REFUSED_OPTION)


def label_of(named: Named) -> str:
    """Return the name and the options given, as in "delta:every=5"."""
    given = ",".join(
        f"{key}={value if isinstance(value, str) else json.dumps(value)}" for key, value in named.options.items()
    )
    return f"{named.name}:{given}" if given else named.name
