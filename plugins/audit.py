"""`pytest-chaos audit PATH|URL THREAD`: is a stored LangGraph thread whole? Says what it cannot see as well."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from chaos.audit import Audit

OK, DAMAGED, WRONG_INPUT = 0, 1, 2


def run(options: argparse.Namespace) -> int:
    """Print what is found, and return the exit code."""
    from chaos import audit

    place = audit.shown(options.place)
    if options.thread is None:
        names = audit.threads(options.place)
        _show(options.format, {"place": place, "threads": names}, names or ("no threads",))
        return WRONG_INPUT  # nothing was audited: that must not look like a pass
    found = audit.audit(options.place, options.thread)
    _show(options.format, {"place": place, **asdict(found)}, _lines(found))
    return DAMAGED if found.findings else OK


def _show(format_: str, value: Mapping[str, object], lines: Iterable[str]) -> None:
    print(json.dumps(value) if format_ == "json" else "\n".join(lines))


def _lines(found: Audit) -> Iterable[str]:
    yield from map(str, found.findings)
    damage = f"{len(found.findings)} pieces of damage" if len(found.findings) != 1 else "1 piece of damage"
    spaces = f" in {found.namespaces} namespaces" if found.namespaces > 1 else ""
    yield f"thread {found.thread}: {found.checkpoints} checkpoints, {found.writes} writes{spaces}: {damage}"
    yield "what cannot be seen from what is stored:"
    yield from (f"  - {one}" for one in found.blind)
