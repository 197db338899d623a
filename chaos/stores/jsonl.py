"""An append-only log of JSON lines: each line is a delta, and all are read on resume."""

from __future__ import annotations

from dataclasses import dataclass

from chaos.durable import Durable
from chaos.stores import Delta

LOG = "history.jsonl"


@dataclass(frozen=True)
class Jsonl:
    """The lines of `history.jsonl`; the line break does not belong to the delta."""

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


def _lines(durable: Durable) -> list[bytes]:
    path = durable.folder / LOG
    return path.read_bytes().split(b"\n")[:-1] if path.exists() else []


def _store(durable: Durable, lines: list[bytes]) -> None:
    (durable.folder / LOG).write_bytes(b"".join(line + b"\n" for line in lines))
