"""The databases that a strategy on LangGraph can keep its checkpoints in. The harness imports this: no runtime here."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Literal, get_args

from chaos.errors import ScenarioError

Database = Literal["sqlite", "postgres"]
Durability = Literal["sync", "async", "exit"]
"""When LangGraph writes: before the next step, beside it, or only when the run ends."""

PACKAGES = {"sqlite": "langgraph.checkpoint.sqlite", "postgres": "langgraph.checkpoint.postgres"}
REMEDY = "pip install 'pytest-chaos[strategies]'"


def store(database: Database) -> str:
    """Return the module of `chaos.stores` that presents LangGraph's checkpoints in *database*."""
    return f"langgraph_{database}"


def needs(database: Database) -> tuple[str, ...]:
    """Return the servers that *database* takes; SQLite is a file on the volume."""
    return ("postgres",) if database == "postgres" else ()


def imports(database: Database) -> tuple[str, ...]:
    """Return the modules that an agent with its checkpoints in *database* imports."""
    return ("chaos.targets.reference.graph", *(("langgraph.checkpoint.postgres",) if database == "postgres" else ()))


def missing(database: Database) -> str:
    """Return the package that this machine lacks for LangGraph's checkpoints in *database*, "" if none."""
    package = PACKAGES[database]
    return "" if _found(package) else f"no package {package}: {REMEDY}"


def check(database: str, durability: str) -> None:
    """Raise ScenarioError if one of these options has no such value."""
    for name, given, kind in (("database", database, Database), ("durability", durability, Durability)):
        known = get_args(kind)
        if given not in known:
            raise ScenarioError(f"{name} must be {', '.join(known[:-1])} or {known[-1]} (got {given!r})")


def _found(package: str) -> bool:
    try:
        return find_spec(package) is not None
    except ModuleNotFoundError:  # a parent is not there either
        return False
