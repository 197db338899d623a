"""A shelf keeps what has changed, reads what may have, and puts back what was there, whatever stands in its way."""

from __future__ import annotations

import mmap
import os
import signal
import socket
import sqlite3
import stat
import subprocess
import sys
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest

from chaos.capture.blocks import BLOCK, SPAN
from chaos.capture.shelf import GONE, Capture, Shelf
from tests.capture.walks import same_files, walk

MB = 1 << 20


@pytest.fixture
def zone(tmp_path: Path) -> Path:
    zone = tmp_path / "workspace"
    (zone / "a/b").mkdir(parents=True)
    (zone / "a/one").write_text("1")
    (zone / "a/b/two").write_text("2")
    return zone


@pytest.fixture
def shelf(zone: Path, tmp_path: Path) -> Iterator[Shelf]:
    (tmp_path / "kept").mkdir()
    shelf = Shelf({"workspace": zone}, tmp_path / "kept")
    yield shelf
    shelf.close()


# Databases of an agent that is killed.

WRITER = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("pragma journal_mode=wal")
connection.execute("pragma wal_autocheckpoint=20")
connection.execute("create table if not exists steps (number integer primary key, state blob)")
print(flush=True)
for line in sys.stdin:
    connection.execute(line)
    print(flush=True)
"""


class Writer:
    """A process that has a database open, and does one statement after the other."""

    def __init__(self, database: Path) -> None:
        self.database = database
        command = [sys.executable, "-c", WRITER, os.fspath(database)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self._answer()

    def __call__(self, statement: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(statement.encode() + b"\n")
        self.process.stdin.flush()
        self._answer()

    def mapped(self) -> list[Path]:
        maps = Path(f"/proc/{self.process.pid}/maps").read_text().splitlines()
        return [Path(line[line.index("/") :]) for line in maps if "rw-s" in line and "/" in line]

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.communicate()

    def _answer(self) -> None:
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == b"\n"


def test_a_database_is_put_back_with_what_was_committed(shelf: Shelf, zone: Path) -> None:
    database = zone / "state.sqlite"
    writer = Writer(database)
    captures: list[tuple[Capture, list[int]]] = []
    shared_memory = set[bytes]()
    try:
        for step in range(40):  # its log is checkpointed several times, and begun anew in place
            writer("begin immediate")
            writer(f"insert into steps values ({step}, randomblob({700 * (step % 9)}))")
            captures.append((shelf.take(writer.mapped()), list(range(step))))
            writer("commit")
            captures.append((shelf.take(writer.mapped()), list(range(step + 1))))
            assert writer.mapped() == [Path(f"{database}-shm")]
            shared_memory.add(Path(f"{database}-shm").read_bytes())
    finally:
        writer.kill()
    assert len(shared_memory) > 20  # it does change, and is put back with the rest
    assert database.stat().st_size > 20 * BLOCK  # checkpoints there were
    for capture, committed in (*captures, *reversed(captures)):
        shelf.put_back(capture)
        assert shelf.current() == capture.digests
        connection = sqlite3.connect(database)
        assert connection.execute("pragma integrity_check").fetchall() == [("ok",)]
        assert [number for (number,) in connection.execute("select number from steps order by 1")] == committed
        with connection:
            connection.execute("insert into steps values (1000, 'what comes later')")
        connection.close()  # with a checkpoint, and the log removed


def test_a_database_that_a_killed_agent_went_on_with_is_put_back(shelf: Shelf, zone: Path) -> None:
    database = zone / "state.sqlite"
    writer = Writer(database)
    writer("insert into steps values (1, randomblob(5000))")
    capture, seen = shelf.take(writer.mapped()), walk(zone)
    for step in range(2, 60):
        writer(f"insert into steps values ({step}, randomblob(5000))")
    writer.kill()
    shelf.put_back(capture)
    assert walk(zone) == seen
    again = Writer(database)
    again("insert into steps values (2, 'again')")
    again.kill()
    with sqlite3.connect(database) as connection:
        assert connection.execute("select count(*) from steps").fetchone() == (2,)
    connection.close()


def test_the_index_of_a_log_is_put_back_and_tells_no_difference(shelf: Shelf, zone: Path) -> None:
    database, log, index = (zone / f"state.sqlite{end}" for end in ("", "-wal", "-shm"))
    for path in (database, index):
        path.write_text("one")
    alone = shelf.take()  # without a log it is a file as any other
    index.write_text("two")
    assert shelf.current() != alone.digests
    log.write_text("log")
    two = shelf.take()
    index.write_text("three")
    assert shelf.current() == two.digests
    shelf.put_back(two)
    assert index.read_text() == "two"
    index.unlink()
    assert shelf.current() != two.digests
    index.symlink_to(log)
    assert shelf.current() != two.digests


# No more is kept, read and written than has changed.


def test_what_is_kept_and_read_is_what_changed(shelf: Shelf, zone: Path) -> None:
    database, log = zone / "state.sqlite", zone / "state.sqlite-wal"
    database.write_bytes(os.urandom(8 * MB))
    log.write_bytes(os.urandom(2 * MB))
    shelf.take()
    kept, read = shelf.kept_bytes, shelf.read_bytes
    assert 10 * MB <= kept <= 10 * MB + 100 * BLOCK
    captures = []
    for _ in range(20):
        with log.open("ab") as file:
            file.write(os.urandom(1000))
        captures.append(shelf.take())
        captures.append(shelf.take())
    assert shelf.kept_bytes - kept <= 20 * 2 * BLOCK
    assert shelf.read_bytes - read <= 40 * (2 * MB + SPAN)  # not the database
    for capture in reversed(captures):
        assert shelf.put_back(capture) <= 2 * BLOCK


def test_a_page_changed_in_place_is_one_block(shelf: Shelf, zone: Path) -> None:
    database = zone / "state.sqlite"
    database.write_bytes(os.urandom(3 * MB + 5))
    first, seen = shelf.take(), walk(zone)
    kept = shelf.kept_bytes
    with database.open("r+b") as file:
        file.seek(700 * BLOCK)
        file.write(os.urandom(BLOCK))
    second = shelf.take()
    assert shelf.kept_bytes - kept == BLOCK
    assert second.digests != first.digests
    assert shelf.put_back(first) == BLOCK
    assert walk(zone) == seen


def test_what_is_the_same_is_kept_once(shelf: Shelf, zone: Path) -> None:
    content = os.urandom(MB)
    (zone / "one").write_bytes(content)
    shelf.take()
    kept = shelf.kept_bytes
    (zone / "two").write_bytes(content)
    (zone / "a/one").rename(zone / "a/three")
    (zone / "empty").write_bytes(bytes(50 * MB))
    shelf.take()
    assert shelf.kept_bytes == kept


def test_what_is_only_compared_is_not_kept(shelf: Shelf, zone: Path) -> None:
    capture, kept = shelf.take(), shelf.kept_bytes
    with (zone / "log").open("ab") as file:
        for _ in range(50):
            file.write(os.urandom(10_000))
            file.flush()
            assert shelf.current() == shelf.current() != capture.digests
    assert shelf.kept_bytes == kept
    assert os.stat(shelf._blocks._aside.file).st_size > 500_000
    late, seen = shelf.take(), walk(zone)  # what was aside is kept now
    assert shelf.kept_bytes - kept >= 500_000
    shelf.put_back(capture)
    assert os.stat(shelf._blocks._aside.file).st_size == 0
    shelf.put_back(late)
    assert walk(zone) == seen


def test_memory_grows_by_what_changed(shelf: Shelf, zone: Path) -> None:
    for folder in range(10):
        (zone / f"{folder}").mkdir()
        for file in range(30):
            (zone / f"{folder}/{file}").write_text(f"{folder} {file}")
    (zone / "state").write_bytes(os.urandom(40 * SPAN))
    captures = [shelf.take()]
    tracemalloc.start()
    try:
        for step in range(40):
            (zone / "7/7").write_text(f"{step}")
            with (zone / "state").open("r+b") as file:
                file.seek(step * SPAN)
                file.write(b"%d" % step)
            captures += [shelf.take(), shelf.take()]
        grown, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert grown / 40 < 8 * 1024  # bytes for each step; there are 300 files, and 2560 blocks in one of them


def test_captures_share_what_did_not_change(shelf: Shelf, zone: Path) -> None:
    first, second = shelf.take(), shelf.take()
    assert (first.number, second.number) == (0, 1)
    assert second.trees is first.trees
    (zone / "a/one").touch()
    third = shelf.take()
    assert third.digests == first.digests
    assert third.trees is not first.trees  # its time is another


def test_large_holes_are_holes_again(shelf: Shelf, zone: Path) -> None:
    place = zone / "sparse"
    for begin, size in ((b"", 40 * SPAN), (b"data", 40 * SPAN), (b"data", 40 * SPAN + 5)):
        place.write_bytes(begin)
        os.truncate(place, size)
        capture = shelf.take()
        place.unlink()
        shelf.put_back(capture)
        assert place.read_bytes() == begin + bytes(size - len(begin))
        assert place.stat().st_blocks * 512 <= 2 * SPAN


# Whatever stands in the way.


def test_digests_do_not_tell_how_a_content_came_about(shelf: Shelf, zone: Path) -> None:
    content = os.urandom(2 * SPAN + 10)
    (zone / "file").write_bytes(content)
    at_once = shelf.take().digests
    (zone / "file").unlink()
    with (zone / "file").open("wb") as file:
        for start in range(0, len(content), 99_999):
            file.write(content[start : start + 99_999])
            file.flush()
            shelf.take()
    assert shelf.take().digests == at_once == shelf.current()


@pytest.fixture
def removed(zone: Path) -> Iterator[None]:
    """However a test ends: pytest cannot remove a tree that is deeper than Python calls."""
    yield
    subprocess.run(["rm", "-rf", zone], check=True)


@pytest.mark.usefixtures("removed")
def test_a_tree_deeper_than_any_path(shelf: Shelf, zone: Path) -> None:
    capture, seen = shelf.take(), walk(zone)
    here = os.open(zone, os.O_RDONLY)
    for level in range(1010):  # 5,050 bytes, and deeper than Python calls
        os.mkdir("deep", dir_fd=here)
        below = os.open("deep", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
        if level % 100 == 0:
            os.close(os.open("file", os.O_CREAT | os.O_WRONLY, 0o600, dir_fd=here))
    os.symlink("nowhere", "link", dir_fd=here)
    file = os.open("last", os.O_CREAT | os.O_RDWR, 0o600, dir_fd=here)
    os.write(file, b"the last one")
    os.link("last", "linked", src_dir_fd=here, dst_dir_fd=here)
    deep = shelf.take()
    os.pwrite(file, b"THE", 0)
    assert shelf.current() != deep.digests
    shelf.put_back(deep)
    assert shelf.current() == deep.digests
    again = os.open("linked", os.O_RDONLY, dir_fd=here)
    assert os.read(again, 100) == b"the last one"
    assert os.fstat(again).st_nlink == 2
    for opened in (file, again, here):
        os.close(opened)
    shelf.put_back(capture)
    assert walk(zone) == seen
    shelf.put_back(deep)
    assert shelf.current() == deep.digests


def test_links_lead_nowhere(shelf: Shelf, zone: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    (outside / "b").mkdir(parents=True)
    (outside / "one").write_text("not ours")
    (outside / "b/two").write_text("not ours")
    capture, seen, before = shelf.take(), walk(zone), walk(outside)
    (zone / "a").rename(tmp_path / "gone")
    (zone / "a").symlink_to(outside)
    linked = shelf.take()
    shelf.put_back(capture)
    assert walk(zone) == seen
    shelf.put_back(linked)
    assert (zone / "a").readlink() == outside
    (zone / "a").unlink()
    zone.rmdir()
    zone.symlink_to(outside)
    shelf.put_back(capture)
    assert walk(zone) == seen
    assert walk(outside) == before


def test_a_zone_that_is_gone(shelf: Shelf, zone: Path) -> None:
    capture, seen = shelf.take(), walk(zone)
    zone.rename(zone.with_name("moved"))
    gone = shelf.take()
    assert gone.digests == {"workspace": GONE} == shelf.current()
    shelf.put_back(capture)
    assert walk(zone) == seen
    shelf.put_back(gone)
    assert not zone.exists()


def test_names_of_one_file_stay_names_of_one_file(shelf: Shelf, zone: Path, tmp_path: Path) -> None:
    os.link(zone / "a/one", zone / "a/b/one")
    os.link(zone / "a/b/two", tmp_path / "outside")
    capture, seen, same = shelf.take(), walk(zone), same_files(zone)
    assert len(same) == 1
    (zone / "a/b/one").unlink()
    (zone / "a/b/one").write_text("1")
    (zone / "a/b/two").write_text("written through, outside as well")
    os.link(zone / "a/b/two", zone / "third")
    shelf.put_back(capture)
    assert (walk(zone), same_files(zone)) == (seen, same)
    (zone / "a/one").write_text("written through")
    assert (zone / "a/b/one").read_text() == "written through"
    shelf.put_back(capture)
    assert (walk(zone), same_files(zone)) == (seen, same)
    assert (tmp_path / "outside").read_text() == "written through, outside as well"


@pytest.mark.parametrize("lost", ["first", "a/second", "a/b/third"])
def test_a_name_that_is_gone_is_of_the_same_file_again(shelf: Shelf, zone: Path, lost: str) -> None:
    (zone / "first").write_text("of three names")
    for name in ("a/second", "a/b/third"):
        os.link(zone / "first", zone / name)
    capture, seen, same = shelf.take(), walk(zone), same_files(zone)
    (zone / lost).unlink()  # the other two are as they were
    shelf.put_back(capture)
    assert (walk(zone), same_files(zone)) == (seen, same)


def test_what_became_a_name_of_another_file_is_its_own_again(shelf: Shelf, zone: Path, tmp_path: Path) -> None:
    capture, seen = shelf.take(), walk(zone)
    os.link(zone / "a/one", tmp_path / "outside")
    (zone / "a/b/two").unlink()
    os.link(zone / "a/one", zone / "a/b/two")
    (tmp_path / "outside").write_text("of all three")
    shelf.put_back(capture)
    assert (walk(zone), same_files(zone)) == (seen, set())
    assert (tmp_path / "outside").read_text() == "of all three"


def test_files_that_are_alike_are_not_one_file(shelf: Shelf, zone: Path) -> None:
    first, second, third, fourth = (zone / name for name in "1234")
    first.write_text("the same")
    os.link(first, second)
    before = first.stat()
    shelf.take()
    first.unlink()
    first.write_text("the same")
    os.utime(first, ns=(before.st_atime_ns, before.st_mtime_ns))
    os.link(first, third)
    os.link(second, fourth)
    capture, seen, same = shelf.take(), walk(zone), same_files(zone)
    assert len(same) == 2
    for path in (first, second, third, fourth):
        path.unlink()
    shelf.put_back(capture)
    assert (walk(zone), same_files(zone)) == (seen, same)


def test_a_socket_is_put_back_as_a_killed_process_leaves_it(shelf: Shelf, zone: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(os.fspath(zone / "door"))
        server.listen()
        capture = shelf.take()
    (zone / "door").unlink()
    os.mkfifo(zone / "door")
    shelf.put_back(capture)
    assert stat.S_ISSOCK((zone / "door").lstat().st_mode)
    with socket.socket(socket.AF_UNIX) as client, pytest.raises(ConnectionRefusedError):
        client.connect(os.fspath(zone / "door"))


@pytest.mark.skipif(os.getuid() != 0, reason="only root can make a device")
def test_a_device_comes_back(shelf: Shelf, zone: Path) -> None:
    os.mknod(zone / "null", stat.S_IFCHR | 0o666, os.makedev(1, 3))
    capture = shelf.take()
    (zone / "null").unlink()
    os.mknod(zone / "null", stat.S_IFCHR | 0o666, os.makedev(1, 5))
    assert shelf.current() != capture.digests
    shelf.put_back(capture)
    assert (zone / "null").lstat().st_rdev == os.makedev(1, 3)


def test_a_file_that_was_mapped_once_is_read_again(shelf: Shelf, zone: Path) -> None:
    place = zone / "state"
    place.write_bytes(bytes(BLOCK))
    with place.open("r+b") as file, mmap.mmap(file.fileno(), 0) as memory:
        memory[0] = 1
        first = shelf.take([place])
        memory[0] = 2  # the page is dirty already: no stamp tells
    second = shelf.take()
    assert second.digests != first.digests
    shelf.put_back(first)
    assert place.read_bytes()[0] == 1
    shelf.put_back(second)
    assert place.read_bytes()[0] == 2


def test_after_an_error_nothing_is_taken_for_known(
    shelf: Shelf, zone: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, before = shelf.take(), walk(zone)
    (zone / "new").write_bytes(os.urandom(3 * BLOCK))
    (zone / "a/one").write_text("changed")

    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched, pytest.raises(OSError, match="No space left"):
        patched.setattr(os, "pwrite", full)
        shelf.take()
    second, after = shelf.take(), walk(zone)
    (zone / "a/b/two").write_text("changed, and not known")
    with monkeypatch.context() as patched, pytest.raises(OSError, match="No space left"):
        patched.setattr(os, "pwrite", full)
        shelf.put_back(first)
    (tmp_path / "other").mkdir()
    other = Shelf({"workspace": zone}, tmp_path / "other")
    assert shelf.current() == other.current()  # half of the way
    other.close()
    shelf.put_back(first)
    assert walk(zone) == before
    shelf.put_back(second)
    assert walk(zone) == after


def test_zones_are_beside_one_another(tmp_path: Path) -> None:
    for zones, folder in (
        ({"durable": tmp_path, "workspace": tmp_path / "workspace"}, tmp_path.parent / "kept"),
        ({"durable": tmp_path}, tmp_path / "kept"),
        ({"durable": tmp_path / "kept/durable"}, tmp_path / "kept"),
    ):
        with pytest.raises(ValueError, match="beside one another"):
            Shelf(zones, folder)
