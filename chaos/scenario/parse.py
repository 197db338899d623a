"""YAML text to plain values and their places.

The node graph is walked here instead of letting ruamel.yaml construct Python objects: every key keeps its place,
every duplicate is found, and tags, anchors and cycles never become values.
"""

from __future__ import annotations

from typing import Any

from pydantic import JsonValue
from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode
from ruamel.yaml.reader import ReaderError

from chaos.errors import Kind
from chaos.scenario.positions import LINE_BREAKS, Loc, Mark, Problems

MAX_DEPTH = 32  # levels of nesting; a scenario has about six, and deeper ones exhaust the stack
STANDARD = "tag:yaml.org,2002:"
TEMPLATE_HINT = "; inside [ ] and { } put quotes around ${{ ... }}"


def parse(text: str, problems: Problems) -> JsonValue:
    """Return the plain value of *text*, None if there is none; what is wrong goes to *problems*."""
    yaml = YAML(typ="safe", pure=True)
    try:
        root = yaml.compose(text)
        if root is None:
            problems.add_at(Mark(0, 0), "the file is empty; a scenario begins with 'version: 1'", Kind.SYNTAX)
            return None
        return _Walk(problems, yaml.constructor).value(root, (), 0)
    except MarkedYAMLError as error:
        problems.add_at(*_syntax(error, text), Kind.SYNTAX)
    except ReaderError as error:
        before = LINE_BREAKS.split(text[: error.position])
        mark = Mark(len(before) - 1, len(before[-1]))
        problems.add_at(mark, "this character is not allowed in YAML", Kind.SYNTAX)
    except RecursionError:
        problems.add_at(Mark(0, 0), "nested too deeply for a scenario", Kind.SYNTAX)
    except (YAMLError, ValueError, ArithmeticError, LookupError, TypeError, AttributeError, AssertionError) as error:
        # ruamel.yaml leaks these for some broken escapes, directives and numbers.
        problems.add_at(Mark(0, 0), f"not YAML: {error}", Kind.SYNTAX)
    return None


def _syntax(error: MarkedYAMLError, text: str) -> tuple[Mark, str]:
    at = error.problem_mark or error.context_mark
    mark = Mark(at.line, at.column) if at else Mark(0, 0)
    message = error.problem or error.context or "not YAML"
    if "\\t" in message:
        message = "a tab cannot indent YAML; use spaces"
    elif "another document" in message:
        message = "a second document begins here; one file is one scenario"
    lines = LINE_BREAKS.split(text)
    if mark.line < len(lines) and "${{" in lines[mark.line]:
        message += TEMPLATE_HINT
    return mark, message


class _Walk:
    """One pass over the nodes of a document. *constructor* is ruamel's, for scalars only; it is untyped."""

    def __init__(self, problems: Problems, constructor: Any) -> None:
        self.problems = problems
        self.constructor = constructor

    def value(self, node: Node, loc: Loc, depth: int) -> JsonValue:
        """Return the plain value of *node* and note its place."""
        self.problems.marks.values[loc] = _mark(node)
        if node.anchor:
            # Not entered: an alias may point back to its own parent, or multiply without end.
            return self._none(loc, f"anchors and aliases (&{node.anchor}) are not used here; repeat it, or use vars")
        if depth > MAX_DEPTH:
            return self._none(loc, "nested too deeply for a scenario", Kind.SYNTAX)
        if isinstance(node, MappingNode) and node.tag == f"{STANDARD}map":
            return self._mapping(node, loc, depth)
        if isinstance(node, SequenceNode) and node.tag == f"{STANDARD}seq":
            return [self.value(child, (*loc, index), depth + 1) for index, child in enumerate(node.value)]
        return self._scalar(node, loc)

    def _none(self, loc: Loc, message: str, kind: Kind = Kind.UNUSED_YAML) -> JsonValue:
        self.problems.spoil(loc, message, kind)
        return None

    def _mapping(self, node: MappingNode, loc: Loc, depth: int) -> JsonValue:
        found: dict[str, JsonValue] = {}
        for key_node, child in node.value:
            mark = _mark(key_node)
            key = self._key(key_node, mark)
            if key is None:
                continue
            if key in found:
                first = self.problems.marks.keys[(*loc, key)]
                message = f"{key!r} is there twice; first in line {first.line + 1}"
                self.problems.add_at(mark, message, Kind.DUPLICATE)
                continue
            self.problems.marks.keys[(*loc, key)] = mark
            found[key] = self.value(child, (*loc, key), depth + 1)
        return found

    def _key(self, node: Node, mark: Mark) -> str | None:
        if isinstance(node, MappingNode):
            wrong = "a mapping cannot be a key; an expression is written ${{ ... }}, with the dollar"
        elif not isinstance(node, ScalarNode):
            wrong = "a list cannot be a key"
        elif node.anchor or node.tag == f"{STANDARD}merge":
            wrong = "anchors, aliases and merge keys are not used here; repeat the keys"
        elif node.tag != f"{STANDARD}str":
            wrong = f"keys are text; put {str(node.value) or 'this key'!r} in quotes if it is meant"
        elif not _storable(node.value):
            wrong = "half of a surrogate pair is no character"
        else:
            return str(node.value)
        self.problems.add_at(mark, wrong, Kind.UNUSED_YAML)
        return None

    def _scalar(self, node: Node, loc: Loc) -> JsonValue:
        match str(node.tag).removeprefix(STANDARD):
            case "null":
                return None
            case "bool":
                return bool(self.constructor.construct_yaml_bool(node))
            case "int" | "float" as kind:
                return self._number(node, kind, loc)
            case "str" | "timestamp" | "value" | "merge":
                if _storable(node.value):
                    return str(node.value)
                return self._none(loc, "half of a surrogate pair is no character")
            case tag:
                return self._none(loc, f"tags such as {tag if tag[:1] == '!' else f'!!{tag}'} are not used here")

    def _number(self, node: Node, kind: str, loc: Loc) -> JsonValue:
        try:
            if kind == "int":
                return int(self.constructor.construct_yaml_int(node))
            return float(self.constructor.construct_yaml_float(node))
        except (ValueError, ArithmeticError, IndexError):
            message = f"not a number: {str(node.value)[:20]!r}; put it in quotes if text is meant"
            return self._none(loc, message, Kind.VALUE)


def _mark(node: Node) -> Mark:
    return Mark(node.start_mark.line, node.start_mark.column)


def _storable(text: str) -> bool:
    """Tell whether *text* can be written as UTF-8, and so into results."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
