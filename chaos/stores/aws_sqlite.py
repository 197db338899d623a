"""A durable execution in the SQLite store of AWS's local runner: its completed operations are the deltas."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from chaos.durable import Durable
from chaos.stores import Delta, Plain
from chaos.stores._sqlite import opened

DATABASE = "aws.sqlite"
OPERATIONS = b'"Operations": ['
_COMMA = b", "


@dataclass(frozen=True)
class AwsSqlite(Plain):
    """The steps among the `Operations` of the execution, as the bytes that they take up of its one JSON value.

    A resume reads all of them; the copy of each among the `Updates` it does not. Damage that breaks the JSON breaks
    the execution as a whole: then no delta is left to be found. A missing step is run again, and of two with the same
    id only one counts.
    """

    whole: ClassVar[str] = "the runner closes its database after each write, which leaves no log that could be torn"

    def deltas(self, durable: Durable) -> tuple[Delta, ...]:
        spans = _steps(_text(durable))
        return tuple(Delta(order, order, span.end - span.start, True) for order, span in enumerate(spans))

    def read(self, durable: Durable, delta: Delta) -> bytes:
        text = _text(durable)
        spans = _steps(text)
        return text[slice(*spans[delta.row])] if delta.row < len(spans) else b""

    def write(self, durable: Durable, delta: Delta, data: bytes) -> None:
        text = _text(durable)
        span = _steps(text)[delta.row]
        _store(durable, text[: span.start] + data + text[span.end :])

    def delete(self, durable: Durable, delta: Delta) -> None:
        text = _text(durable)
        span = _steps(text)[delta.row]  # never the first operation: that is the execution itself
        _store(durable, text[: span.start].removesuffix(_COMMA) + text[span.end :])

    def duplicate(self, durable: Durable, delta: Delta) -> None:
        text = _text(durable)
        span = _steps(text)[delta.row]
        _store(durable, text[: span.end] + _COMMA + text[slice(*span)] + text[span.end :])


class _Span(NamedTuple):
    start: int
    end: int


def _steps(text: bytes) -> list[_Span]:
    """Return where in *text* the completed steps are; nowhere if it is not JSON any more."""
    try:
        written = text.decode("ascii")  # by `json.dumps`: a place in the text is a place in the bytes
        json.loads(written)
        place = written.index(OPERATIONS.decode()) + len(OPERATIONS)
    except ValueError:
        return []
    decoder, spans = json.JSONDecoder(), []
    while written[place] != "]":
        operation, end = decoder.raw_decode(written, place)
        if operation.get("Type") == "STEP" and operation.get("Status") == "SUCCEEDED":
            spans.append(_Span(place, end))
        place = end + len(_COMMA) if written.startswith(", ", end) else end
    return spans


def _text(durable: Durable) -> bytes:
    """Return the execution as it is stored, b"" if there is none."""
    if not (durable.folder / DATABASE).exists():
        return b""
    with opened(durable.folder / DATABASE) as database:
        if not database.execute("SELECT 1 FROM sqlite_master WHERE name = 'executions'").fetchone():
            return b""  # killed before the store had made its table
        found = database.execute("SELECT CAST(data AS BLOB) FROM executions").fetchone()
    return found[0] if found else b""


def _store(durable: Durable, text: bytes) -> None:
    # The cast keeps the bytes as they are, also where they are no text any more.
    with opened(durable.folder / DATABASE) as database:
        database.execute("UPDATE executions SET data = CAST(? AS TEXT)", (text,))
