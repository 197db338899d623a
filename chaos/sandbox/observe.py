"""Looks at a sandbox from outside: files, repositories, processes, installed packages.

What must not differ between two equal runs is masked: the sandbox's own path becomes `$SANDBOX`, a port that
the sandbox was given becomes `$NAME`. Everything is sorted.
"""

from __future__ import annotations

import errno
import functools
import hashlib
import os
import re
import stat
import subprocess
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from chaos.errors import HarnessError
from chaos.events.seen import FileEntry, Observation, Repository
from chaos.sandbox import Watch, Zones
from chaos.sandbox.processes import MASK, processes, text

ALWAYS_VOLATILE = ("**/__pycache__/**",)  # byte code holds times and is made on demand
TEXT_BYTES = 2048  # of a text file that is kept whole, so that a report can show how it differs: a note, a report
CHUNK_BYTES = 1 << 20  # content is hashed in pieces, so that a huge file does not fill our memory
GIT_SECONDS = 20.0  # a repository that answers slower than this is not one to look at in every step
GIT_LOG_LIMIT = 1000  # commits; a longer history is told by its newest part
DIST_INFO = ".dist-info"

Execute = Callable[[str, Sequence[str], Mapping[str, str]], tuple[int, bytes]]
"""Runs a command in a folder with an environment, and returns its status and its output.

It raises FileNotFoundError where there is no such program, and TimeoutExpired after `GIT_SECONDS`.
"""


def observe(
    zones: Zones,
    watch: Watch,
    pids: Collection[int],
    agent_pid: int,
    inside: Path | None = None,
    execute: Execute | None = None,
) -> Observation:
    """Describe the sandbox as it is now. Things that vanish while we look are left out.

    Args:
        zones: where they are for us.
        pids: host's numbers of all processes of the sandbox.
        agent_pid: the one among them that is the agent itself and is left out.
        inside: what the agent calls the root of its zones; None: the same as we.
        execute: runs git where it can work in the zones; None: right here.
    """
    inside = inside or zones.root
    seen = on_disk(zones, watch, inside, execute)
    return msgspec.structs.replace(seen, processes=processes(inside, watch, [pid for pid in pids if pid != agent_pid]))


def on_disk(zones: Zones, watch: Watch, inside: Path, execute: Execute | None = None) -> Observation:
    """Describe the sandbox without its processes; the arguments are those of `observe`."""
    scan = _Scan(zones.root, inside, volatile(watch))
    for zone in (zones.workspace, zones.tmp):
        scan.walk(zone, listed=True)
    return Observation(
        files=tuple(sorted(scan.files)),
        repositories=tuple(_repository(path, zones.root, execute or _run) for path in sorted(scan.repositories)),
        processes=(),
        packages=tuple(sorted([*scan.packages, *packages(zones, watch)])),
    )


def packages(zones: Zones, watch: Watch) -> list[str]:
    """Return the packages installed where files are not listed."""
    scan = _Scan(zones.root, zones.root, volatile(watch))
    for zone in (zones.durable, zones.assets):
        scan.walk(zone, listed=False)
    return scan.packages


# -- files


def volatile(watch: Watch) -> re.Pattern[str]:
    """Return what matches the paths, relative to the zones' root, that *watch* leaves out; what is below them too."""
    return _volatile((*ALWAYS_VOLATILE, *watch.volatile))


@functools.cache
def _volatile(patterns: tuple[str, ...]) -> re.Pattern[str]:
    """Compile globs: `*` and `?` stop at a slash, `**` does not, and a folder that matches takes its content along."""
    return re.compile("|".join(f"(?:{_regex(pattern.removesuffix('/**'))})" for pattern in patterns))


def _regex(pattern: str) -> str:
    tokens = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    return "".join(
        token if token.startswith("[") else tokens.get(token) or re.escape(token)
        for token in re.findall(r"\*\*/|\*\*|\*|\?|\[[^]]+\]|.", pattern, re.DOTALL)
    )


class _Scan:
    """One walk over the zones that gathers files, repositories and packages."""

    def __init__(self, root: Path, inside: Path, volatile: re.Pattern[str]) -> None:
        self.root, self.inside = os.fspath(root), os.fspath(inside)
        self.volatile = volatile
        self.files: list[FileEntry] = []
        self.repositories: list[str] = []
        self.packages: list[str] = []

    def walk(self, zone: Path, listed: bool) -> None:
        """Walk *zone* without following links; *listed*: note its files too, not only packages."""
        todo = [] if zone.is_symlink() else [(os.fspath(zone), listed)]  # an agent may put a link in the zone's place
        while todo:
            folder, listed = todo.pop()
            for entry in _entries(folder):
                below = entry.path[len(self.root) + 1 :]
                keep = listed and not self.volatile.fullmatch(below)
                if entry.name == ".git" and entry.is_dir(follow_symlinks=False):
                    if keep:
                        self.repositories.append(folder)
                    continue
                if keep:
                    self._note(entry, text(below))
                if entry.is_dir(follow_symlinks=False):
                    if entry.name.endswith(DIST_INFO):
                        self.packages.append(text(entry.name.removesuffix(DIST_INFO)))
                    todo.append((entry.path, keep))

    def _note(self, entry: os.DirEntry[str], path: str) -> None:
        try:
            info = entry.stat(follow_symlinks=False)
            mode = stat.S_IMODE(info.st_mode)
            if stat.S_ISDIR(info.st_mode):
                self.files.append(FileEntry(path, "dir", mode))
            elif stat.S_ISREG(info.st_mode):
                size, digest, said = _digest(entry.path, os.fsencode(self.inside), info.st_size)
                self.files.append(FileEntry(path, "file", mode, size, digest, text=said))
            elif stat.S_ISLNK(info.st_mode):
                target = text(os.readlink(entry.path).replace(self.inside, MASK))
                self.files.append(FileEntry(path, "link", mode, target=target))
            else:
                self.files.append(FileEntry(path, "other", mode))
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.ENAMETOOLONG):  # gone meanwhile; deeper than can be named
                raise


