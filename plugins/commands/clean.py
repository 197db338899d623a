"""`pytest-chaos clean`: what killed campaigns left is removed, and nothing of one that lives.

A campaign cleans up after itself, after Ctrl-C too, and sweeps what earlier ones left when it starts. This is for who
was killed and starts no other one. Ports need nothing: a claim goes with its process.
"""

from __future__ import annotations

import argparse
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from chaos.plugins.commands import BROKEN, OK, RESULTS
from chaos.plugins.commands.demo import PREFIX

HELP = "remove what killed campaigns left: folders and mounts, cgroups and their processes, containers and volumes"
EPILOG = """Each thing bears the number of its harness; of those that live nothing is touched. With --results also go
.chaos in this folder, with what earlier searches found (.chaos/examples), and the folders of `demo`.
The image in Docker is removed by `pytest-chaos doctor --clean`.
exit codes: 0 done; 1 something could not be removed, and why"""


class Left(NamedTuple):
    """Something that can go: *remove* tells whether it is gone."""

    what: str
    remove: Callable[[], bool]


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("--results", action="store_true", help=f"remove {RESULTS} and the folders of `demo` too")
    parser.add_argument("-n", "--dry-run", action="store_true", help="list what would be removed, and remove nothing")


def run(options: argparse.Namespace) -> int:
    """List what there is, and remove it."""
    found = [*_folders(), *_cgroups(), *_docker(), *(_results() if options.results else ())]
    stays = 0
    for left in found:
        gone = not options.dry_run and left.remove()
        stays += not (gone or options.dry_run)
        print(f"{'would remove' if options.dry_run else 'removed' if gone else 'CANNOT remove'} {left.what}")
    if not found:
        print("nothing was left")
    if stays:
        print("what cannot be removed is another user's, or in use: as root the same command removes it")
    return BROKEN if stays else OK


def _folders() -> Iterator[Left]:
    from chaos import leftovers

    for folder in sorted(leftovers.folders(own=False)):
        mounts = leftovers.mounts_below(folder)
        shown = f" with the mounts {', '.join(mounts)}" if mounts else ""
        yield Left(f"folder {folder}{shown}", lambda folder=folder: _without(folder))  # type: ignore[misc]


def _without(folder: Path) -> bool:
    from chaos import leftovers

    leftovers.remove(folder)
    return not folder.exists()


def _cgroups() -> Iterator[Left]:
    from chaos.sandbox import hierarchy

    for folder in hierarchy.stale():
        yield Left(f"cgroup {folder}", lambda folder=folder: hierarchy.remove(folder))  # type: ignore[misc]


def _docker() -> Iterator[Left]:
    from chaos.sandbox.docker import engine

    if engine.unreachable():
        return  # no Docker, nothing of ours in it
    containers, volumes = engine.stale()
    for name in containers:
        yield Left(f"container {name}", lambda name=name: _asked(engine.remove_container, name))  # type: ignore[misc]
    for name in volumes:
        yield Left(f"volume {name}", lambda name=name: _asked(engine.remove_volume, name))  # type: ignore[misc]


def _asked(remove: Callable[[str], None], name: str) -> bool:
    from chaos.errors import HarnessError

    try:
        remove(name)
    except HarnessError:
        return False
    return True


def _results() -> Iterator[Left]:
    """Yield results folders whose campaign has ended: ours in this folder, and those of `demo`."""
    import tempfile

    made = [
        path for path in sorted(Path(tempfile.gettempdir()).glob(f"{PREFIX}*")) if path.stat().st_uid == os.getuid()
    ]
    for top, results in ((Path(RESULTS), Path(RESULTS)), *((path, path / RESULTS) for path in made)):
        if (why := _kept(results)) is None:
            yield Left(f"results {top.absolute()}", lambda top=top: _gone(top))  # type: ignore[misc]
        elif why:
            print(f"kept {top.absolute()}: {why}")


def _kept(folder: Path) -> str | None:
    """Return why the results in *folder* stay, "" if there are none, None if they can go."""
    import platform

    from chaos import results
    from chaos.errors import HarnessError

    if not folder.is_dir():
        return ""
    try:
        info, *_ = results.read_parts(folder)
    except HarnessError:
        return "no campaign is in it; remove it yourself if it is not needed"
    pid = info.campaign.rpartition("-")[2]  # see `campaign_name`
    # A number may be another program's by now. A worker of pytest-xdist does not say that it is pytest.
    living = info.host == platform.node() and any(name in _command(pid) for name in (b"pytest", b"python"))
    return f"its campaign runs, as process {pid}" if living else None


def _command(pid: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def _gone(folder: Path) -> bool:
    shutil.rmtree(folder, ignore_errors=True)
    return not folder.exists()
