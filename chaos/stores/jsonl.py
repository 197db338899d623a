"""An append-only log of JSON lines: each line is a delta, and all are read on resume."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from chaos.stores import Delta

LOG = "history.jsonl"


@dataclass(frozen=True)
class Jsonl:
    """The lines of `history.jsonl`; the line break does not belong to the delta."""

    def deltas(self, durable: Path) -> tuple[Delta, ...]:
        return tuple(Delta(order, order, len(line), True) for order, line in enumerate(_lines(durable)))

    def read(self, durable: Path, delta: Delta) -> bytes:
        lines = _lines(durable)
        return lines[delta.row] if delta.row < len(lines) else b""

    def write(self, durable: Path, delta: Delta, data: bytes) -> None:
        lines = _lines(durable)
        lines[delta.row] = data
        _store(durable, lines)

    def delete(self, durable: Path, delta: Delta) -> None:
        lines = _lines(durable)
        del lines[delta.row]
        _store(durable, lines)

    def duplicate(self, durable: Path, delta: Delta) -> None:
        lines = _lines(durable)
        lines.insert(delta.row, lines[delta.row])
        _store(durable, lines)


def _lines(durable: Path) -> list[bytes]:
    path = durable / LOG
    return path.read_bytes().split(b"\n")[:-1] if path.exists() else []


def _store(durable: Path, lines: list[bytes]) -> None:
    (durable / LOG).write_bytes(b"".join(line + b"\n" for line in lines))
