"""The Docker engine of this machine: the connection, the image, and what dead harnesses left in it."""

from __future__ import annotations

import functools
import hashlib
import io
import itertools
import os
import tarfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from chaos.errors import HarnessError
from chaos.leftovers import PREFIX

LABEL = "pytest-chaos"
"""Of all that we make in the engine. Its value says whose it is, as our folders' names do; `IMAGE` for an image."""

REPOSITORY, IMAGE = "pytest-chaos", "image"
SECONDS = 60.0  # for one answer of the engine; a container starts in 0.2 s, on a swamped machine in several
PLACES = ("dev", "etc", "proc", "run", "sys", "tmp", "usr", "var/tmp")
"""What is in the image: places to mount something at, and folders for temporary files."""

_numbers = itertools.count(1)


@functools.cache
def connect(pid: int) -> Any:
    """Return the client of this process; *pid* is its number: a fork must not share the connection.

    `DOCKER_HOST` and its companions count, as for Docker's own command line. Untyped, for the SDK is.
    """
    import docker

    return docker.DockerClient.from_env(timeout=SECONDS)


def client() -> Any:
    return connect(os.getpid())


@contextmanager
def asking(what: str) -> Iterator[None]:
    """Turn what the engine or the connection to it raises into a HarnessError that says *what* was asked for."""
    from docker.errors import DockerException
    from requests import RequestException

    try:
        yield
    except (DockerException, RequestException) as error:
        raise HarnessError(f"Docker cannot {what}: {getattr(error, 'explanation', None) or error}") from error


def unreachable() -> str:
    """Return why there is no Docker engine to be used, and the remedy; "" if there is one."""
    from docker.errors import DockerException
    from requests import RequestException

    try:
        client().ping()
    except (DockerException, RequestException, OSError) as error:
        connect.cache_clear()  # it may be started later
        if "Permission" in str(error):
            return "this user may not use Docker's socket; as root: usermod -aG docker USER, and log in again"
        why = _innermost(error)
        return f"no Docker engine answers ({why}); install docker.io and start dockerd, or set DOCKER_HOST"
    return ""


def _innermost(error: BaseException) -> str:
    """Return the reason at the bottom: the SDK wraps a missing socket five times."""
    while error.__context__ is not None:
        error = error.__context__
    return str(getattr(error, "strerror", None) or error)


def owner() -> str:
    """Return the label's value for what this process makes."""
    return f"{PREFIX}{os.getpid()}"


def new_name() -> str:
    """Return a name for a new container or volume of this process."""
    return f"{owner()}-{next(_numbers)}-{os.urandom(4).hex()}"


# -- the image


def image() -> str:
    """Return the tag of our image, which is made if it is not there. It stays in the engine: see `remove_images`."""
    content = _empty_tree()
    tag = f"{REPOSITORY}:{hashlib.sha256(content).hexdigest()[:12]}"
    from docker.errors import ImageNotFound

    with asking(f"make the image {tag}"):
        try:
            client().images.get(tag)
        except ImageNotFound:
            client().api.import_image_from_data(
                content, repository=REPOSITORY, tag=tag.partition(":")[2], changes=[f"LABEL {LABEL}={IMAGE}"]
            )
    return tag


def _empty_tree() -> bytes:
    """Return a tar archive of empty folders, the same bytes every time."""
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for place in PLACES:
            for path in (*map(os.fspath, reversed(Path(place).parents[:-1])), place):
                archive.addfile(folder(path, mode=0o1777 if path.endswith("tmp") else 0o755))
    return file.getvalue()


def folder(path: str, mode: int = 0o755, uid: int = 0, gid: int = 0) -> tarfile.TarInfo:
    """Return a folder as an archive has it."""
    info = tarfile.TarInfo(path)
    info.type, info.mode, info.uid, info.gid = tarfile.DIRTYPE, mode, uid, gid
    return info


def images() -> list[str]:
    """Return the numbers of our images."""
    with asking("list images"):
        return [str(one.id) for one in client().images.list(all=True, filters={"label": f"{LABEL}={IMAGE}"})]


def remove_images() -> int:
    """Remove our images, those of earlier versions too, and return how many there were."""
    found = images()
    for one in found:
        with asking(f"remove the image {one}"):
            client().images.remove(one, force=True)
    return len(found)


# -- leftovers


def sweep() -> None:
    """Remove containers and volumes of harnesses that are dead: killed, they could not do it themselves."""
    _sweep(lambda pid: not Path(f"/proc/{pid}").exists())


def sweep_own() -> None:
    """Remove what this process still has, at its end: an interrupt may come between a container and its clean-up."""
    _sweep(lambda pid: pid == os.getpid())


def _sweep(doomed: Callable[[int], bool]) -> None:
    containers, volumes = _doomed(doomed)
    for container in containers:
        remove_container(container)
    for volume in volumes:
        remove_volume(volume)


def stale() -> tuple[list[str], list[str]]:
    """Return the containers and the volumes of harnesses that are dead."""
    return _doomed(lambda pid: not Path(f"/proc/{pid}").exists())


def _doomed(doomed: Callable[[int], bool]) -> tuple[list[str], list[str]]:
    with asking("list containers and volumes"):
        containers = client().containers.list(all=True, ignore_removed=True, filters={"label": LABEL})
        volumes = client().volumes.list(filters={"label": LABEL})
    return (
        [str(each.id) for each in containers if _ours(each.labels, doomed)],
        [str(each.name) for each in volumes if _ours(each.attrs["Labels"], doomed)],
    )


def _ours(labels: dict[str, str], doomed: Callable[[int], bool]) -> bool:
    pid = labels[LABEL].removeprefix(PREFIX)  # of another process-id namespace: no number remains
    return pid.isdigit() and doomed(int(pid))


def remove_container(name: str) -> None:
    """Kill and remove a container and its disk; that it is gone, or going, is fine."""
    from docker.errors import APIError, NotFound

    with asking(f"remove the container {name}"), suppress(NotFound):
        try:
            client().api.remove_container(name, force=True)
        except APIError as error:
            if "already in progress" not in str(error.explanation):
                raise


def remove_volume(name: str) -> None:
    """Remove a volume, not what it is bound to; that it is gone is fine."""
    from docker.errors import NotFound

    with asking(f"remove the volume {name}"), suppress(NotFound):
        client().api.remove_volume(name)
