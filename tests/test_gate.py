"""The gate holds an agent still: the probe's two ends, over a real socket, in real processes."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import pytest

from chaos.errors import HarnessError
from chaos.gate import Gate
from chaos.probe import EXIT_WITHOUT_HARNESS, GATE

AGENT = """
import sys
from chaos.probe import point
for step in range(3):
    point("before_act", step)
    print(step, flush=True)
point("finished", 3, state="digest", snapshot={"steps": 3})
"""


@pytest.fixture
def gate() -> Iterator[Gate]:
    gate = Gate()
    yield gate
    gate.close()


def start(gate: Gate, code: str = AGENT) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", code], env={GATE: gate.address}, stdout=subprocess.PIPE)


def test_the_agent_stands_still_until_it_may_go(gate: Gate) -> None:
    with start(gate) as agent:
        for step in range(3):
            held = gate.next(10)
            assert held is not None
            assert (held.said.point, held.said.step, held.said.key) == ("before_act", step, f"step-{step}")
            assert gate.next(0.05) is None  # nothing comes while it is held
            gate.go(held)
        last = gate.next(10)
        assert last is not None
        assert last.said.snapshot is not None
        assert bytes(last.said.snapshot) == b'{"steps":3}'
        gate.go(last)
        assert agent.wait(10) == 0
        assert agent.stdout is not None
        assert agent.stdout.read().split() == [b"0", b"1", b"2"]


def test_a_dead_agent_hangs_up(gate: Gate) -> None:
    with start(gate) as agent:
        held = gate.next(10)
        assert held is not None
        agent.kill()
        agent.wait(10)
        assert gate.next(10) is None
        assert gate.hung_up
        gate.go(held)  # no error


def test_without_the_harness_the_agent_ends(gate: Gate) -> None:
    with start(gate) as agent:
        assert gate.next(10) is not None
        gate.close()
        assert agent.wait(10) == EXIT_WITHOUT_HARNESS


def test_outside_a_run_the_probe_does_nothing() -> None:
    done = subprocess.run([sys.executable, "-c", AGENT], env={}, capture_output=True, check=True)
    assert done.stdout.split() == [b"0", b"1", b"2"]


def test_threads_share_one_connection(gate: Gate) -> None:
    code = """
import threading
from chaos.probe import point
threads = [threading.Thread(target=lambda n=n: [point("before_act", n) for _ in range(20)]) for n in range(4)]
[t.start() for t in threads]; [t.join() for t in threads]
"""
    with start(gate, code) as agent:
        seen = [0] * 4
        for _ in range(80):
            held = gate.next(10)
            assert held is not None
            seen[held.said.step] += 1
            gate.go(held)
        assert agent.wait(10) == 0
        assert seen == [20] * 4


def test_a_fork_connects_anew(gate: Gate) -> None:
    code = """
import os
from chaos.probe import point
point("before_act", 0)
if os.fork() == 0:
    point("after_act", 1); os._exit(0)
os.wait()
point("after_act", 2)
"""
    with start(gate, code) as agent:
        steps = []
        while len(steps) < 3:
            if held := gate.next(10):
                steps.append(held.said.step)
                gate.go(held)
        assert steps == [0, 1, 2]
        assert agent.wait(10) == 0


def test_what_drop_forgets_is_gone(gate: Gate) -> None:
    with start(gate) as agent:
        assert gate.next(10) is not None
        agent.kill()
    gate.drop()
    assert gate.next(0.01) is None
    with start(gate) as agent:
        assert gate.next(10) is not None
        agent.kill()


@pytest.mark.parametrize(
    ("line", "says"),
    [
        (b"hello\n", "it takes lines like"),
        (b'{"point": "after_act"}\n', "it takes lines like"),
        (b'{"point": "aftr_act", "step": 1}\n', "the phases are before_think"),
    ],
)
def test_garbage_is_refused_with_the_right_form(gate: Gate, line: bytes, says: str) -> None:
    import socket

    with socket.socket(socket.AF_UNIX) as agent:
        agent.connect("\0" + gate.address.removeprefix("unix:@"))
        agent.sendall(line)
        with pytest.raises(HarnessError, match=says):
            gate.next(10)
            gate.next(10)


def test_a_line_may_come_in_pieces(gate: Gate) -> None:
    import socket

    with socket.socket(socket.AF_UNIX) as agent:
        agent.connect("\0" + gate.address.removeprefix("unix:@"))

        def slowly() -> None:
            for byte in b'{"point": "after_act", "step": 7}\n':
                agent.send(bytes([byte]))
                time.sleep(0.001)

        threading.Thread(target=slowly).start()
        held = gate.next(10)
        assert held is not None
        assert held.said.step == 7
