"""The background service as the agent handles it: start it from the shell, ask it, end it."""

from __future__ import annotations

import json
import os
import shlex
import signal
import socket
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from chaos.targets.reference import packages
from chaos.targets.reference.shell import Shell

HOST = "127.0.0.1"
START_SECONDS = 10.0  # an interpreter starts in 20 ms; a loaded machine may take a hundred times that
POLL_SECONDS = 0.003
ANSWER_SECONDS = 10.0
MAX_ANSWER_BYTES = 1 << 20


class EngineError(Exception):
    """The service does not run or does not answer; the text is for the model."""


class Engine:
    """A service on *port* from the private environment of *workspace*, run by *interpreter*."""

    def __init__(self, port: int, workspace: Path, interpreter: str) -> None:
        self._port, self._workspace, self._interpreter = port, workspace, interpreter
        self._pid = 0

    def start(self, shell: Shell, command: Sequence[str]) -> None:
        """Start `python -m MODULE ARGUMENT...` in the shell's background, detached, unless it answers already."""
        if self._answers():
            return
        library = shlex.quote(str(self._workspace / packages.FOLDER))
        # -S: the private environment is all that the service sees, and it starts in half the time.
        words = " ".join(map(shlex.quote, [self._interpreter, "-S", "-m", *command]))
        status, output = shell.run(f"PYTHONPATH={library} nohup {words} >/dev/null 2>&1 </dev/null & echo $!")
        if status or not output.strip().isdigit():
            raise EngineError(f"{command[0]} did not start")
        self._pid = int(output)
        end = time.monotonic() + START_SECONDS
        while not self._answers():
            if time.monotonic() > end or not _alive(self._pid):
                raise EngineError(f"{command[0]} did not start")
            time.sleep(POLL_SECONDS)

    def query(self, query: Mapping[str, object]) -> str:
        """Return the service's answer, a line of JSON."""
        try:
            with socket.create_connection((HOST, self._port), ANSWER_SECONDS) as connection:
                connection.sendall(json.dumps(query, sort_keys=True).encode() + b"\n")
                with connection.makefile("rb") as stream:
                    answer = stream.readline(MAX_ANSWER_BYTES)
        except OSError:
            answer = b""
        if not answer.endswith(b"\n"):
            raise EngineError("the service does not answer")
        return answer.decode(errors="replace").strip()

    def stop(self) -> None:
        """End the service if this incarnation started it."""
        if self._pid:
            with suppress(ProcessLookupError):
                os.kill(self._pid, signal.SIGTERM)

    def _answers(self) -> bool:
        try:
            return bool(self.query({"kind": "ping"}))
        except EngineError:
            return False


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
