"""strace on processes that run already."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaos.errors import HarnessError
from chaos.sandbox import strace
from chaos.sandbox.strace import LINE, Trace

needs_strace = pytest.mark.skipif(bool(strace.missing()), reason=strace.missing())

# It writes to a device that has no room, from its main thread, from another thread and from a child.
FULL = """
import os, subprocess, sys, threading
print("ready", flush=True)
sys.stdin.readline()
def fill():
    try:
        os.write(os.open("/dev/full", os.O_WRONLY), b"x")
    except OSError as error:
        print(error.errno, flush=True)
fill()
thread = threading.Thread(target=fill); thread.start(); thread.join()
subprocess.run(["sh", "-c", "echo x > /dev/full"], stderr=subprocess.DEVNULL)
"""


@needs_strace
def test_failed_calls_of_threads_and_children_are_seen(tmp_path: Path) -> None:
    agent = subprocess.Popen([sys.executable, "-c", FULL], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert agent.stdout is not None and agent.stdout.readline() == "ready\n"
        trace = Trace(tmp_path / "log", [agent.pid])
        said, _ = agent.communicate("go\n")
        trace.close()
        trace.close()
    finally:
        agent.kill()
        agent.wait()
    assert said.split() == [str(errno.ENOSPC)] * 2
    lines = trace.failures(errno.ENOSPC)
    assert len(lines) == 3
    assert all("/dev/full" in line and "ENOSPC" in line for line in lines)
    assert len({line.split()[0] for line in lines}) == 3
    assert agent.returncode == 0


@needs_strace
def test_who_is_traced_goes_on_when_strace_is_gone(tmp_path: Path) -> None:
    agent = subprocess.Popen(["sleep", "60"])
    try:
        Trace(tmp_path / "log", [agent.pid]).close()
        assert agent.poll() is None
        agent.terminate()
        assert agent.wait() == -15
    finally:
        agent.kill()
        agent.wait()


@needs_strace
def test_who_is_not_there_cannot_be_traced(tmp_path: Path) -> None:
    gone = subprocess.Popen(["true"])
    gone.wait()
    with pytest.raises(HarnessError, match=r"strace cannot be attached: .*No such process"):
        Trace(tmp_path / "log", [gone.pid])


def test_without_strace_it_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    assert strace.missing.__wrapped__() == "no strace on the PATH: apt-get install strace"


@given(
    st.integers(1, 4_000_000), st.sampled_from(strace.NEEDED),
    st.text(st.characters(exclude_characters="\n\r", exclude_categories=("Cs", "Cc", "Zl", "Zp"))),
    st.sampled_from([errno.ENOSPC, errno.EIO]),
)  # fmt: skip
def test_a_line_is_read_whatever_its_arguments_are(pid: int, call: str, arguments: str, error: int) -> None:
    text = (
        f"{pid} {call}({arguments}) = -1 {errno.errorcode[error]} ({os.strerror(error)})\n{pid} +++ exited with 0 +++\n"
    )
    (found,) = LINE.finditer(text)
    assert (found["pid"], found["call"], found["error"]) == (str(pid), call, errno.errorcode[error])
