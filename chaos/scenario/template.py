"""Expressions in scenarios: `${{ vars.n * 2 }}`, `${{ fake.company() }}`, `${{ here }}`, the scenario's folder.

Parsed first, rendered after: the file is YAML for every editor, lines stay true, and no value can change the
structure around it. A text that is nothing but one expression keeps the expression's type.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from jinja2 import StrictUndefined, TemplateError, TemplateSyntaxError, Undefined
from jinja2.sandbox import SandboxedEnvironment
from pydantic import JsonValue

from chaos import seeds
from chaos.errors import Kind, ScenarioError, UnknownName, did_you_mean
from chaos.scenario.positions import Loc, Problems

if TYPE_CHECKING:
    from faker import Faker

OPEN, CLOSE = "${{", "}}"
MAX_TEXT = 10_000  # characters that one expression may give; more is a runaway loop


class Vars:
    """The scenario's `vars`, read as attributes in expressions."""

    def __init__(self, values: Mapping[str, JsonValue]) -> None:
        self._values = values

    def __getattr__(self, name: str) -> JsonValue:
        if name.startswith("_"):
            raise AttributeError(name)
        return self[name]

    def __getitem__(self, name: str) -> JsonValue:
        if name not in self._values:
            raise UnknownName(f"no variable {name!r}; {did_you_mean(name, self._values)}")
        return self._values[name]


class Renderer:
    """Renders the strings of one scenario in *folder*; *seed* is where its made-up data come from.

    Without a seed one is drawn on first use of `fake`, and stands in `seed` afterwards.
    """

    def __init__(self, scenario: str, seed: int | None, folder: Path = Path()) -> None:
        self.seed = seed
        self._scenario = scenario
        self._vars: dict[str, JsonValue] = {}
        # Jinja's NativeEnvironment would guess types by literal_eval and make the text "1.10" a number, so a
        # lone expression is evaluated as one instead. Block tags are moved out of the way of shell text.
        self._jinja = SandboxedEnvironment(
            variable_start_string=OPEN,
            variable_end_string=CLOSE,
            block_start_string="${%",
            block_end_string="%}",
            comment_start_string="${#",
            comment_end_string="#}",
            undefined=StrictUndefined,
            keep_trailing_newline=True,
        )
        own = {"vars": Vars(self._vars), "here": str(folder.absolute())}
        self._jinja.globals = {**own, "range": self._jinja.globals["range"]}

    @cached_property
    def _fake(self) -> Faker:
        from faker import Faker  # slow to import, and most scenarios make nothing up

        if self.seed is None:
            self.seed = seeds.fresh()
        fake = Faker()
        fake.seed_instance(seeds.derive(self.seed, self._scenario, "fake"))
        return fake

    def document(self, tree: Mapping[str, JsonValue], problems: Problems) -> dict[str, JsonValue]:
        """Return *tree* with every expression replaced by its value; `vars` first, each seeing those above it."""
        given = tree.get("vars")
        if isinstance(given, dict):
            for name, value in given.items():
                self._vars[name] = self._value(value, ("vars", name), problems)
        rendered = {key: self._value(value, (key,), problems) for key, value in tree.items() if key != "vars"}
        return (
            {**rendered, "vars": dict(self._vars)} if isinstance(given, dict) else {**rendered, **_only(tree, "vars")}
        )

    def _value(self, value: JsonValue, loc: Loc, problems: Problems) -> JsonValue:
        if isinstance(value, dict):
            return {key: self._value(child, (*loc, key), problems) for key, child in value.items()}
        if isinstance(value, list):
            return [self._value(child, (*loc, index), problems) for index, child in enumerate(value)]
        if not isinstance(value, str) or OPEN not in value:
            return value
        try:
            return self.text(value)
        except ScenarioError as error:
            problems.spoil(loc, str(error), Kind.EXPRESSION)
            return value

    def text(self, source: str) -> JsonValue:
        """Return the value of *source*; raise ScenarioError if an expression is wrong."""
        try:
            self._jinja.globals |= {"fake": self._fake} if "fake" in source else {}
            expression = self._lone_expression(source)
            if expression is None:
                return _plain(self._jinja.from_string(source).render(), source)
            found = self._jinja.compile_expression(expression, undefined_to_none=False)()
            if isinstance(found, Undefined):
                str(found)  # raises UndefinedError with the name
            return _plain(found, source)
        except ScenarioError:
            raise
        except TemplateSyntaxError as error:
            raise ScenarioError(f"not an expression: {error.message}") from error
        except TemplateError as error:
            unknown = "is undefined" in str(error)
            names = did_you_mean(str(error).split("'")[1], ["vars", "fake", "here"]) if unknown else ""
            raise ScenarioError(f"{error}; {names}" if names else str(error)) from error
        except Exception as error:  # an expression can raise anything
            raise ScenarioError(f"the expression fails with {type(error).__name__}: {error}") from error

    def _lone_expression(self, source: str) -> str | None:
        tokens = list(self._jinja.lex(source.strip()))
        kinds = [kind for _, kind, _ in tokens]
        if kinds.count("variable_begin") != 1 or kinds[0] != "variable_begin" or kinds[-1] != "variable_end":
            return None
        return "".join(text for _, _, text in tokens[1:-1])


def _only(tree: Mapping[str, JsonValue], key: str) -> dict[str, JsonValue]:
    return {key: tree[key]} if key in tree else {}


def _plain(value: object, source: str) -> JsonValue:
    """Return *value* as what YAML could have said; raise ScenarioError for other objects."""
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, str):
        if len(value) > MAX_TEXT:
            raise ScenarioError(f"the expression gives {len(value)} characters; {MAX_TEXT} are allowed")
        return str(value)
    if isinstance(value, list | tuple):
        return [_plain(item, source) for item in value]
    if isinstance(value, Mapping):
        return {str(key): _plain(item, source) for key, item in value.items()}
    raise ScenarioError(f"{source} gives a {type(value).__name__}; turn it into text with `| string`")
