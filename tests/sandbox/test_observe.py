"""Observations: real folders, repositories and processes; what must not matter between equal runs is masked."""

from __future__ import annotations

import hashlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from chaos.events.seen import FileEntry, Observation, ProcessEntry
from chaos.sandbox import Watch, Zones
from chaos.sandbox.observe import CHUNK_BYTES, TEXT_BYTES, observe
from chaos.sandbox.processes import descendants
from tests.waiting import PATIENCE


@pytest.fixture
def zones(tmp_path: Path) -> Zones:
    return make(tmp_path / "box")


def make(root: Path) -> Zones:
    zones = Zones(root)
    for zone in (zones.durable, zones.workspace, zones.tmp, zones.assets):
        zone.mkdir(parents=True)
    return zones


def look(zones: Zones, watch: Watch | None = None) -> Observation:
    return observe(zones, watch or Watch(), (), 0)


def paths(zones: Zones, *volatile: str) -> list[str]:
    return [entry.path for entry in look(zones, Watch(volatile=volatile)).files]


# -- files


def test_kinds_modes_and_links(zones: Zones) -> None:
    folder = zones.workspace / "folder"
    folder.mkdir(mode=0o750)
    (folder / "file").write_bytes(b"abc")
    os.chmod(folder / "file", 0o4640)
    os.symlink(folder / "file", zones.tmp / "inside")
    os.symlink("/etc", zones.tmp / "outside")
    os.mkfifo(zones.tmp / "fifo", 0o600)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(zones.tmp / "s"))
        os.chmod(zones.tmp / "s", 0o600)
        seen = look(zones).files
    assert seen == (
        FileEntry("tmp/fifo", "other", 0o600),
        FileEntry("tmp/inside", "link", 0o777, target="$SANDBOX/workspace/folder/file"),
        FileEntry("tmp/outside", "link", 0o777, target="/etc"),
        FileEntry("tmp/s", "other", 0o600),
        FileEntry("workspace/folder", "dir", 0o750),
        FileEntry(
            "workspace/folder/file", "file", 0o4640, 3, hashlib.blake2b(b"abc", digest_size=16).hexdigest(), text="abc"
        ),
    )


@pytest.mark.parametrize(
    ("content", "kept"),
    [
        (b"caf\xc3\xa9\n\tx", "café\n\tx"),
        (b"", ""),
        (b"\xff\xfe", ""),
        (b"a\x00b", ""),
        (b"\x1b[31m", ""),
        (b"x" * TEXT_BYTES, "x" * TEXT_BYTES),
        (b"x" * (TEXT_BYTES + 1), ""),
    ],
)
def test_a_small_text_file_is_kept_whole(zones: Zones, content: bytes, kept: str) -> None:
    (zones.workspace / "file").write_bytes(content)
    (seen,) = look(zones).files
    assert seen.text == kept


def test_a_kept_text_names_the_sandbox_as_every_run_does(zones: Zones) -> None:
    (zones.workspace / "file").write_bytes(os.fsencode(zones.root) + b"/x")
    (seen,) = look(zones).files
    assert seen.text == "$SANDBOX/x"


def test_equal_content_in_another_folder_is_equal(tmp_path: Path) -> None:
    seen = []
    for name in ("a", "a-much-longer-name"):
        zones = make(tmp_path / name)
        root = os.fsencode(zones.root)
        (zones.workspace / "small").write_bytes(b"[" + root + b"/durable]" + root)
        # A path across the end of a chunk, one that only begins like it at the end, and one that nearly is it.
        cut = CHUNK_BYTES - len(root) // 2
        (zones.workspace / "big").write_bytes(b"x" * CHUNK_BYTES * 2)
        (zones.tmp / "cut").write_bytes(b"x" * cut + root + b"y" * (CHUNK_BYTES - cut) + b"/tm")
        os.symlink(zones.root / "nowhere", zones.tmp / "link")
        seen.append({entry.path: entry for entry in look(zones).files})
    first, second = seen
    for path in ("workspace/small", "workspace/big", "tmp/link"):
        assert first[path] == second[path]
    assert first["workspace/small"].size == len("[$SANDBOX/durable]$SANDBOX")


