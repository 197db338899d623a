"""A disk of the sandbox's own: what was synced survives its power loss, what was not does not; full is full."""

from __future__ import annotations

import errno
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaos import leftovers
from chaos.errors import HarnessError
from chaos.sandbox import Zones, disk
from chaos.sandbox.disk import Disk, Entry
from chaos.sandbox.mounts import Image

entries = st.dictionaries(
    st.sampled_from("abcdefgh"), st.builds(Entry, st.integers(0, 9), st.sampled_from(["x", "y", "folder"]))
)


def traces(folder: Path) -> list[str]:
    """Return mounts and loop devices that have to do with *folder*."""
    loops = subprocess.run(["losetup", "--all"], capture_output=True, text=True, check=False).stdout.splitlines()
    return [*(line for line in loops if str(folder) in line), *leftovers.mounts_below(folder)]


@pytest.fixture(params=["ext4", "xfs"])
def made(request: pytest.FixtureRequest) -> Iterator[tuple[Disk, Zones]]:
    """A disk of each kind, with empty zones on it that are synced."""
    if reason := disk.missing(request.param):
        pytest.skip(reason)
    home = leftovers.folder("test-")
    zones = Zones(home / "sandbox")
    zones.root.mkdir()
    image = Disk(home, zones, request.param)
    try:
        zones.durable.mkdir()
        zones.workspace.mkdir()
        image.sync()
        yield image, zones
    finally:
        image.close()
        assert traces(home) == []
        assert not list(home.glob("*.img"))
        leftovers.remove(home)
        assert not home.exists()


def write(path: Path, data: bytes, *, sync: bool) -> None:
    """Append *data*; *sync*: as one does it right, the folder too."""
    with open(path, "ab") as file:
        file.write(data)
        file.flush()
        if sync:
            os.fsync(file.fileno())
    if sync:
        folder = os.open(path.parent, os.O_RDONLY)
        os.fsync(folder)
        os.close(folder)


def test_a_power_loss_takes_what_was_not_synced_and_nothing_else(made: tuple[Disk, Zones]) -> None:
    image, zones = made
    write(zones.durable / "log", b"x" * 1000, sync=True)
    write(zones.durable / "removed", b"r" * 10, sync=True)
    write(zones.durable / "log", b"y" * 5000, sync=False)
    write(zones.workspace / "new", b"z" * 7, sync=False)
    (zones.durable / "removed").unlink()
    loss = image.lose_power()
    assert (zones.durable / "log").read_bytes() == b"x" * 1000
    assert (zones.durable / "removed").read_bytes() == b"r" * 10
    assert not (zones.workspace / "new").exists()
    assert loss == disk.Loss("EIO", 4, ("workspace/new",), ("durable/log",), ("durable/removed",), 5007)
    write(zones.workspace / "new", b"again", sync=True)  # and it is a disk like any other
    assert image.lose_power().lost == ()
    assert (zones.workspace / "new").read_bytes() == b"again"


def test_a_rename_counts_when_its_folder_is_synced(made: tuple[Disk, Zones]) -> None:
    image, zones = made
    write(zones.durable / "a", b"old", sync=True)
    write(zones.durable / "a.new", b"new", sync=True)
    (zones.durable / "a.new").rename(zones.durable / "a")
    assert image.lose_power().changed == ("durable/a",)
    assert (zones.durable / "a").read_bytes() == b"old"


def test_a_full_disk_takes_nothing_until_it_is_freed(made: tuple[Disk, Zones]) -> None:
    image, zones = made
    before = image.free_bytes()
    image.fill()
    with pytest.raises(OSError, match="No space left") as caught:
        write(zones.durable / "a", b"x" * (1 << 20), sync=True)
    assert caught.value.errno == errno.ENOSPC
    (zones.durable / "a").unlink(missing_ok=True)
    image.free()
    image.free()  # twice is once
    deadline = time.monotonic() + 30  # xfs gives the blocks of a removed file back in the background
    while abs(image.free_bytes() - before) > 1 << 20:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    write(zones.durable / "a", b"x" * (1 << 20), sync=True)


def test_who_holds_the_disk_keeps_it_from_coming_back(
    made: tuple[Disk, Zones], monkeypatch: pytest.MonkeyPatch
) -> None:
    image, zones = made
    monkeypatch.setattr(disk, "BUSY_SECONDS", 0.05)
    with open(zones.durable / "a", "wb"), pytest.raises(HarnessError, match=r"umount .* failed: .*busy"):
        image.lose_power()


def test_it_reaches_into_the_namespaces_that_were_made_meanwhile(made: tuple[Disk, Zones]) -> None:
    """Another sandbox has a copy of our mount: it must not keep alive what the power loss took."""
    image, zones = made
    write(zones.durable / "a", b"x", sync=False)
    script = "mount --make-rslave / && echo ready && read x"
    other = subprocess.Popen(
        ["unshare", "--mount", "--propagation", "slave", "sh", "-c", script],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    )  # fmt: skip
    try:
        assert other.stdout is not None and other.stdout.readline() == b"ready\n"
        assert image.lose_power().lost == ("durable/a",)
    finally:
        other.communicate(b"\n")


def test_an_interrupt_between_unmount_and_mount_leaves_nothing(
    made: tuple[Disk, Zones], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(image: Image) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Image, "mount", interrupted)
    with pytest.raises(KeyboardInterrupt):
        made[0].lose_power()
    # The fixture closes it, and looks for what is left.


def test_without_root_or_its_tools_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr("chaos.sandbox.docker.SOCKET", Path("/nonexistent"))
    monkeypatch.delenv("DOCKER_HOST", raising=False)
    assert "needs root" in disk.missing.__wrapped__("ext4")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(disk, "SEARCH", "/nonexistent")
    assert disk.missing.__wrapped__("xfs") == "no mkfs.xfs on the PATH: apt-get install xfsprogs"


@given(entries, entries)
def test_a_loss_is_what_differs(before: dict[str, Entry], after: dict[str, Entry]) -> None:
    loss = disk._loss("EIO", before, after)
    assert {*loss.lost} == before.keys() - after.keys()
    assert {*loss.reappeared} == after.keys() - before.keys()
    assert {*loss.changed} == {path for path in before.keys() & after.keys() if before[path] != after[path]}
    assert loss.bytes >= sum(before[path].size for path in loss.lost)
    assert disk._loss("EIO", before, before) == disk.Loss("EIO", len(before), (), (), (), 0)
