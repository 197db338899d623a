"""What of this machine a container sees, read-only and at the same paths: programs, this interpreter, its packages."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc", "/nix")
"""Programs and libraries, and where programs look for accounts, certificates and each other."""

NEVER = ("/", "/proc", "/sys", "/dev", "/run", "/tmp", "/var", "/var/tmp", "/var/run", "/home", "/root")
"""What a search path may name and no container may see: the machine's state, and all of the user's files at once."""


def folders(root: Path, command: Sequence[str], env: Mapping[str, str]) -> list[str]:
    """Return the folders to bind, none of them below another one.

    Args:
        root: of the zones; a folder around it is left out, for the zones are the container's own.
        command, env: of the incarnation that the container is made for.
    """
    import chaos

    interpreter = (sys.prefix, sys.base_prefix, sys.exec_prefix, os.path.dirname(sys.executable))
    source = os.fspath(Path(chaos.__file__).parents[1])
    paths = os.pathsep.join(env.get(name, "") for name in ("PATH", "PYTHONPATH")).split(os.pathsep)
    found = [*SYSTEM, *interpreter, source, *sys.path, *paths, os.path.dirname(command[0])]
    # An editable install finds its source in one of these, a link of an environment its interpreter in another.
    programs = [os.path.dirname(os.path.realpath(path)) for path in (sys.executable, command[0])]
    return outermost({*map(os.path.abspath, filter(None, [*found, *programs]))}, root)


def outermost(paths: Iterable[str], root: Path) -> list[str]:
    """Return those of *paths* that are there, may be seen, and lie neither around *root* nor below another one."""
    kept = list[str]()
    for path in sorted(paths):  # a folder comes before what is in it
        around = root.is_relative_to(path) or root.is_relative_to(os.path.realpath(path))
        if path in NEVER or around or not os.path.exists(path):
            continue
        if not any(Path(path).is_relative_to(above) for above in kept):
            kept.append(path)
    return kept
