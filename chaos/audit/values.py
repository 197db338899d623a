"""Stored values, opened without making the objects that they stand for: no class is imported, no code of them runs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import NamedTuple

from chaos.audit import AuditError
from chaos.audit.stored import Content, Key

# Extension types of LangGraph's serializer (langgraph-checkpoint 4.3, serde/jsonplus.py): objects, as a module, a name
# and arguments in msgpack, or an array; and the snapshot of a delta channel, around its value.
OBJECTS = range(7)
SNAPSHOT = 7


class Undecodable(Exception):
    """Bytes that are not what their type says."""


class Sealed(Exception):
    """Bytes that only their owner can open: encrypted, or pickled, which would run code."""


class Snapshot(NamedTuple):
    """The whole value of a delta channel."""

    value: object


def decoded(kind: str | None, data: bytes | None) -> object:
    """Return the value of *data*, of the type *kind*; an object is the tuple that it would be made from.

    Raises:
        Undecodable: LangGraph could not decode it either.
        Sealed: it cannot be looked into.
    """
    if kind == "null":
        if data:
            raise Undecodable(f"{len(data)} bytes where the type says that there is no value")
        return None
    if data is None:
        raise Undecodable("no bytes")
    if kind in ("bytes", "bytearray"):
        return data
    if kind == "pickle" or "+" in (kind or ""):
        raise Sealed
    if kind == "msgpack":
        return _unpacked(data)
    if kind == "json":
        return from_json(data)
    raise Undecodable(f"no such type: {kind!r}")


def from_json(data: bytes | str) -> object:
    """Return the value of the JSON text *data*.

    Raises:
        Undecodable: it is none.
    """
    try:
        value: object = json.loads(data)
    except ValueError as error:
        raise Undecodable(f"not JSON ({error})") from None
    return value


def _unpacked(data: bytes) -> object:
    try:
        import ormsgpack
    except ImportError:
        raise AuditError("no msgpack decoder: pip install 'pytest-chaos[strategies]'") from None

    def opened(code: int, inner: bytes) -> object:
        value = _unpacked(inner) if code in OBJECTS or code == SNAPSHOT else inner
        return Snapshot(value) if code == SNAPSHOT else value

    try:
        value: object = ormsgpack.unpackb(data, ext_hook=opened, option=ormsgpack.OPT_NON_STR_KEYS)
    except (ValueError, TypeError) as error:
        raise Undecodable(str(error)) from None
    return value


def content(id: str, value: object, metadata: Mapping[str, object], stored: frozenset[Key] | None) -> Content:
    """Return what the checkpoint *value* of the row *id* says.

    Args:
        stored: what PostgreSQL keeps in rows of their own; None where the checkpoint has all of its values.

    Raises:
        Undecodable: it is no checkpoint, or that of another row.
    """
    if not isinstance(value, dict) or not isinstance(value.get("channel_versions"), dict):
        raise Undecodable("its value is no checkpoint")
    if value.get("id") != id:
        raise Undecodable(f"its value is that of checkpoint {value.get('id')}")
    versions = {str(channel): str(version) for channel, version in value["channel_versions"].items()}
    inline = _mapping(value.get("channel_values"))
    seen = (_mapping(of_node) for of_node in _mapping(value.get("versions_seen")).values())
    apart = {channel for channel, version in versions.items() if Key(channel, version) in (stored or ())}
    updated = value.get("updated_channels")
    counters = _mapping(metadata.get("counters_since_delta_snapshot"))
    return Content(
        versions=versions,
        seen=frozenset(Key(str(channel), str(version)) for one in seen for channel, version in one.items()),
        values=frozenset(inline) | apart,
        snapshots=frozenset(channel for channel, held in inline.items() if isinstance(held, Snapshot)),
        marks=frozenset(channel for channel, held in inline.items() if held is True),
        updated=frozenset(map(str, updated)) if isinstance(updated, list) else frozenset(),
        updates={name: count[0] for name, count in counters.items() if isinstance(count, list) and _counts(count)},
    )


def _mapping(value: object) -> dict[str, object]:
    return value if isinstance(value, dict) else {}


def _counts(value: list[object]) -> bool:
    return bool(value) and isinstance(value[0], int)
