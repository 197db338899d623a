"""What a lease has on a Redis server, kept and put back: each key with its value and what is left of its time.

A value is kept as DUMP has it, and fetched only if it is another one than last time. Of a list whose beginning is what
it was then, only the new end is fetched and kept. That it is the same, the server itself finds out, by SHA-1.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b, sha1
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from chaos.servers._aside import Aside, Piece

if TYPE_CHECKING:
    from redis import Redis as Client

PUSHED = 1000  # entries that go back by one command
NEVER = -1  # what PTTL says of a key that does not expire

# For each key: its type, the milliseconds that it has left, and what tells its value from others. The order in which
# DUMP has what has none is no part of that.
LOOK = """
local function text(key, kind)
    if kind ~= 'set' and kind ~= 'hash' then
        return redis.call('DUMP', key)
    end
    local flat, parts, step = redis.call(kind == 'set' and 'SMEMBERS' or 'HGETALL', key), {}, kind == 'set' and 1 or 2
    for first = 1, #flat, step do
        local value = flat[first + step - 1]
        parts[#parts + 1] = #flat[first] .. ':' .. flat[first] .. #value .. ':' .. value
    end
    table.sort(parts)
    return table.concat(parts)
end
local found = {}
for _, key in ipairs(KEYS) do
    local kind = redis.call('TYPE', key).ok
    if kind ~= 'none' then
        found[#found + 1] = {key, kind, redis.call('PTTL', key), redis.sha1hex(text(key, kind))}
    end
end
return found
"""
# The SHA-1 of a list's first entries, each behind its length (so that no two lists have the same text).
BEGINNING = """
local texts = {}
for _, entry in ipairs(redis.call('LRANGE', KEYS[1], 0, ARGV[1] - 1)) do
    texts[#texts + 1] = #entry .. ':' .. entry
end
return redis.sha1hex(table.concat(texts))
"""


class Seen(NamedTuple):
    """A key as the server shows it."""

    kind: str
    left: int
    digest: str


@dataclass(frozen=True, eq=False)
class Dump:
    """A value as DUMP has it."""

    data: Piece


@dataclass(frozen=True, eq=False)
class Entries:
    """A list: *new* after all that *earlier* has; *count* and *digest*, a SHA-1 (see BEGINNING), are of the whole."""

    earlier: Entries | None
    new: tuple[Piece, ...]
    count: int
    digest: Any  # hashlib has no name for its type

    def whole(self) -> list[bytes]:
        """Return all entries in order."""
        parts, part = list[tuple[Piece, ...]](), self
        while part is not None:
            parts.append(part.new)
            part = part.earlier  # type: ignore[assignment]
        return [entry.read() for new in reversed(parts) for entry in new]


class Key(NamedTuple):
    """One key as it was kept."""

    seen: Seen
    value: Dump | Entries


@dataclass(frozen=True, eq=False)
class KeptKeys:
    """The *keys* of a lease, and the bytes that the server had *written* for it by then; values are *aside*."""

    keys: Mapping[bytes, Key] = field(default_factory=dict)
    written: int = 0
    digest: str = ""
    aside: Aside = field(default_factory=Aside)


def keep(client: Client, names: Sequence[bytes], last: KeptKeys, written: int) -> KeptKeys:
    """Return the keys *names* as they are; what they share with the *last* time is fetched no second time."""
    keys = {}
    for name, seen in _look(client, names):
        known = last.keys.get(name)
        same = known is not None and known.seen[::2] == seen[::2]
        keys[name] = Key(seen, known.value if known and same else _fetched(client, name, seen, known, last.aside))
    text = "\n".join(f"{name.hex()} {key.seen.digest} {key.seen.left == NEVER}" for name, key in sorted(keys.items()))
    return KeptKeys(keys, written, blake2b(text.encode(), digest_size=16).hexdigest(), last.aside)


def put_back(client: Client, names: Sequence[bytes], kept: KeptKeys) -> None:
    """Make the keys *names*, which are all that there are, those of *kept*, at once."""
    here = dict(_look(client, names))
    with client.pipeline(transaction=True) as change:
        for name in here:
            if name not in kept.keys:
                change.unlink(name)
        for name, (seen, value) in kept.keys.items():
            if name not in here or here[name][::2] != seen[::2]:
                _write(change, name, value)
            if seen.left != NEVER:
                change.pexpire(name, max(1, seen.left))
            else:
                change.persist(name)
        change.execute()


def settle(client: Client) -> None:
    """Return when the server has taken in all that those had sent who are dead, and closed their connections.

    All of it is in the server's sockets before the second question is, and it answers what it finds there in one go.
    """
    client.ping()
    client.ping()


def _look(client: Client, names: Sequence[bytes]) -> Iterator[tuple[bytes, Seen]]:
    for name, kind, left, digest in client.eval(LOOK, len(names), *names) if names else ():
        yield name, Seen(kind.decode(), left, digest.decode())


def _fetched(client: Client, name: bytes, seen: Seen, known: Key | None, aside: Aside) -> Dump | Entries:
    if seen.kind != "list":
        return Dump(aside.put(client.dump(name) or b""))
    last = known.value if known and isinstance(known.value, Entries) else None
    if last is not None and client.eval(BEGINNING, 1, name, last.count).decode() != last.digest.hexdigest():
        last = None
    digest, count = (last.digest.copy(), last.count) if last else (sha1(), 0)
    new = cast("list[bytes]", client.lrange(name, count, -1))
    for entry in new:
        digest.update(b"%d:%b" % (len(entry), entry))
    return Entries(last, tuple(map(aside.put, new)), count + len(new), digest)


def _write(change: Client, name: bytes, value: Dump | Entries) -> None:
    change.unlink(name)
    if isinstance(value, Dump):
        change.restore(name, 0, value.data.read())
        return
    entries = value.whole()
    for first in range(0, len(entries), PUSHED):
        change.rpush(name, *entries[first : first + PUSHED])