@pytest.mark.parametrize("shift", [0, 1, 2, 5, 40])
def test_a_path_across_chunks_is_masked(zones: Zones, shift: int) -> None:
    root = os.fsencode(zones.root)
    before = CHUNK_BYTES - len(root) + shift
    (zones.workspace / "cut").write_bytes(b"/" * before + root + root[:3])
    (zones.workspace / "same").write_bytes(b"/" * before + b"$SANDBOX" + root[:3])
    cut, same = look(zones).files
    assert (cut.size, cut.digest) == (same.size, same.digest)


def test_content_matters(zones: Zones) -> None:
    (zones.workspace / "a").write_bytes(b"1")
    (zones.workspace / "b").write_bytes(b"2")
    one, two = look(zones).files
    assert one.digest != two.digest


def test_volatile_paths_are_left_out(zones: Zones) -> None:
    for name in ("a.log", "b.txt", "sub/c.log", "sub/deep/d.log", "cache/x/y", "m/__pycache__/m.pyc", "ab"):
        path = zones.workspace / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    everything = paths(zones)
    assert not [path for path in everything if "__pycache__" in path]
    assert "workspace/m" in everything
    assert set(everything) - set(paths(zones, "workspace/**/*.log")) == {
        "workspace/a.log",
        "workspace/sub/c.log",
        "workspace/sub/deep/d.log",
    }
    assert set(everything) - set(paths(zones, "workspace/*.log")) == {"workspace/a.log"}
    cache = {"workspace/cache", "workspace/cache/x", "workspace/cache/x/y"}
    assert set(everything) - set(paths(zones, "**/cache")) == cache
    assert set(everything) - set(paths(zones, "workspace/cache/**")) == cache
    assert set(everything) - set(paths(zones, "workspace/?b")) == {"workspace/ab"}
    assert set(everything) - set(paths(zones, "workspace/[xa]b")) == {"workspace/ab"}


def test_odd_names_and_unreadable_things_do_not_stop_it(zones: Zones) -> None:
    os.mkdir(os.fsencode(zones.workspace) + b"/\xff")
    (zones.workspace / "secret").write_bytes(b"abc")
    os.chmod(zones.workspace / "secret", 0)
    (zones.workspace / "closed").mkdir(mode=0)
    here = os.getcwd()
    os.chdir(zones.tmp)
    for _ in range(30):
        os.mkdir("d" * 200)
        os.chdir("d" * 200)
    os.chdir(here)
    seen = look(zones).files
    assert "workspace/\\xff" in [entry.path for entry in seen]
    assert next(entry.size for entry in seen if entry.path == "workspace/secret") == 3
    shutil.rmtree(zones.tmp, ignore_errors=True)


def test_packages_of_all_zones_even_in_volatile_folders(zones: Zones) -> None:
    for name in ("workspace/venv/lib/b-2.0.dist-info", "durable/site/a-1.0.dist-info", "tmp/c-1.dist-info"):
        (zones.root / name).mkdir(parents=True)
    (zones.workspace / "no.dist-info").touch()
    seen = look(zones, Watch(volatile=("workspace/venv",)))
    assert seen.packages == ("a-1.0", "b-2.0", "c-1")
    assert not [entry for entry in seen.files if "venv" in entry.path]


def test_a_hundred_files_are_cheap(zones: Zones) -> None:
    for number in range(100):
        (zones.workspace / f"file-{number}").write_bytes(b"x" * 1000)
    best = min(_seconds(lambda: observe(zones, Watch(), descendants(os.getpid()), 0)) for _ in range(10))
    print(f"observe: {best * 1000:.1f} ms")
    assert best < 0.05, "aim: 0.01 s; the rest is room for a busy machine"


def _seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


# -- repositories


