"""An append-only log of JSON lines: each line is a delta, and all are read on resume."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from chaos.durable import Durable
from chaos.stores import Delta, Plain, Tail

LOG = "history.jsonl"
FRESH = f"{LOG}.new"
"""The whole log, written anew: it takes the place of the log when it is done."""


@dataclass(frozen=True)
class Jsonl(Plain):
    """The lines of `history.jsonl`; the line break does not belong to the delta."""

    whole: ClassVar[str] = ""

    def deltas(self, durable: Durable) -> tuple[Delta, ...]:
        return tuple(Delta(order, order, len(line), True) for order, line in enumerate(_lines(durable)))

    def read(self, durable: Durable, delta: Delta) -> bytes:
        lines = _lines(durable)
        return lines[delta.row] if delta.row < len(lines) else b""

    def write(self, durable: Durable, delta: Delta, data: bytes) -> None:
        lines = _lines(durable)
        lines[delta.row] = data
        _store(durable, lines)

    def delete(self, durable: Durable, delta: Delta) -> None:
        lines = _lines(durable)
        del lines[delta.row]
        _store(durable, lines)

    def duplicate(self, durable: Durable, delta: Delta) -> None:
        lines = _lines(durable)
        lines.insert(delta.row, lines[delta.row])
        _store(durable, lines)

    def tail(self, durable: Durable) -> Tail | None:
        # A log that is being written anew is the last write; the one that it would replace is untouched.
        path = next((path for name in (FRESH, LOG) if (path := durable.folder / name).exists()), None)
        if path is None:
            return None
        data = path.read_bytes()
        return Tail(path, data.removesuffix(b"\n").rfind(b"\n") + 1, len(data))


def _lines(durable: Durable) -> list[bytes]:
    path = durable.folder / LOG
    return path.read_bytes().split(b"\n")[:-1] if path.exists() else []


def _store(durable: Durable, lines: list[bytes]) -> None:
    (durable.folder / LOG).write_bytes(b"".join(line + b"\n" for line in lines))
