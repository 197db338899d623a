"""Snapshots bring folders back exactly, store each content once, and refuse damage."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chaos.targets.reference.snapshot import CorruptStore, Snapshots, Tree


def look(folder: Path) -> dict[str, tuple[int, str | bytes | None]]:
    """Return path to mode and content of everything in *folder*."""
    seen: dict[str, tuple[int, str | bytes | None]] = {}
    for path in sorted(folder.rglob("*")):
        mode = path.lstat().st_mode
        content = os.readlink(path) if path.is_symlink() else path.read_bytes() if path.is_file() else None
        seen[str(path.relative_to(folder))] = (0 if path.is_symlink() else stat.S_IMODE(mode), content)
    return seen


@pytest.fixture
def zone(tmp_path: Path) -> Path:
    zone = tmp_path / "zone"
    (zone / "a/b").mkdir(parents=True)
    (zone / "empty").mkdir(mode=0o700)
    (zone / "a/one").write_text("1")
    (zone / "a/b/run").write_text("#!/bin/sh\n")
    (zone / "a/b/run").chmod(0o755)
    (zone / "link").symlink_to("a/one")
    (zone / "folder").symlink_to("a")
    (zone / "dangling").symlink_to("nowhere")
    return zone


def snapshots(zone: Path) -> Snapshots:
    return Snapshots(zone.parent / "objects", {"zone": zone})


def test_everything_comes_back(zone: Path) -> None:
    before, tree = look(zone), snapshots(zone).take()
    (zone / "a/one").write_text("2")
    (zone / "a/b/run").unlink()
    (zone / "a/b").rmdir()
    (zone / "a/b").write_text("a file in the place of a folder")
    (zone / "empty").rmdir()
    (zone / "link").unlink()
    (zone / "link").mkdir()
    (zone / "link/new").write_text("a folder in the place of a link")
    (zone / "folder").unlink()
    (zone / "folder").symlink_to("empty")
    (zone / "extra").write_text("x")
    snapshots(zone).restore(tree)
    assert look(zone) == before
    assert snapshots(zone).take() == tree | {"zone/link": snapshots(zone).take()["zone/link"]} | _links(zone, tree)


def _links(zone: Path, tree: Tree) -> Tree:
    """Return the entries of links: their times are not restored, nothing looks at them."""
    now = snapshots(zone).take()
    return {path: now[path] for path, entry in tree.items() if entry["kind"] == "link"}


def test_an_empty_disk_comes_back(zone: Path) -> None:
    before, tree = look(zone), snapshots(zone).take()
    zone.rename(zone.parent / "gone")
    zone.mkdir()
    snapshots(zone).restore(tree)
    assert look(zone) == before


def test_equal_contents_are_stored_once(zone: Path) -> None:
    taken = snapshots(zone)
    taken.take()
    (zone / "copy").write_text("1")
    taken.take()
    assert len(list((zone.parent / "objects").iterdir())) == 2


@settings(max_examples=20, deadline=None)
@given(st.lists(st.tuples(st.sampled_from("abc"), st.binary(min_size=3, max_size=3)), max_size=12))
def test_a_change_is_never_missed(tmp_path_factory: pytest.TempPathFactory, writes: list[tuple[str, bytes]]) -> None:
    zone = tmp_path_factory.mktemp("writes") / "zone"
    zone.mkdir()
    taken = snapshots(zone)
    for name, content in writes:  # same size, in place, within one tick of the clock
        (zone / name).write_bytes(content)
        seen, tree = look(zone), taken.take()
    if writes:
        for path in zone.iterdir():
            path.unlink()
        taken.restore(tree)
        assert look(zone) == seen


@pytest.mark.parametrize(("damage", "message"), [(b"x", "is damaged"), (None, "is gone")])
def test_damage_is_refused(zone: Path, damage: bytes | None, message: str) -> None:
    tree = snapshots(zone).take()
    content = zone.parent / "objects" / tree["zone/a/one"]["digest"]
    content.write_bytes(damage) if damage else content.unlink()
    (zone / "a/one").unlink()
    with pytest.raises(CorruptStore, match=message):
        snapshots(zone).restore(tree)
