"""Another process reads what the agent left: what it prints is the state that a resume would see."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path

import msgspec

from chaos.errors import HarnessError
from chaos.events import NULL
from chaos.sandbox import Sandbox
from chaos.targets import Launch

RELOAD_SECONDS = 30.0  # a new process imports its runtime and reads the store


def read_back(sandbox: Sandbox, launch: Launch, env: Mapping[str, str], *, warm: bool) -> tuple[msgspec.Raw, str]:
    """Run the command of *launch* in *sandbox* and return the state that it prints, or why it could not read the store.

    Args:
        env: its whole environment.
        warm: it may be forked from a process that has its imports done.

    Raises:
        HarnessError: it ended well and printed no JSON.
    """
    try:
        status, output, errors = sandbox.run(launch.command, env, launch.warm if warm else (), RELOAD_SECONDS)
    except subprocess.TimeoutExpired:
        return NULL, f"reading the store took more than {RELOAD_SECONDS:g} s"
    if status:
        return NULL, _last_line(errors) or f"reading the store ended with status {status}"
    try:
        msgspec.json.decode(output)
    except msgspec.DecodeError as error:
        raise HarnessError(f"the reload command printed {output[:80]!r}, not a JSON object ({error})") from None
    return msgspec.Raw(output.strip()), ""


def left(path: Path) -> msgspec.Raw:
    """Return the state that the agent left in the file *path* when it ended; null if there is none.

    Raises:
        HarnessError: it is no JSON.
    """
    try:
        content = path.read_bytes()
        msgspec.json.decode(content)
    except FileNotFoundError:
        return NULL
    except (OSError, msgspec.DecodeError) as error:
        raise HarnessError(f"the agent's own state in {path.name} is no JSON: {error}") from None
    return msgspec.Raw(content.strip())


def _last_line(text: bytes) -> str:
    lines = text.decode(errors="replace").strip().splitlines()
    return lines[-1] if lines else ""
