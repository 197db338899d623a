"""Every medium brings back exactly the tree of any step, whatever happened to the folders, and leaves nothing."""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from chaos import leftovers
from chaos.sandbox import Zones, mounts
from chaos.targets.reference import media
from chaos.targets.reference.media import START, Medium, overlay
from chaos.targets.reference.media.content import Content
from chaos.targets.reference.snapshot import CorruptStore
from tests.waiting import PATIENCE

MOUNTED = ("reflink", "overlay", "btrfs", "zfs")
ALL = ("content", *MOUNTED)
EXAMPLES = {"content": 40, "zfs": 3}  # making a pool takes half a second
FEW = 6

each = pytest.mark.parametrize("name", ALL)
each_mounted = pytest.mark.parametrize("name", MOUNTED)

Seen = dict[str, tuple[Any, ...]]


def zones_in(folder: Path) -> Zones:
    zones = Zones(folder / "sandbox")
    for zone in (zones.durable, zones.workspace, zones.tmp, zones.assets):
        zone.mkdir(parents=True)
    return zones


@contextlib.contextmanager
def opened(name: str) -> Iterator[tuple[Medium, Zones]]:
    """Have an empty medium, or skip; afterwards nothing of it is left."""
    if name != "content" and (reason := media.missing(name)):
        pytest.skip(reason)
    folder = leftovers.folder("test-")
    zones = zones_in(folder)
    folders = {"workspace": zones.workspace, "tmp": zones.tmp}
    medium = Content(zones.durable / "cow", folders) if name == "content" else media.kind(name)(zones)
    try:
        yield medium, zones
    finally:
        medium.close()
        assert leftovers.mounts_below(folder) == []
        medium.close()
        shutil.rmtree(folder)
        end = time.monotonic() + PATIENCE  # agents of others that began meanwhile have a copy of the mount for a moment
        while str(folder) in subprocess.run(["losetup", "--all"], capture_output=True, text=True).stdout:
            assert time.monotonic() < end, "a loop device is left"
            time.sleep(0.02)


def look(zones: Zones, name: str) -> Seen:
    """Return a full copy of both folders: path to kind, mode, content or target, and what else the medium keeps."""
    seen: Seen = {}
    for zone in (zones.workspace, zones.tmp):
        for path in sorted(zone.rglob("*")):
            about = path.lstat()
            kind, mode = stat.S_IFMT(about.st_mode), stat.S_IMODE(about.st_mode)
            content = os.readlink(path) if path.is_symlink() else path.read_bytes() if path.is_file() else None
            keeps = () if name == "content" and kind == stat.S_IFLNK else (about.st_mtime_ns,)
            names = (about.st_nlink,) if name in ("reflink", "btrfs", "zfs") and content is not None else ()
            seen[str(path.relative_to(zones.root))] = (kind, mode, content, *keeps, *names)
    return seen


# -- what an agent may do to its folders; what makes no sense where things stand fails, and nothing happens


def remove(path: Path) -> None:
    shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()


def overwrite(path: Path, data: bytes) -> None:
    with open(path, "r+b") as file:
        file.write(data)


def append(path: Path, data: bytes) -> None:
    with open(path, "ab") as file:
        file.write(data)


def again(path: Path, data: bytes) -> None:
    path.unlink()
    path.write_bytes(data)


def folder_instead(path: Path, data: bytes) -> None:
    remove(path)
    path.mkdir()
    (path / "inside").write_bytes(data)


def file_instead(path: Path, data: bytes) -> None:
    remove(path)
    path.write_bytes(data)


