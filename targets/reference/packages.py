"""The private environment: wheels unpacked into one folder of the workspace by the `installer` library."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

FOLDER = "env"
"""The private environment, below the workspace."""


class PackageError(Exception):
    """The package could not be installed; the text is for the model."""


def install(wheel: Path, folder: Path) -> str:
    """Install *wheel* into *folder* unless it is there, and return what the model is told.

    It is unpacked beside *folder* and moved in place whole, the record of the distribution last: a kill in between
    leaves something that the next call does again.
    """
    from installer import install as unpack  # 60 ms, paid only by the incarnation that installs
    from installer.destinations import SchemeDictionaryDestination
    from installer.sources import WheelFile
    from installer.utils import SCHEME_NAMES

    if not wheel.is_file():
        raise PackageError(f"there is no {wheel.name}")
    name, version = wheel.name.split("-")[:2]
    told = f"installed {name} {version}"
    record = f"{name}-{version}.dist-info"
    if (folder / record).is_dir():
        return told
    fresh = folder.with_name(f".{folder.name}.new")
    shutil.rmtree(fresh, ignore_errors=True)
    destination = SchemeDictionaryDestination(
        {scheme: os.fspath(fresh) for scheme in SCHEME_NAMES}, interpreter="python3", script_kind="posix"
    )
    with WheelFile.open(wheel) as source:
        unpack(source, destination, {"INSTALLER": b"installer"})
    folder.mkdir(parents=True, exist_ok=True)
    for entry in sorted(fresh.iterdir(), key=lambda path: path.name == record):
        shutil.rmtree(folder / entry.name, ignore_errors=True)
        entry.rename(folder / entry.name)
    fresh.rmdir()
    return told
