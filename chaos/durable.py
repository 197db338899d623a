"""What outlives the container: a folder, and a part of each server that the strategy keeps its state on.

The harness hands it to an incarnation in the environment, and to faults and stores as a value. Standard library only:
every incarnation of an agent imports it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

VARIABLE = "CHAOS_LEASES"
"""Environment variable with the leases of a run: server to [url, space], as JSON."""


class Lease(NamedTuple):
    """One run's own part of a server: *url* says where it is, *space* which part is its own.

    A database of PostgreSQL (the url names it already), a prefix of Redis' keys, a namespace of Temporal's workflows.
    """

    url: str
    space: str


@dataclass(frozen=True)
class Durable:
    """The durable *folder* of a sandbox and the *leases* of the run, by the name of the server."""

    folder: Path
    leases: Mapping[str, Lease] = field(default_factory=dict)


def environment(leases: Mapping[str, Lease]) -> dict[str, str]:
    """Return the variables by which an agent finds its *leases*."""
    return {VARIABLE: json.dumps({name: list(lease) for name, lease in sorted(leases.items())})} if leases else {}


def found(folder: Path, env: Mapping[str, str]) -> Durable:
    """Return the durable zone of an agent with the environment *env* and the durable *folder*."""
    return Durable(folder, {name: Lease(*lease) for name, lease in json.loads(env.get(VARIABLE, "{}")).items()})
