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

from chaos.errors import HarnessError
from chaos.events.seen import FileEntry, Observation, ProcessEntry, Repository
from chaos.sandbox import Watch, Zones

MASK = "$SANDBOX"
ALWAYS_VOLATILE = ("**/__pycache__/**",)  # byte code holds times and is made on demand
CHUNK_BYTES = 1 << 20  # content is hashed in pieces, so that a huge file does not fill our memory
GIT_SECONDS = 20.0  # a repository that answers slower than this is not one to look at in every step
GIT_LOG_LIMIT = 1000  # commits; a longer history is told by its newest part
LISTEN = "0A"  # state of a listening socket in /proc/net/tcp
DEAD = "ZXx"  # states of processes that only wait to be reaped
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
    scan = _Scan(zones.root, inside, volatile(watch))
    for zone in (zones.workspace, zones.tmp):
        scan.walk(zone, listed=True)
    for zone in (zones.durable, zones.assets):
        scan.walk(zone, listed=False)
    return Observation(
        files=tuple(sorted(scan.files)),
        repositories=tuple(_repository(path, zones.root, execute or _run) for path in sorted(scan.repositories)),
        processes=_processes(inside, watch, [pid for pid in pids if pid != agent_pid]),
        packages=tuple(sorted(scan.packages)),
    )


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
                    self._note(entry, _text(below))
                if entry.is_dir(follow_symlinks=False):
                    if entry.name.endswith(DIST_INFO):
                        self.packages.append(_text(entry.name.removesuffix(DIST_INFO)))
                    todo.append((entry.path, keep))

    def _note(self, entry: os.DirEntry[str], path: str) -> None:
        try:
            info = entry.stat(follow_symlinks=False)
            mode = stat.S_IMODE(info.st_mode)
            if stat.S_ISDIR(info.st_mode):
                self.files.append(FileEntry(path, "dir", mode))
            elif stat.S_ISREG(info.st_mode):
                size, digest = _digest(entry.path, os.fsencode(self.inside), info.st_size)
                self.files.append(FileEntry(path, "file", mode, size, digest))
            elif stat.S_ISLNK(info.st_mode):
                target = _text(os.readlink(entry.path).replace(self.inside, MASK))
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


def _digest(path: str, root: bytes, size: int) -> tuple[int, str]:
    """Return size and digest of the content, both with *root* masked: its length must not matter either.

    The digest of what cannot be read (no permission, a broken disk) is empty.
    """
    digest, total, rest = hashlib.blake2b(digest_size=16), 0, b""
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
    except FileNotFoundError:
        raise
    except OSError:
        return size, ""
    digest.update(rest)
    return total + len(rest), digest.hexdigest()


def _text(name: str) -> str:
    """Make a file name storable as UTF-8: odd bytes are shown by their hexadecimal number."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


# -- repositories


def _repository(folder: str, root: Path, execute: Execute) -> Repository:
    """Ask git about the work tree *folder* without writing to it."""
    log = _git(folder, execute, "log", f"--max-count={GIT_LOG_LIMIT}", "--format=%H %s")
    status = _git(folder, execute, "status", "--porcelain")
    lines = tuple(log.splitlines())
    name = _text(os.path.relpath(folder, root))
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


# -- processes


def descendants(root_pid: int) -> set[int]:
    """Return all live processes below *root_pid*, host's numbers."""
    below: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit() and (found := _stat(int(name))) and found[0] not in DEAD:
            below.setdefault(found[1], []).append(int(name))
    tree, todo = set[int](), [root_pid]
    while todo:
        new = below.get(todo.pop(), [])
        tree.update(new)
        todo += new
    return tree


def _stat(pid: int) -> tuple[str, int] | None:
    """Return state letter and parent of a process."""
    raw = _read(f"/proc/{pid}/stat")
    state, parent, *_ = raw.rpartition(b")")[2].split() or (b"", b"")
    return (state.decode(), int(parent)) if parent else None


def _read(path: str) -> bytes:
    """Return a kernel file's content; nothing where the process is gone or not ours."""
    try:
        with open(path, "rb", buffering=0) as file:
            return file.read()
    except OSError:
        return b""


def _processes(root: Path, watch: Watch, pids: Collection[int]) -> tuple[ProcessEntry, ...]:
    listening = functools.cache(_listening)  # read on demand, once: the kernel walks its whole table, some 8 ms
    mask = _Mask(root, watch.ports)
    entries = (_process(pid, mask, watch, listening) for pid in pids)
    return tuple(sorted(entry for entry in entries if entry))


class _Mask:
    """Replaces what differs between equal runs: the sandbox's path, and the ports it was given."""

    def __init__(self, root: Path, ports: tuple[tuple[str, int], ...]) -> None:
        self.root = os.fspath(root)
        self.names = {str(port): f"${name}" for name, port in ports}
        # A whole argument ("4242"), or the end of one ("--port=4242", "localhost:4242", "http://localhost:4242/v1").
        self.port = re.compile(rf"(?:^|(?<=[:=]))({'|'.join(self.names) or '(?!)'})(?=$|/)")

    def __call__(self, raw: bytes) -> str:
        text = _text(os.fsdecode(raw).replace(self.root, MASK))
        return self.port.sub(lambda match: self.names[match[1]], text)


def _process(pid: int, mask: _Mask, watch: Watch, listening: Callable[[], dict[str, int]]) -> ProcessEntry | None:
    command = _read(f"/proc/{pid}/cmdline")
    found = _stat(pid)
    if not command or not found or found[0] in DEAD:
        return None
    try:
        cwd = os.readlink(f"/proc/{pid}/cwd")
    except OSError:
        cwd = ""
    variables = dict(
        entry.partition(b"=")[::2] for entry in _read(f"/proc/{pid}/environ").split(b"\0") if watch.environment
    )
    names = [name for name in sorted(watch.environment) if name.encode() in variables]
    return ProcessEntry(
        argv=tuple(mask(word) for word in command.removesuffix(b"\0").split(b"\0")),
        cwd=mask(os.fsencode(cwd)),
        environment=tuple((name, mask(variables[name.encode()])) for name in names),
        ports=tuple(sorted({mask(str(port).encode()) for port in _ports(pid, listening)})),
        pid=pid,
    )


def _listening() -> dict[str, int]:
    """Return the port of each listening TCP socket by its link text, "socket:[INODE]"."""
    found = {}
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in _read(table).decode().splitlines()[1:]:
            fields = line.split()
            if fields[3] == LISTEN:
                found[f"socket:[{fields[9]}]"] = int(fields[1].rpartition(":")[2], 16)
    return found


def _ports(pid: int, listening: Callable[[], dict[str, int]]) -> Iterator[int]:
    folder = f"/proc/{pid}/fd"
    try:
        names = os.listdir(folder)
    except OSError:
        return
    for name in names:
        try:
            link = os.readlink(f"{folder}/{name}")
        except OSError:
            continue
        if link.startswith("socket:") and link in listening():
            yield listening()[link]