def _entries(folder: str) -> Iterator[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as found:
            yield from found
    except OSError:  # gone meanwhile, not ours to read, or deeper than PATH_MAX: the folder itself is listed
        return


def _digest(path: str, root: bytes, size: int) -> tuple[int, str, str]:
    """Return size and digest of the content, both with *root* masked: its length must not matter either.

    And the content itself, masked alike, of a small text file; else "".

    The digest of what cannot be read (no permission, a broken disk) is empty.
    """
    digest, total, rest, whole = hashlib.blake2b(digest_size=16), 0, b"", b""
    try:
        # O_NONBLOCK and O_NOFOLLOW: the name may have become a FIFO or a link since we looked.
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW)
        with open(file, "rb", buffering=0) as content:
            while chunk := content.read(min(size + 1, CHUNK_BYTES)):
                data = (rest + chunk).replace(root, MASK.encode())
                # A path may be cut by the end of the chunk: keep what could be its beginning.
                keep = next((n for n in range(min(len(root) - 1, len(data)), 0, -1) if data.endswith(root[:n])), 0)
                rest = data[len(data) - keep :]
                total += len(data) - keep
                digest.update(data[: len(data) - keep])
                whole += data[: len(data) - keep] if total <= TEXT_BYTES else b""
    except FileNotFoundError:
        raise
    except OSError:
        return size, "", ""
    digest.update(rest)
    total += len(rest)
    return total, digest.hexdigest(), _text(whole + rest) if total <= TEXT_BYTES else ""


def _text(content: bytes) -> str:
    """Return *content* if it is text that people read; else ""."""
    try:
        said = content.decode()
    except UnicodeDecodeError:
        return ""
    return said if said.isprintable() or all(c.isprintable() or c in "\n\t\r" for c in said) else ""


# -- repositories


def _repository(folder: str, root: Path, execute: Execute) -> Repository:
    """Ask git about the work tree *folder* without writing to it."""
    log = _git(folder, execute, "log", f"--max-count={GIT_LOG_LIMIT}", "--format=%H %s")
    status = _git(folder, execute, "status", "--porcelain")
    lines = tuple(log.splitlines())
    name = text(os.path.relpath(folder, root))
    return Repository(path=name, head=lines[0].partition(" ")[0] if lines else "", log=lines, status=_lines(status))


def _lines(text: str) -> tuple[str, ...]:
    return tuple(sorted(text.splitlines()))


def _git(folder: str, execute: Execute, *words: str) -> str:
    """Run git; a repository that is damaged or has no commit answers nothing."""
    # The agent wrote the repository's configuration: none of its programs may run outside the sandbox.
    options = ("-c", "safe.directory=*", "-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null")
    env = {
        "PATH": os.environ.get("PATH", os.defpath),
        "LC_ALL": "C.UTF-8",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_CONFIG_NOSYSTEM": "1",  # the user's own settings would change what status prints
        "GIT_CONFIG_GLOBAL": "/dev/null",
    }
    try:
        status, output = execute(folder, ["git", *options, *words], env)
    except FileNotFoundError:
        raise HarnessError(f"{folder} is a git repository, but there is no git on the PATH; install git") from None
    except subprocess.TimeoutExpired:
        limit = f"git {words[0]} in {folder} took more than {GIT_SECONDS:g} s"
        raise HarnessError(f"{limit}; declare the repository volatile or make it smaller") from None
    return output.decode("utf-8", "backslashreplace") if status == 0 else ""


def _run(folder: str, command: Sequence[str], env: Mapping[str, str]) -> tuple[int, bytes]:
    # Never the repository around the sandbox.
    env = {**env, "GIT_CEILING_DIRECTORIES": os.path.dirname(folder)}
    # Not by cwd: a folder that is gone meanwhile must not look like a git that is not there.
    done = subprocess.run(
        ["git", "-C", folder, *command[1:]],
        env=env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=GIT_SECONDS,
        check=False,
    )
    return done.returncode, done.stdout
