"""One container and its volume: how they are made, what is on the disk of it, and a program run in it."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from chaos.sandbox import Zones
from chaos.sandbox.docker import engine
from chaos.sandbox.hierarchy import PIDS_LIMIT

ENTRY = Path(__file__).with_name("entry.py")
TIMED_OUT = 124  # status of timeout(1) when it had to end its command
NO_PROGRAM = 127  # its status when there is no such program


@dataclass(frozen=True)
class Made:
    """What a container is made of.

    Args:
        volume: name of the volume of the durable zone.
        memory_bytes: its limit; 0: none.
        caller: name of the socket at which its first program asks for its order.
    """

    name: str
    hostname: str
    volume: str
    memory_bytes: int
    caller: str


def create(made: Made, zones: Zones, visible: Sequence[str]) -> None:
    """Make a container, and the *zones* that are on its own disk.

    Args:
        visible: folders of this machine that it sees, read-only.
    """
    from docker.types import Mount

    gifts = os.path.realpath(zones.assets)
    with engine.asking(f"make the container {made.name}"):
        engine.client().containers.create(
            engine.image(),
            [sys.executable, "-I", "-S", str(ENTRY), made.caller],
            name=made.name,
            hostname=made.hostname,
            user=f"{os.geteuid()}:{os.getegid()}",
            labels={engine.LABEL: engine.owner()},
            mounts=[
                *(Mount(path, path, "bind", read_only=True) for path in visible),
                Mount(str(zones.assets), gifts, "bind", read_only=True),
                Mount(str(zones.durable), made.volume, "volume", no_copy=True),
            ],
            network_mode="host",
            userns_mode="host",  # files of the agent must be ours
            security_opt=["label=disable"],  # SELinux would hide what is bound
            mem_limit=made.memory_bytes or None,
            memswap_limit=made.memory_bytes or None,
            pids_limit=PIDS_LIMIT,
            log_config={"type": "none"},  # we have the output
        )
    with engine.asking(f"make the zones in {made.name}"):
        engine.client().api.put_archive(made.name, "/", _own(zones))


def make_volume(name: str, folder: Path) -> None:
    """Make the volume *name* on *folder*, if it is not there yet."""
    options = {"type": "none", "o": "bind", "device": str(folder)}
    labels = {engine.LABEL: engine.owner()}
    with engine.asking(f"make the volume {name}"):  # where there is an equal one, the engine returns it
        engine.client().volumes.create(name, driver="local", driver_opts=options, labels=labels)


def _own(zones: Zones) -> bytes:
    """Return an archive of the folders that are on a container's own disk, with their owners."""
    file, mine = io.BytesIO(), (os.geteuid(), os.getegid())
    with tarfile.open(fileobj=file, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for path in (*reversed(zones.root.parents), zones.root, zones.workspace, zones.tmp):
            name, own = os.fspath(path).lstrip("/"), path.is_relative_to(zones.root)
            if name and name not in engine.PLACES:
                archive.addfile(engine.folder(name, 0o755, *(mine if own else (0, 0))))
    return file.getvalue()


def diff(name: str) -> list[dict[str, Any]]:
    """Return what the layer of container *name* has that its image has not: each a path and a kind of change."""
    with engine.asking(f"compare {name} with its image"):
        return list(engine.client().api.diff(name) or ())


def execute(
    name: str, folder: str, command: Sequence[str], env: Mapping[str, str], seconds: float
) -> tuple[int, bytes]:
    """Run *command* in the running container *name* and return its status and output.

    Raises:
        FileNotFoundError: there is no such program.
        TimeoutExpired: it took more than *seconds*, and was ended.
    """
    api = engine.client().api
    with engine.asking(f"run {command[0]} in {name}"):
        made = api.exec_create(name, ["timeout", str(seconds), *command], workdir=folder, environment=dict(env))["Id"]
        output, _ = api.exec_start(made, demux=True)
        status: int = api.exec_inspect(made)["ExitCode"]
    if status == TIMED_OUT:
        raise subprocess.TimeoutExpired(list(command), seconds)
    if status == NO_PROGRAM:
        raise FileNotFoundError(command[0])
    return status, output or b""
