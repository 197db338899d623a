"""Addresses as they may be told: errors end up in logs and reports."""

from __future__ import annotations

import re

_PASSWORD = re.compile(r"(?<=:)[^:/@]*(?=@)")


def shown(address: str) -> str:
    """Return *address* without its password: "redis://me:secret@host" becomes "redis://me:***@host"."""
    return _PASSWORD.sub("***", address)
