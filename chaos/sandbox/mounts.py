"""Mounts that the harness makes below its own folders: commands, and a file system in a file."""

from __future__ import annotations

import contextlib
import ctypes
import os
import subprocess
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from chaos import leftovers
from chaos.errors import HarnessError

SEARCH = os.pathsep.join((os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"))
"""Where tools are looked for: those of file systems are in folders that are not on everybody's path."""

IMAGE_BYTES = 8 << 30  # of a sparse file: it takes up what is written
COMMAND_SECONDS = 60.0  # they take milliseconds; a kernel that hangs must not hang the harness
SECTOR_BYTES = 512  # the unit of block device statistics and of st_blocks, whatever the device
SECTORS_WRITTEN = 6  # field of /sys/block/*/stat (Documentation/block/stat.rst)

# mount(2) takes an overlay's layers as one text; the newer system calls limit each option to 255 bytes.
ENVIRONMENT = {"PATH": SEARCH, "LC_ALL": "C", "LIBMOUNT_FORCE_MOUNT2": "always"}

_libc = ctypes.CDLL(None, use_errno=True)


def command(*words: str | os.PathLike[str], cwd: Path | None = None) -> str:
    """Run a tool and return what it printed.

    Raises:
        HarnessError: it is not there, failed, or hangs; with what it said.
    """
    text = " ".join(os.fspath(word) for word in words)
    try:
        done = subprocess.run(
            words, cwd=cwd, env=ENVIRONMENT, stdin=subprocess.DEVNULL, capture_output=True, timeout=COMMAND_SECONDS
        )
    except (FileNotFoundError, subprocess.TimeoutExpired) as error:
        raise HarnessError(f"{text}: {error}") from None
    if done.returncode:
        raise HarnessError(f"{text} failed: {(done.stderr or done.stdout).decode(errors='replace').strip()}")
    return done.stdout.decode(errors="replace")


def privileged(*words: str | os.PathLike[str]) -> str:
    """Run a tool as root and return what it printed; who is not root has a helper container do it.

    Raises:
        HarnessError: as `command`, or Docker cannot help.
    """
    if os.geteuid() == 0:
        return command(*words)
    from chaos.sandbox.docker import helper

    return helper.command(*words)


def sweep(*, own: bool) -> None:
    """Unmount what an ordinary user's harness left, this one (*own*) or dead ones; root's goes with its folders."""
    if os.geteuid() == 0:
        return
    for left in leftovers.folders(own=own):
        for point in leftovers.mounts_below(left):
            with contextlib.suppress(HarnessError):  # the next one tries again, if there is a Docker by then
                privileged("umount", "--lazy", point)


def unmount(point: Path) -> None:
    """Unmount what is mounted at *point*, if anything; what still holds it keeps it from nobody but itself."""
    if os.fspath(point) in leftovers.mounts_below(point):
        try:
            privileged("umount", point)
        except HarnessError:
            privileged("umount", "--lazy", point)


@contextlib.contextmanager
def undone(undo: Callable[[], None]) -> Iterator[None]:
    """Call *undo* if what is inside fails or is interrupted: what could not be opened is never closed."""
    try:
        yield
    except BaseException:
        undo()
        raise


def sync(folder: Path) -> None:
    """Have the kernel write back everything of the file system that *folder* is on."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        if _libc.syncfs(descriptor) != 0:
            raise OSError(ctypes.get_errno(), f"cannot sync {folder}")
    finally:
        os.close(descriptor)


class Image:
    """A file system in the sparse *file* of *size* bytes, made by the command *mkfs*, mounted on the folder *point*.

    Args:
        options: of the mount, beyond those that every image has.
    """

    def __init__(
        self, file: Path, point: Path, mkfs: Sequence[str], size: int = IMAGE_BYTES, options: Sequence[str] = ()
    ) -> None:
        self.file, self.point = file, point
        self._options = ",".join(("loop", "noatime", *options))
        with open(file, "xb") as made:
            made.truncate(size)
        with undone(self.close):
            command(*mkfs, file)
            self.mount()
            device = command("losetup", "--noheadings", "--output", "NAME", "--associated", file).strip()
            self._statistics = Path("/sys/block") / Path(device).name / "stat"
            self._before = self._sectors()  # the device goes on counting when it gets another file

    def mount(self) -> None:
        """Mount it; the loop device goes with the last mount of it."""
        privileged("mount", "-o", self._options, self.file, self.point)

    def used_bytes(self) -> int:
        """Return the bytes of all blocks in use, the file system's own included, after all was written back."""
        sync(self.point)
        about = os.statvfs(self.point)
        return (about.f_blocks - about.f_bfree) * about.f_frsize

    def written_bytes(self) -> int:
        """Return the bytes that the device was given to write since it was mounted, all written back before."""
        sync(self.point)
        return (self._sectors() - self._before) * SECTOR_BYTES

    def close(self) -> None:
        """Unmount it and remove the file."""
        unmount(self.point)
        self.file.unlink(missing_ok=True)

    def _sectors(self) -> int:
        return int(self._statistics.read_text().split()[SECTORS_WRITTEN])
