"""A scenario in a Python file: the values of its mark as plain ones, and where each is written."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePath
from typing import Any, TypeGuard

from pydantic import JsonValue

from chaos.errors import Kind
from chaos.scenario.positions import Loc, Mark, Marks, Problems


class InPython(Problems):
    """Collects what is wrong with a mark in the test file *path*, *line* (from 1): each is told with its key."""

    def __init__(self, path: Path, line: int) -> None:
        source = path.read_text(encoding="utf-8", errors="replace")
        super().__init__(path, source)
        self.marks = places(source, line)

    def add(self, loc: Loc | Any, message: str, kind: Kind = Kind.VALUE, *, key: bool = False) -> None:
        way = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in loc).removeprefix(".")
        super().add(loc, f"{way}: {message}" if way else message, kind, key=key)


def places(source: str, line: int) -> Marks:
    """Return where the keys and values of the mark are in *source*: those that are written where the mark is.

    Args:
        line: of the function's or the class's first decorator, from 1, or 1 for the whole module; whatever is not found
            is said to be there.
    """
    marks = Marks(values={(): Mark(line - 1, 0)})
    lines = source.splitlines()

    def place(node: ast.AST) -> Mark:
        row, column = getattr(node, "lineno", line) - 1, getattr(node, "col_offset", 0)
        before = lines[row].encode()[:column] if row < len(lines) else b""  # the parser counts bytes
        return Mark(row, len(before.decode(errors="replace")))

    def note(node: ast.AST, loc: Loc) -> None:
        marks.values[loc] = place(node)
        if isinstance(node, ast.Dict):
            for key, value in zip(node.keys, node.values, strict=True):
                if isinstance(key, ast.Constant) and isinstance(key.value, str):
                    marks.keys[(*loc, key.value)] = place(key)
                    note(value, (*loc, key.value))
        elif isinstance(node, ast.List | ast.Tuple):
            for index, item in enumerate(node.elts):
                note(item, (*loc, index))

    for call in _marks(ast.parse(source), line):
        marks.values[()] = place(call)
        for word in call.keywords:
            if word.arg:
                marks.keys[(word.arg,)] = place(word)
                note(word.value, (word.arg,))
    return marks


def _marks(tree: ast.Module, line: int) -> Iterator[ast.Call]:
    """Yield the marks `chaos` of what begins in *line*: a function, a class, or the whole module."""
    for node in ast.walk(tree):
        decorators = getattr(node, "decorator_list", ())
        if decorators and decorators[0].lineno == line:
            yield from filter(_is_ours, decorators)
    for node in tree.body if line == 1 else ():
        if isinstance(node, ast.Assign) and any(getattr(each, "id", "") == "pytestmark" for each in node.targets):
            yield from filter(_is_ours, node.value.elts if isinstance(node.value, ast.List) else (node.value,))


def _is_ours(node: ast.expr) -> TypeGuard[ast.Call]:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "chaos"


def plain(value: object, loc: Loc, problems: Problems) -> JsonValue:
    """Return *value*, which stands at *loc*, as what YAML could have said: tuples as lists, paths as text."""
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, str | PurePath):
        return str(value)
    if isinstance(value, list | tuple):
        return [plain(item, (*loc, index), problems) for index, item in enumerate(value)]
    if not isinstance(value, Mapping):
        problems.spoil(
            loc, f"a {type(value).__name__} is nothing that YAML has; write text, numbers and lists", Kind.TYPE
        )
        return None
    for key in value:
        if not isinstance(key, str):
            problems.add(loc, f"keys are text, not {key!r}", Kind.TYPE)
    return {str(key): plain(item, (*loc, str(key)), problems) for key, item in value.items()}
