"""Exact versions of packages, each set in an environment of its own, made when it is first asked for and then kept."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import venv
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

VARIABLE = "CHAOS_TRACK_RECORD"
"""Names the folder of the environments; a user's cache if it is not set, or is "1"."""

_COMPLETE = "complete"  # a file: what lacks it was interrupted while it was made


def interpreter(pins: Sequence[str]) -> Path:
    """Return an interpreter that imports just these *pins* (`name==version`), and what they need.

    It is the running one where that has them; else that of an environment, which is made if it is not there.

    Raises:
        CalledProcessError: the packages could not be installed.
    """
    if all(installed(pin) for pin in pins):
        return Path(sys.executable)
    folder = _cache() / hashlib.sha256("\n".join(sorted(pins)).encode()).hexdigest()[:12]
    python = folder / "bin" / "python"
    if not (folder / _COMPLETE).exists():
        shutil.rmtree(folder, ignore_errors=True)
        uv = shutil.which("uv")
        venv.create(folder, with_pip=uv is None)
        install = [uv, "pip", "install", "--python", str(python)] if uv else [str(python), "-m", "pip", "install"]
        subprocess.run([*install, "--quiet", *pins], check=True)
        (folder / _COMPLETE).write_text("\n".join(pins))
    return python


def installed(pin: str) -> bool:
    """Tell whether the running interpreter has the package of *pin* in just that version."""
    name, _, wanted = pin.partition("==")
    try:
        return version(name) == wanted
    except PackageNotFoundError:
        return False


def _cache() -> Path:
    given = os.environ.get(VARIABLE, "")
    return Path.home() / ".cache" / "pytest-chaos" / "track-record" if given in ("", "1") else Path(given)
