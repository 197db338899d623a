"""The manifest C = (turns, files, processes): which artefacts belong to the end of which turn.

It has the accounts of the half outside the sandbox as well: with it, another one can go on from what is stored here.

semantic/manifest.json        the newest that is done; a pending one lies beside it until its name is taken over
semantic/artefacts/DIGEST     a tree of files, a list of processes: JSON, named by its digest
semantic/objects/DIGEST       contents of files
semantic/images/TURN...       memory of processes
semantic/refused              why the half outside the sandbox could not put a snapshot back
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from hashlib import blake2b
from pathlib import Path

from chaos.targets.reference.agent import canonical
from chaos.targets.reference.snapshot import CorruptStore


@dataclass(frozen=True)
class Manifest:
    """The end of *turns* turns: *files* and *processes* name artefacts, *images* a folder of memory or "".

    *accounts* are the figures of the half outside as they were when it was published, its own bytes not yet counted.
    """

    turns: int
    files: str
    processes: str
    images: str = ""
    accounts: Mapping[str, int] = field(default_factory=dict)

    @property
    def body(self) -> bytes:
        """What is stored of it, besides its checksum."""
        return canonical(asdict(self))


def folder(durable: Path) -> Path:
    """Return the folder of all that the half outside stores."""
    return durable / "semantic"


def newest(durable: Path) -> Manifest | None:
    """Return the newest manifest that is done, None if there is none; raise CorruptStore if it is not as it was."""
    refused, path = folder(durable) / "refused", folder(durable) / "manifest.json"
    if refused.exists():
        raise CorruptStore(refused.read_text())
    if not path.exists():
        return None
    checksum, _, body = path.read_bytes().partition(b"\n")
    if checksum != _digest(body).encode():
        raise CorruptStore("the manifest is damaged")
    return Manifest(**json.loads(body))


def publish(durable: Path, manifest: Manifest) -> int:
    """Make *manifest* the newest, whole and durable, forget what only the last one needed; return the bytes written."""
    place, body = folder(durable), manifest.body
    _write(place / "manifest.json.pending", _digest(body).encode() + b"\n" + body)
    (place / "manifest.json.pending").rename(place / "manifest.json")
    synced(place)
    for artefact in (place / "artefacts").iterdir():
        if artefact.name not in (manifest.files, manifest.processes):
            artefact.unlink()
    for images in (place / "images").iterdir():
        if images.name != manifest.images:
            shutil.rmtree(images)
    return len(body)


def keep(durable: Path, artefact: object) -> tuple[str, int]:
    """Store *artefact* durably; return its name and the bytes written."""
    body = canonical(artefact)
    place = folder(durable) / "artefacts" / _digest(body)
    _write(place, body)
    synced(place.parent)
    return place.name, len(body)


def artefact(durable: Path, name: str) -> object:
    """Return the artefact *name*; raise CorruptStore if it is gone or not what it was."""
    place = folder(durable) / "artefacts" / name
    body = place.read_bytes() if place.exists() else b""
    if _digest(body) != name:
        raise CorruptStore(f"the artefact {name} of the snapshot is {'damaged' if body else 'gone'}")
    return json.loads(body)


def refuse(durable: Path, why: str) -> None:
    """Have the agent refuse to resume: what it would find is not what was stored."""
    _write(folder(durable) / "refused", why.encode())


def synced(place: Path) -> None:
    """Make durable what *place*, a file or a folder, holds."""
    descriptor = os.open(place, os.O_RDONLY)
    os.fsync(descriptor)
    os.close(descriptor)


def _write(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    synced(path)


def _digest(data: bytes) -> str:
    return blake2b(data, digest_size=16).hexdigest()