Deed = Callable[[Path, Path, bytes], object]
DEEDS: dict[str, Deed] = {
    "create": lambda path, other, data: path.write_bytes(data),
    "overwrite in place": lambda path, other, data: overwrite(path, data),
    "append": lambda path, other, data: append(path, data),
    "truncate": lambda path, other, data: os.truncate(path, len(data) // 2),
    "rename": lambda path, other, data: path.rename(other),
    "delete": lambda path, other, data: remove(path),
    "make a folder": lambda path, other, data: path.mkdir(),
    "remove a folder": lambda path, other, data: path.rmdir(),
    "make a symbolic link": lambda path, other, data: path.symlink_to(other.name),
    "make a hard link": lambda path, other, data: path.hardlink_to(other),
    "change the mode": lambda path, other, data: path.chmod(0o700 + len(data) % 64),
    "change the time": lambda path, other, data: os.utime(path, ns=(0, len(data) * 10**9)),
    "delete and create anew": lambda path, other, data: again(path, data),
    "put a folder in its place": lambda path, other, data: folder_instead(path, data),
    "put a file in its place": lambda path, other, data: file_instead(path, data),
}

names = st.sampled_from(["a", "b", "c", "d", "d/a", "d/b", "d/e", "d/e/a", "d/e/inside"])
paths = st.tuples(st.sampled_from(["workspace", "workspace", "tmp"]), names).map("/".join)
data = st.binary(min_size=4, max_size=4) | st.binary(max_size=9000)
deeds = st.tuples(st.sampled_from(sorted(DEEDS)), paths, paths, data)
moves = st.lists(deeds, max_size=8)
lives = st.lists(
    st.tuples(st.lists(moves, min_size=1, max_size=4), st.integers(0, 20), st.booleans()), min_size=1, max_size=4
)
"""Incarnations: what is done in each step, how far the next one goes back, and whether the folders are lost first."""


def do(zones: Zones, deed: tuple[str, str, str, bytes]) -> None:
    name, path, other, given = deed
    with contextlib.suppress(OSError, shutil.Error):
        DEEDS[name](zones.root / path, zones.root / other, given)


def wipe(zones: Zones) -> None:
    for zone in (zones.workspace, zones.tmp):
        for path in zone.iterdir():
            remove(path)


def live(name: str, incarnations: list[tuple[list[list[tuple[str, str, str, bytes]]], int, bool]]) -> None:
    """Do the steps of each incarnation, with a snapshot after each, then go back to an older one, and on from there."""
    with opened(name) as (medium, zones):
        medium.take(START)
        seen, step = {START: look(zones, name)}, START
        for steps, back, lost in incarnations:
            for done in steps:
                for deed in done:
                    do(zones, deed)
                step += 1
                medium.take(step)
                seen[step] = look(zones, name)
            do(zones, ("create", "workspace/a", "", b"after the snapshot"))
            do(zones, ("delete", "workspace/d", "", b""))
            if lost:
                wipe(zones)
            step = max(START, step - back)
            medium.restore(step)
            assert look(zones, name) == seen[step]
            assert medium.steps() == list(range(START, step + 1))
        for step in reversed(medium.steps()):  # and all that are left, one after the other
            medium.restore(step)
            assert look(zones, name) == seen[step]
            medium.restore(step)
            assert look(zones, name) == seen[step]


@each
def test_any_step_comes_back_exactly(name: str) -> None:
    some = settings(
        max_examples=EXAMPLES.get(name, FEW), deadline=None, suppress_health_check=list(HealthCheck), database=None
    )
    some(given(lives)(lambda incarnations: live(name, incarnations)))()


# -- single cases


@each
def test_everything_an_agent_may_do_comes_back(name: str) -> None:
    """Each deed once, on a tree in which it succeeds, in three incarnations that each build on the one before."""
    with opened(name) as (medium, zones):
        for zone in (zones.workspace, zones.tmp):
            (zone / "d/e").mkdir(parents=True)
            (zone / "d/e/inside").write_bytes(b"12345678")
            for path in ("a", "b", "d/a"):
                (zone / path).write_bytes(b"abcdefgh")
        medium.take(0)
        seen = {0: look(zones, name)}
        step = 0
        for _ in range(3):
            for deed in (
                ("overwrite in place", "a", "", b"xy"),
                ("append", "a", "", b"more"),
                ("truncate", "d/a", "", b"1234"),
                ("rename", "d", "moved", b""),
                ("make a folder", "d", "", b""),
                ("make a symbolic link", "d/link", "a", b""),
                ("change the mode", "b", "", b"1"),
                ("delete and create anew", "b", "", b"abcdefgh"),
                ("put a folder in its place", "a", "", b"was a file"),
                ("put a file in its place", "moved", "", b"was a folder"),
                ("rename", "moved", "a/inside", b""),
                ("delete", "a", "", b""),
                ("rename", "b", "a", b""),
                ("create", "b", "", b"abcdefgh"),
                ("make a hard link", "d/b", "b", b""),
                ("make a folder", "d/e", "", b""),
                ("create", "d/e/inside", "", b"12345678"),
                ("create", "d/a", "", b"abcdefgh"),
                ("change the time", "b", "", b"a step that is lost"),
            ):
                what, path, other, given = deed
                before = look(zones, name)
                do(zones, (what, f"workspace/{path}", f"workspace/{other}", given))
                assert look(zones, name) != before, f"{what} {path} did nothing"
                step += 1
                medium.take(step)
                seen[step] = look(zones, name)
            step -= 1
            wipe(zones)
            medium.restore(step)
            assert look(zones, name) == seen[step]
            do(zones, ("make a hard link", "workspace/d/c", "workspace/b", b""))
            do(zones, ("delete", "workspace/d/link", "", b""))
        while step >= 0:
            medium.restore(step)
            assert look(zones, name) == seen[step], step
            step -= 16


@each
def test_a_snapshot_that_is_not_there_is_refused(name: str) -> None:
    with opened(name) as (medium, zones):
        medium.take(START)
        (zones.workspace / "kept").touch()
        with pytest.raises(CorruptStore, match="step 3"):
            medium.restore(3)
        assert (zones.workspace / "kept").exists() and medium.steps() == [START]


@each
@pytest.mark.parametrize("keep", [1, 3])
def test_older_snapshots_can_be_dropped(name: str, keep: int) -> None:
    """Also those that later ones were made over: a restore in between makes them so."""
    with opened(name) as (medium, zones):
        seen: dict[int, Seen] = {}
        for step in range(9):
            (zones.workspace / f"{step}").write_text(f"step {step}")
            (zones.workspace / "all").write_text(f"up to {step}")
            medium.take(step)
            media.bound(medium, keep)
            seen[step] = look(zones, name)
            if step in (3, 6):
                medium.restore(step)
        assert medium.steps() == list(range(8 - keep, 9))
        for step in reversed(medium.steps()):
            wipe(zones)
            medium.restore(step)
            assert look(zones, name) == seen[step]


@each
def test_bytes_are_those_of_what_changed(name: str) -> None:
    """A megabyte that stays is stored once; 64 kB that change are stored, and written, with each step."""
    with opened(name) as (medium, zones):
        (zones.workspace / "stays").write_bytes(os.urandom(1 << 20))
        medium.take(START)
        stored, written = medium.stored_bytes(), medium.written_bytes(0)
        for step in range(5):
            (zones.workspace / "changes").write_bytes(os.urandom(1 << 16))
            medium.take(step)
        assert 5 << 16 <= medium.stored_bytes() - stored < 1 << 20
        assert 5 << 16 <= medium.written_bytes(0) - written < 12 << 20
        medium.restore(START)
        assert medium.stored_bytes() - stored < 4 << 16, "what was dropped is given back"


def test_unused_contents_go_with_the_last_tree_that_has_them() -> None:
    with opened("content") as (medium, zones):
        for step, text in enumerate(("one", "two", "one")):
            (zones.workspace / "a").write_text(text)
            medium.take(step)
        objects = zones.durable / "cow/objects"
        medium.drop(0)
        assert len(list(objects.iterdir())) == 2
        medium.drop(1)
        assert [path.read_text() for path in objects.iterdir()] == ["one"]
        medium.take(3)
        medium.restore(3)
        assert (zones.workspace / "a").read_text() == "one"


@pytest.mark.parametrize("damage", [b"", b"x" * 40])
def test_a_damaged_tree_is_refused(damage: bytes) -> None:
    with opened("content") as (medium, zones):
        medium.take(0)
        (zones.durable / "cow/trees/0").write_bytes(damage)
        with pytest.raises(CorruptStore, match="the tree of step 0 is damaged"):
            medium.restore(0)


def test_many_incarnations_make_no_high_stack(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(overlay, "MOST_LAYERS", 3)
    with opened("overlay") as (medium, zones):
        (zones.workspace / "d").mkdir()
        seen, most = {}, 0
        for step in range(9):
            (zones.workspace / f"d/{step}").write_text("new")
            (zones.workspace / f"d/{step - 2}").unlink(missing_ok=True)
            if step == 5:
                shutil.rmtree(zones.workspace / "d")
                (zones.workspace / "d").mkdir()
            medium.take(step)
            seen[step] = look(zones, "overlay")
            wipe(zones)
            medium.restore(step)
            assert look(zones, "overlay") == seen[step]
            (line,) = (line for line in Path("/proc/self/mounts").read_text().splitlines() if str(zones.tmp) in line)
            most = max(most, line.count(":") + 1)
        assert most == 3
        for step in reversed(range(9)):
            medium.restore(step)
            assert look(zones, "overlay") == seen[step]


def test_a_file_system_that_shares_blocks_needs_no_image(tmp_path: Path) -> None:
    if reason := media.missing("btrfs"):
        pytest.skip(reason)
    (tmp_path / "disk").mkdir()
    image = mounts.Image(tmp_path / "disk.img", tmp_path / "disk", ("mkfs.btrfs", "-q"))
    try:
        zones = zones_in(tmp_path / "disk")
        medium = media.kind("reflink")(zones)
        assert leftovers.mounts_below(zones.root) == []
        (zones.workspace / "a").write_bytes(b"x" * 100_000)
        medium.take(0)
        seen = look(zones, "reflink")
        overwrite(zones.workspace / "a", b"y")
        medium.restore(0)
        assert look(zones, "reflink") == seen and medium.stored_bytes() >= 100_000
        medium.close()
    finally:
        image.close()


@pytest.mark.parametrize("name", ["reflink", "btrfs"])
@pytest.mark.parametrize("made", ["nothing", "a folder", "a link"])
def test_an_agent_that_removes_its_folder_is_no_problem(name: str, made: str) -> None:
    with opened(name) as (medium, zones):
        medium.take(START)
        shutil.rmtree(zones.workspace)
        if made == "a folder":
            zones.workspace.mkdir()
            (zones.workspace / "a").write_text("1")
        elif made == "a link":
            zones.workspace.symlink_to(zones.durable)
        medium.take(0)
        if made == "a link":
            zones.workspace.unlink()
        medium.restore(0)
        assert [path.name for path in zones.workspace.iterdir()] == (["a"] if made == "a folder" else [])
        (zones.workspace / "b").touch()
        medium.restore(START)
        assert list(zones.workspace.iterdir()) == []


def test_two_daemons_know_nothing_of_each_other() -> None:
    with opened("zfs") as (one, here), opened("zfs") as (other, there):
        (here.workspace / "a").write_text("one")
        (there.workspace / "a").write_text("other")
        one.take(0)
        other.take(0)
        (here.workspace / "a").unlink()
        (there.workspace / "a").unlink()
        other.restore(0)
        one.close()
        assert (there.workspace / "a").read_text() == "other"


@each_mounted
def test_without_rights_the_remedy_is_told(name: str) -> None:
    """As another user, really; where that one cannot read our modules there is nothing to see."""
    if os.geteuid() != 0:
        pytest.skip("needs root to become another user")
    code = f"from chaos.targets.reference import media; print(media.missing({name!r}))"
    words = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", sys.executable, "-c", code]
    done = subprocess.run(words, cwd="/", capture_output=True, text=True)
    if done.returncode:
        pytest.skip("another user cannot read our modules")
    what = {"reflink": "xfs"}.get(name, name)
    assert done.stdout == f"mounting {what} needs root; use snapshots: content\n"
