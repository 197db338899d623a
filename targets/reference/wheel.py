"""The wheel that the agent is given: `salesmath` from this folder, with the same bytes in every build."""

from __future__ import annotations

import base64
import hashlib
import zipfile
from pathlib import Path

NAME, VERSION = "salesmath", "1.0"
WHEEL = f"{NAME}-{VERSION}-py3-none-any.whl"

_EPOCH = (1980, 1, 1, 0, 0, 0)  # the oldest date that a zip file can hold
_INFO = f"{NAME}-{VERSION}.dist-info"
_METADATA = {
    "METADATA": f"Metadata-Version: 2.1\nName: {NAME}\nVersion: {VERSION}\n",
    "WHEEL": "Wheel-Version: 1.0\nGenerator: chaos\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
}


def build(folder: Path) -> Path:
    """Write the wheel into *folder* and return its path."""
    sources = sorted((Path(__file__).parent / NAME).glob("*.py"))
    files = {f"{NAME}/{path.name}": path.read_bytes() for path in sources}
    files |= {f"{_INFO}/{name}": text.encode() for name, text in _METADATA.items()}
    record = "".join(f"{name},sha256={_sha256(data)},{len(data)}\n" for name, data in files.items())
    files[f"{_INFO}/RECORD"] = f"{record}{_INFO}/RECORD,,\n".encode()
    path = folder / WHEEL
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in files.items():
            info = zipfile.ZipInfo(name, _EPOCH)
            info.external_attr = 0o644 << 16
            archive.writestr(info, data)
    return path


def _sha256(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
