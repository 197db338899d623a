"""A folder is a registry: the file name is the name used in scenarios.

Ours are found by folder, other people's by entry point, and only the module that is asked for is imported.
A module called `oom_kill` of the kind `faults` defines one frozen dataclass `OomKill`.
"""

from __future__ import annotations

import importlib
import pkgutil
import sys
from functools import cache
from importlib.metadata import EntryPoints, entry_points

from chaos.errors import UnknownName, did_you_mean

FOLDERS = {
    "faults": "chaos.faults",
    "checks": "chaos.checks",
    "explorers": "chaos.explorers",
    "stores": "chaos.stores",
    "servers": "chaos.servers",
    "targets": "chaos.targets",
    "strategies": "chaos.targets.reference.strategies",
}
"""Kind to the package whose modules are its members; the entry point group is `chaos.<kind>`."""


def names(kind: str) -> list[str]:
    """Return every name of *kind* ("faults", "checks", ...), ours and installed ones, sorted."""
    package = importlib.import_module(FOLDERS[kind])
    ours = {module.name for module in pkgutil.iter_modules(package.__path__) if not module.name.startswith("_")}
    return sorted(ours | {entry.name for entry in _installed(kind)})


def load(kind: str, name: str) -> type:
    """Return the class that *name* of *kind* defines; raise UnknownName with a suggestion."""
    for entry in _installed(kind).select(name=name):
        found: type = entry.load()
        return found
    path = f"{FOLDERS[kind]}.{name}"
    if path not in sys.modules and name not in names(kind):  # a look into the folder takes longer than a check
        raise UnknownName(f"no {name!r} among the {kind}; {did_you_mean(name, names(kind))}")
    module = importlib.import_module(path)
    cls: type = getattr(module, "".join(word.title() for word in name.split("_")))
    return cls


@cache  # a scan of all installed distributions takes milliseconds, and a scenario names dozens of plug-ins
def _installed(kind: str) -> EntryPoints:
    return entry_points(group=f"chaos.{kind}")