@pytest.mark.skipif(shutil.which("git") is None, reason="git is missing")
def test_repository_is_summarised_and_not_touched(zones: Zones) -> None:
    folder = zones.workspace / "repo"
    date = "2026-01-02T03:04:05Z"
    names = {"GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@b", "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@b"}
    env = {**os.environ, **names, "GIT_AUTHOR_DATE": date, "GIT_COMMITTER_DATE": date, "GIT_CONFIG_GLOBAL": "/dev/null"}

    def git(*words: str) -> None:
        subprocess.run(["git", "-C", folder, *words], check=True, env=env, capture_output=True)

    folder.mkdir()
    git("init", "-b", "main")
    (empty,) = look(zones).repositories
    assert (empty.path, empty.head, empty.log, empty.status) == ("workspace/repo", "", (), ())
    for number in (1, 2):
        (folder / "file").write_text(f"{number}")
        git("add", "file")
        git("commit", "-m", f"change {number}")
    (folder / "new").touch()
    (folder / "file").write_text("3")
    os.utime(folder / "file", (1, 1))  # the index's times are stale: git would like to write it anew
    git("config", "core.fsmonitor", f"touch {zones.tmp}/escaped")  # the agent's programs must not run outside
    index = (folder / ".git/index").read_bytes()
    seen = look(zones)
    (repository,) = seen.repositories
    assert [line.split(" ", 1)[1] for line in repository.log] == ["change 2", "change 1"]
    assert repository.head == repository.log[0].split()[0]
    assert repository.status == (" M file", "?? new")
    assert [entry.path for entry in seen.files] == ["workspace/repo", "workspace/repo/file", "workspace/repo/new"]
    assert (folder / ".git/index").read_bytes() == index
    assert not (zones.tmp / "escaped").exists()
    assert look(zones, Watch(volatile=("workspace/repo",))).repositories == ()
    shutil.rmtree(folder / ".git/objects")
    (broken,) = look(zones).repositories
    assert broken.log == ()


# -- processes


SERVER = """
import os, socket, sys, time
listener = socket.create_server(("127.0.0.1", int(sys.argv[1])))
other = socket.create_server(("::1", 0), family=socket.AF_INET6) if "six" in sys.argv else None
if (child := os.fork()) == 0: os._exit(0)
os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)  # it is a zombie now
open("ready", "w").write(str(other.getsockname()[1] if other else ""))
time.sleep(1000)
"""


@pytest.fixture
def server(zones: Zones) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    root = str(zones.root)
    env = {"HOME": f"{root}/workspace", "URL": f"http://localhost:{port}/v1", "SECRET": "x"}
    command = [sys.executable, "-I", "-S", "-c", SERVER, str(port), f"--data={root}/durable", f"1{port}", f"--p={port}"]
    process = subprocess.Popen(command, cwd=zones.workspace, env=env)
    deadline = time.monotonic() + PATIENCE
    while not (zones.workspace / "ready").exists():
        assert time.monotonic() < deadline
        time.sleep(0.005)
    yield process, port
    process.kill()
    process.wait()


def test_processes_are_described_and_masked(zones: Zones, server: tuple[subprocess.Popen[bytes], int]) -> None:
    process, port = server
    watch = Watch(environment=("URL", "HOME", "ABSENT"), ports=(("ENGINE_PORT", port),))
    pids = descendants(os.getpid())
    assert process.pid in pids
    assert not [pid for pid in pids if pid in descendants(process.pid)], "the zombie is no live process"
    (seen,) = observe(zones, watch, [process.pid, os.getpid()], os.getpid()).processes
    assert seen == ProcessEntry(
        argv=(
            *(sys.executable, "-I", "-S", "-c", SERVER),
            *("$ENGINE_PORT", "--data=$SANDBOX/durable", f"1{port}", "--p=$ENGINE_PORT"),
        ),
        cwd="$SANDBOX/workspace",
        environment=(("HOME", "$SANDBOX/workspace"), ("URL", "http://localhost:$ENGINE_PORT/v1")),
        ports=("$ENGINE_PORT",),
        pid=process.pid,
    )
    (plain,) = observe(zones, Watch(), [process.pid], 0).processes
    assert plain.ports == (str(port),) and plain.environment == ()


def test_dead_processes_are_left_out(zones: Zones, server: tuple[subprocess.Popen[bytes], int]) -> None:
    process, _ = server
    process.send_signal(signal.SIGKILL)
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # a zombie now
    assert observe(zones, Watch(), [process.pid, 2**22 + 1], 0).processes == ()
