"""The agent's shell: one bash that lives as long as the incarnation, with a working directory and an environment."""

from __future__ import annotations

import os
import re
import select
import shlex
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

BASH = ("bash", "--norc", "--noprofile")
RUN_SECONDS = 30.0  # far above any command of a workload, below every deadline
MAX_OUTPUT_BYTES = 4 << 20  # a flood must not fill the conversation, nor our memory
READ_BYTES = 1 << 16

_END = re.compile(rb"\0(\d+)\0\Z")


class ShellError(Exception):
    """The shell could not run a command to its end."""


class Shell:
    """A persistent bash in *cwd* whose whole environment is *environment*."""

    def __init__(self, cwd: Path, environment: Mapping[str, str]) -> None:
        self._process = subprocess.Popen(
            BASH, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            cwd=cwd, env=environment, bufsize=0, start_new_session=True,
        )  # fmt: skip

    def run(self, command: str) -> tuple[int, str]:
        """Run *command* in the shell itself and return (status, standard output).

        What it says on standard error is dropped: it names line numbers and paths, which differ from run to run.
        """
        # eval: a syntax error must not end the shell. The status between zero bytes marks the end of the output.
        self._send(f"{{ eval {shlex.quote(command)}; }} </dev/null 2>/dev/null; printf '\\0%d\\0' $?\n")
        status, output = self._receive()
        return status, output.decode(errors="replace")

    def export(self, variables: Mapping[str, str]) -> None:
        """Set *variables* and start the shell anew in its place, so that the kernel's record of it shows them."""
        exports = " ".join(f"{name}={shlex.quote(value)}" for name, value in variables.items())
        self._send(f"export {exports}; exec {' '.join(BASH)}\n")
        self.run(":")

    def close(self) -> None:
        """End the shell. What it started in the background lives on."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.kill()
        self._process.wait()
        self._process.stdin.close()
        self._process.stdout.close()

    def _send(self, line: str) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(line.encode())
        except OSError as error:
            raise ShellError("the shell is gone") from error

    def _receive(self) -> tuple[int, bytes]:
        assert self._process.stdout is not None
        pipe = self._process.stdout.fileno()
        end = time.monotonic() + RUN_SECONDS
        output = bytearray()
        while True:
            ready, _, _ = select.select([pipe], [], [], max(0.0, end - time.monotonic()))
            data = os.read(pipe, READ_BYTES) if ready else b""
            if not data or len(output) > MAX_OUTPUT_BYTES:
                self._process.kill()
                raise ShellError("the shell is gone" if ready and not data else "the command did not end in bounds")
            output += data
            if found := _END.search(output, max(0, len(output) - 8)):
                return int(found[1]), bytes(output[: found.start()])
