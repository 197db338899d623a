"""Progress: on a terminal in place and without a trace, elsewhere as a heartbeat, and never in pytest's way."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios

from chaos.plugins.progress import spoken
from tests.plugins.project import FOREIGN, Project, scenario

SLOW = """
import chaos.campaign, chaos.plugins.progress as progress, time
progress.HEARTBEAT, progress.LONG, progress.REWRITE = 0.3, 0.05, 0.02
from chaos.trial import Trial
run = Trial.run
def slowly(self, case, **options):
    time.sleep(0.2)  # a cell that takes a while, whatever the machine
    return run(self, case, **options)
Trial.run = slowly
"""
WIDTH, HEIGHT = 100, 50


def slow(project: Project, runs: int = 4) -> Project:
    """A cell that is long by the measure of this project."""
    project.write("conftest.py", SLOW)
    project.write("long.chaos.yaml", scenario("long", runs=runs))
    return project


def on_a_terminal(project: Project, *arguments: str) -> tuple[int, str]:
    """Run pytest on a terminal of its own; return its exit code and all that it wrote there."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", HEIGHT, WIDTH, 0, 0))
    words = [word for name in FOREIGN for word in ("-p", f"no:{name}")]
    env = {**project._env(), "TERM": "xterm"}
    del env["COLUMNS"]
    process = subprocess.Popen(
        [sys.executable, "-m", "pytest", *words, *arguments],
        cwd=project.folder, env=env, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True,
    )  # fmt: skip
    os.close(theirs)
    found = b""
    try:
        while data := os.read(ours, 1 << 16):
            found += data
    except OSError:  # EIO: the other side is closed
        pass
    finally:
        os.close(ours)
    return process.wait(timeout=30), found.decode("utf-8", "replace")


def screen(text: str) -> list[str]:
    """Return the lines that a terminal shows after *text*: what we and pytest use of its language."""
    rows, row, column = [""], 0, 0
    for match in re.finditer(r"\x1b\[([0-9;?]*)([A-Za-z])|\x1b.|([\r\n])|([^\x1b\r\n]+)", text):
        number, what, moved, said = match.groups()
        if what == "A":
            row -= int(number or 1)
        elif what == "G":
            column = int(number or 1) - 1
        elif what == "J":
            rows[row] = rows[row][:column]
            del rows[row + 1 :]
        elif what == "K":
            rows[row] = "" if number == "2" else rows[row][:column]
        elif moved == "\r":
            column = 0
        elif moved == "\n":
            row += 1
            rows += [""] * (row + 1 - len(rows))
        elif said:
            for char in said:
                if column == WIDTH:
                    row, column = row + 1, 0
                    rows += [""] * (row + 1 - len(rows))
                rows[row] = rows[row].ljust(column)[:column] + char + rows[row][column + 1 :]
                column += 1
    return rows


def test_a_terminal_has_the_line_in_place_and_no_trace_of_it_after(project: Project) -> None:
    code, out = on_a_terminal(slow(project), "--chaos", "--chaos-seed", "7", "-v")
    assert code == 0, out
    seen = re.findall(
        r"cow x kill: (\d) of about 4 runs, (\d) landed, 0 failed \| 0 of 1 cells done, \d+ s, about", out
    )
    assert {int(runs) for runs, _ in seen} >= {1, 2, 3} and all(runs == landed for runs, landed in seen)
    shown = "\n".join(screen(out))
    assert "of about" not in shown and "\x1b" not in shown
    assert "chaos: about 4 runs in 1 cell, how long is not known yet" in shown
    assert re.search(r"^long\.chaos\.yaml::test_long\[cow-kill\] PASSED +\[100%\]$", shown, re.MULTILINE), shown


def test_with_workers_the_controller_shows_it(project: Project) -> None:
    code, out = on_a_terminal(slow(project), "--chaos", "-n", "2", "--chaos-seed", "7")
    assert code == 0, out
    assert re.search(r"cow x kill: [123] of about 4 runs, [123] landed", out), out
    shown = "\n".join(screen(out))
    assert "landed, 0 failed" not in shown and "about 4 runs in 1 cell" in shown
    assert re.search(r"^\. +\[100%\]$", shown, re.MULTILINE), shown


def test_elsewhere_a_heartbeat_stands_on_lines_of_its_own(project: Project) -> None:
    done = slow(project).run("--chaos", "--chaos-seed", "7", "-v", "-s")
    assert done.code == 0 and "\x1b" not in done.out
    beats = re.findall(
        r"^chaos: still running: cow x kill: .*, (?:about \d+ s left|how long .*)$", done.out, re.MULTILINE
    )
    assert len(beats) >= 2 and len(beats) == done.out.count("still running"), done.out
    assert re.search(r"^long\.chaos\.yaml::test_long\[cow-kill\] PASSED", done.out, re.MULTILINE)


def test_durations_are_said_as_people_do() -> None:
    assert [spoken(seconds) for seconds in (0.4, 89, 90, 360, 5000)] == ["0 s", "89 s", "2 min", "6 min", "83 min"]
    assert spoken(5400) == "1 h 30 min"
