"""Whatever is done in the zones: what is put back is what was captured, and digests tell what differs."""

from __future__ import annotations

import contextlib
import mmap
import os
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from chaos.capture import paths
from chaos.capture.blocks import BLOCK, SPAN
from chaos.capture.shelf import GONE, Capture, Shelf
from tests.capture.walks import Walk, same_files, walk

NOBODY = 65534
some = st.integers(0, 1 << 16)
names = st.sampled_from([b"a", b"b", b"c.json", b"\xff\xfe not text", "ü\n".encode()])
sizes = st.sampled_from([0, 1, 100, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK, SPAN - 1, SPAN, SPAN + 1, 2 * SPAN + 77])
modes = st.sampled_from([0o755, 0o700, 0o500, 0o000, 0o2755, 0o1777, 0o644])


def data(size: int, seed: int) -> bytes:
    """Return *size* bytes, many of which are the same for other seeds; of seed 0 zeros."""
    block = bytes([seed % 4]) * BLOCK if seed % 4 == 0 else bytes([seed % 4]) * (BLOCK - 2) + seed.to_bytes(2, "big")
    return (block * (size // BLOCK + 1))[:size]


def unblocked(path: str, flags: int) -> int:
    """Open *path*, which may lead to a FIFO."""
    return os.open(path, flags | os.O_NONBLOCK)


class Zones(RuleBasedStateMachine):
    """Two zones and somebody who does anything there; an own walk remembers what was in them at each capture."""

    below: str | None = None
    user: int | None = None
    rough = False

    def __init__(self) -> None:
        super().__init__()
        self.root = Path(os.path.realpath(tempfile.mkdtemp(dir=self.below)))
        self.zones = {"durable": self.root / "durable", "workspace": self.root / "workspace"}
        for folder in (*self.zones.values(), self.root / "kept", self.root / "elsewhere"):
            folder.mkdir()
        (self.root / "elsewhere/precious").write_text("nobody's business")
        self.mapped: list[tuple[os.stat_result, mmap.mmap]] = []
        self.captures: list[tuple[Capture, dict[str, Walk], set[frozenset[bytes]]]] = []
        self.told: dict[str, dict[object, str]] = {name: {} for name in self.zones}
        self.gone_back = False
        if self.user is not None:
            for folder, _, files in os.walk(self.root):
                for path in (folder, *(os.path.join(folder, name) for name in files)):
                    os.chown(path, self.user, self.user)
            os.seteuid(self.user)
        self.shelf = Shelf(self.zones, self.root / "kept")
        if self.rough:
            self.shelf._mirror.stamps._exact = None

    def teardown(self) -> None:
        os.seteuid(os.getuid())
        self.unmap()
        self.shelf.close()
        shutil.rmtree(self.root)

    # What somebody does. Most of it can fail, as it can for an agent; then nothing was done.

    def folders(self) -> list[bytes]:
        return self.everything(stat.S_ISDIR) or [os.fsencode(self.root / "none")]

    def everything(self, kind: object = None) -> list[bytes]:
        found: list[bytes] = []
        for zone in self.zones.values():
            with self.as_root():
                for name, (form, _, _) in walk(zone).visible.items():
                    if kind is None or kind(form):  # type: ignore[operator]
                        found.append(os.fsencode(zone) + name)
        return found

    def one(self, which: int, kind: object = stat.S_ISREG) -> bytes:
        found = self.everything(kind)
        return found[which % len(found)] if found else os.fsencode(self.root / "none/none")

    @contextlib.contextmanager
    def as_root(self) -> Iterator[None]:
        before = os.geteuid()
        os.seteuid(os.getuid())
        yield
        os.seteuid(before)

    @rule(where=some, name=names, size=sizes, seed=some)
    def write(self, where: int, name: bytes, size: int, seed: int) -> None:
        folders = self.folders()
        path = folders[where % len(folders)] + b"/" + name
        with contextlib.suppress(OSError), open(path, "wb", opener=unblocked) as file:
            file.write(data(size, seed))

    @rule(which=some, size=sizes, seed=some)
    def append(self, which: int, size: int, seed: int) -> None:
        with contextlib.suppress(OSError), open(self.one(which), "ab") as file:
            file.write(data(size, seed))

    @rule(which=some, at=sizes, size=sizes, seed=some)
    def overwrite_and_say_nothing(self, which: int, at: int, size: int, seed: int) -> None:
        with contextlib.suppress(OSError), open(self.one(which), "r+b") as file:
            about = os.fstat(file.fileno())
            file.seek(min(at, about.st_size))
            file.write(data(min(size, about.st_size - file.tell()), seed))
            file.flush()
            os.utime(file.fileno(), ns=(about.st_atime_ns, about.st_mtime_ns))

    @rule(which=some, size=sizes)
    def truncate(self, which: int, size: int) -> None:
        with contextlib.suppress(OSError):
            os.truncate(self.one(which), size)

    @rule(which=some, where=some, name=names, seed=some)
    def replace(self, which: int, where: int, name: bytes, seed: int) -> None:
        folders, source = self.folders(), self.one(which, lambda form: True)
        if source not in map(os.fsencode, self.zones.values()):
            with contextlib.suppress(OSError):
                os.replace(source, folders[where % len(folders)] + b"/" + name)

    @rule(where=some, name=names)
    def mkdir(self, where: int, name: bytes) -> None:
        folders = self.folders()
        with contextlib.suppress(OSError):
            os.mkdir(folders[where % len(folders)] + b"/" + name)

    @rule(which=some)
    def remove(self, which: int) -> None:
        path = self.one(which, lambda form: True)
        with contextlib.suppress(OSError):
            shutil.rmtree(path) if stat.S_ISDIR(os.lstat(path).st_mode) else os.unlink(path)

    @rule(where=some, name=names, goal=st.sampled_from([b"a", b"..", b"nowhere", b"../elsewhere", b"/etc"]))
    def symlink(self, where: int, name: bytes, goal: bytes) -> None:
        folders = self.folders()
        with contextlib.suppress(OSError):
            os.symlink(goal, folders[where % len(folders)] + b"/" + name)

    @rule(which=some, where=some, name=names)
    def link(self, which: int, where: int, name: bytes) -> None:
        folders = self.folders()
        with contextlib.suppress(OSError):
            os.link(self.one(which), folders[where % len(folders)] + b"/" + name)

    @rule(where=some, name=names, kind=st.sampled_from([stat.S_IFIFO, stat.S_IFSOCK]))
    def special(self, where: int, name: bytes, kind: int) -> None:
        folders = self.folders()
        with contextlib.suppress(OSError):
            os.mknod(folders[where % len(folders)] + b"/" + name, kind | 0o600)

    @rule(which=some, mode=modes)
    def chmod(self, which: int, mode: int) -> None:
        path = self.one(which, lambda form: True)
        with contextlib.suppress(OSError):
            if not os.path.islink(path):
                os.chmod(path, mode)

    @rule(which=st.sampled_from(["durable", "workspace"]), goal=st.sampled_from([None, "elsewhere"]))
    def lose_a_zone(self, which: str, goal: str | None) -> None:
        zone = self.zones[which]
        with self.as_root():
            zone.unlink() if zone.is_symlink() else shutil.rmtree(zone, ignore_errors=True)
        if goal is not None:
            zone.symlink_to(self.root / goal)

    @rule(which=some)
    def map(self, which: int) -> None:
        with contextlib.suppress(OSError, ValueError), open(self.one(which), "r+b") as file:
            self.mapped.append((os.fstat(file.fileno()), mmap.mmap(file.fileno(), 0)))
            self.shelf.current(self.maps())

    @rule(which=some, at=some, seed=some)
    def store(self, which: int, at: int, seed: int) -> None:
        if self.mapped:
            _, memory = self.mapped[which % len(self.mapped)]
            if there := min(len(memory), memory.size()):  # it may have been truncated since
                memory[at % there] = seed % 256

    @rule()
    def unmap(self) -> None:
        for _, memory in self.mapped:
            memory.close()
        self.mapped.clear()

    def maps(self) -> list[Path]:
        inodes = {(about.st_dev, about.st_ino) for about, _ in self.mapped}
        with self.as_root():
            found = [(path, os.lstat(path)) for path in self.everything(stat.S_ISREG)]
        return [Path(os.fsdecode(path)) for path, about in found if (about.st_dev, about.st_ino) in inodes]

    # What the shelf does.

    def seen(self) -> dict[str, Walk]:
        with self.as_root():
            return {name: walk(zone) for name, zone in self.zones.items()}

    def agree(self, seen: dict[str, Walk], digests: dict[str, str]) -> None:
        """Digests are equal if and only if what can be seen is."""
        for name, zone in seen.items():
            if not zone.visible:
                assert digests[name] == GONE
            visible = frozenset(zone.visible.items())
            assert self.told[name].setdefault(visible, digests[name]) == digests[name]
            assert len(set(self.told[name].values())) == len(self.told[name])

    @rule()
    def take(self) -> None:
        before = self.seen()
        capture = self.shelf.take(self.maps())
        seen = self.seen()
        assert seen == before  # even what was closed to us is as it was
        self.agree(seen, dict(capture.digests))
        assert capture.number == len(self.captures)
        with self.as_root():
            self.captures.append((capture, seen, same_files(*self.zones.values())))

    @rule()
    def current(self) -> None:
        kept = self.shelf.kept_bytes
        before = self.seen()
        digests = dict(self.shelf.current(self.maps()))
        assert self.seen() == before
        self.agree(before, digests)
        assert self.shelf.kept_bytes == kept

    @rule(which=some)
    def put_back(self, which: int) -> None:
        if self.captures:
            self.unmap()
            capture, seen, same = self.captures[which % len(self.captures)]
            self.shelf.put_back(capture)
            assert self.seen() == seen
            with self.as_root():
                assert same_files(*self.zones.values()) == same
            assert self.shelf.put_back(capture) == 0
            assert dict(self.shelf.current()) == dict(capture.digests)
            assert self.seen() == seen

    @invariant()
    def nothing_outside_is_touched(self) -> None:
        with self.as_root():
            assert {path.name for path in (self.root / "elsewhere").iterdir()} == {"precious"}
            assert (self.root / "elsewhere/precious").read_text() == "nobody's business"
            assert list((self.root / "kept").iterdir()) == []


def explore(machine: type[Zones], examples: int = 60) -> None:
    """Let Hypothesis look for a sequence of steps that breaks what is asserted in *machine*."""
    how = settings(
        max_examples=int(os.environ.get("SHELF_EXAMPLES", examples)), stateful_step_count=40, deadline=None,
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    run_state_machine_as_test(machine, settings=how)


def test_what_is_put_back_is_what_was_captured(tmp_path: Path) -> None:
    class Here(Zones):
        below = os.fspath(tmp_path)

    explore(Here)


def test_without_a_kernel_that_stamps_every_change(tmp_path: Path) -> None:
    class Rough(Zones):
        below, rough = os.fspath(tmp_path), True

    explore(Rough, 25)


@pytest.fixture
def ram(tmp_path: Path) -> Iterator[Path]:
    """A file system whose stamps are those of the kernel's clock, of which many changes have the same."""
    folder = tmp_path / "ram"
    folder.mkdir()
    mounted = subprocess.run(["mount", "-t", "ramfs", "ramfs", folder], capture_output=True, check=False)
    if mounted.returncode:
        pytest.skip(f"a ramfs cannot be mounted here: {mounted.stderr.decode().strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", folder], check=True)


def test_where_many_changes_have_the_same_stamp(ram: Path) -> None:
    (ram / "probe").mkdir()
    assert paths.Stamps(ram / "probe")._exact is None

    class Ram(Zones):
        below = os.fspath(ram)

    explore(Ram, 25)


@pytest.mark.skipif(os.getuid() != 0, reason="only root can be another user for a while")
def test_as_an_ordinary_user_what_is_closed_to_us_is_ours_all_the_same() -> None:
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)

        class User(Zones):
            below, user = folder, NOBODY

        explore(User, 30)
