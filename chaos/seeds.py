"""All randomness comes from one seed: derived seeds are hashes, so adding a cell changes no other."""

from __future__ import annotations

import hashlib
import random

SEED_BITS = 32  # short enough to be read aloud and typed again


def derive(seed: int, *parts: object) -> int:
    """Return the seed that belongs to *parts* under the base *seed*; stable over processes and versions."""
    text = "\x1f".join([str(seed), *map(str, parts)])
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[: SEED_BITS // 8], "big")


def rng(seed: int, *parts: object) -> random.Random:
    """Return a generator of its own for *parts* under the base *seed*."""
    return random.Random(derive(seed, *parts))


def fresh() -> int:
    """Return a new base seed from the operating system; it is always printed."""
    return random.SystemRandom().getrandbits(SEED_BITS)
