"""`python -m chaos storage-tax` for real, with short runs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from chaos import tax
from chaos.tax import Tax, TaxRow

SECONDS = 120.0
PAGE = 4096  # bytes, of SQLite

SCENARIO = """
version: 1
scenario: short-tax
target: {{reference: {{workload: long_notes, steps: {steps}, bytes_per_step: 9000, window: 4}}}}
strategies: [restart, chat_history, full_snapshot, {{delta: {{every: 5}}}}, cow]
faults:
  - kind: kill
    name: kills
    at: {{step: {first}, phase: before_think}}
    then: {then}
expect: {{max_lost_steps: 0}}
expected_failures:
  - {{strategy: restart, breaks: [recovery], because: nothing is kept}}
  - {{strategy: chat_history, breaks: [budget, state], because: the counters are not in the messages}}
"""


def scenario(folder: Path, steps: int, *kills: int, changed: tuple[str, str] = ("", "")) -> Path:
    """Write the scenario with *kills*, and the text *changed* in it; return its path."""
    then = "".join(f"\n      - {{kind: kill, name: k{n}, at: {{step: {n}, phase: before_think}}}}" for n in kills[1:])
    path = folder / f"tax-{steps}.chaos.yaml"
    text = SCENARIO.format(steps=steps, first=kills[0], then=then or "[]")
    assert changed[0] in text
    path.write_text(text.replace(*changed, 1) if changed[0] else text)
    return path


def command(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "chaos", "storage-tax", *map(str, arguments)]


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command(*arguments), capture_output=True, text=True, timeout=SECONDS, check=False)


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("tax")


@pytest.fixture(scope="module")
def done(out: Path) -> subprocess.CompletedProcess[str]:
    return run(scenario(out, 25, 6, 12, 24), "--out", out)


@pytest.fixture(scope="module")
def measured(done: subprocess.CompletedProcess[str], out: Path) -> Tax:
    found = tax.read(out)
    assert found is not None, done.stderr
    return found


def of(measured: Tax, strategy: str) -> dict[int, TaxRow]:
    return {row.n: row for row in measured.rows if row.strategy == strategy}


def test_every_strategy_has_a_row_for_each_kill(done: subprocess.CompletedProcess[str], measured: Tax) -> None:
    assert done.returncode == 0, done.stdout + done.stderr
    strategies = ["restart", "chat_history", "full_snapshot", "delta:every=5", "cow"]
    assert [(row.strategy, row.n) for row in measured.rows] == [(s, n) for s in strategies for n in (6, 12, 24)]
    assert all(row.step_ms and row.resume_ms for row in measured.rows)
    assert measured.problems == () and measured.skipped == {}


def test_the_bytes_are_those_of_the_schemes(measured: Tax) -> None:
    said = {(each.strategy, each.n): each for each in measured.model}
    assert all(row.stored_bytes == 0 for row in of(measured, "restart").values())
    for strategy, overhead in (("chat_history", 1.1), ("cow", 1.1), ("full_snapshot", 1.3), ("delta:every=5", 1.5)):
        for n, row in of(measured, strategy).items():
            model = said[strategy, n].stored_bytes
            assert model < row.stored_bytes < overhead * model + 40_000, (strategy, n)
            assert row.written_bytes > row.stored_bytes
    fits = {each.strategy: each.stored for each in measured.exponents}
    chat, full = fits["chat_history"], fits["full_snapshot"]
    assert chat is not None and full is not None and fits["restart"] is None
    assert chat.last < 1.1 < 1.5 < full.last


def test_a_row_in_between_is_what_a_run_of_that_length_leaves(measured: Tax, tmp_path: Path) -> None:
    short = []
    for _ in range(2):  # the kernel may write a page of the one run twice; the lesser of two figures is the run's own
        done = run(scenario(tmp_path, 13, 12), "--out", tmp_path)
        assert done.returncode == 0, done.stdout + done.stderr
        found = tax.read(tmp_path)
        assert found is not None
        short.append(found)
    for strategy in ("chat_history", "full_snapshot", "delta:every=5", "cow"):
        [(n, alone)] = of(short[0], strategy).items()
        row, written = of(measured, strategy)[n], min(of(one, strategy)[n].written_bytes for one in short)
        # A crash before leaves a few pages of a database less full.
        assert row.stored_bytes == pytest.approx(alone.stored_bytes, rel=0.01, abs=4 * PAGE), strategy
        # A database that was killed writes its log into its tables once more; and a page that is changed twice is
        # written once or twice, as the kernel likes.
        assert 0.8 * written <= row.written_bytes < 2 * written


def test_it_prints_a_table_and_makes_a_page(done: subprocess.CompletedProcess[str], out: Path) -> None:
    assert "[5/5] " in done.stdout
    assert "N = 24, s = 9.0 kB" in done.stdout
    assert done.stdout.splitlines()[-2:] == [str(out / "storage_tax.json"), str(out / "report.html")]
    assert (out / "report.html").read_text().count('<figure class="growth">') == 5
    assert not (out / "runs").exists()  # journals are kept only of runs that prove nothing


def test_lost_steps_that_nobody_expects_are_a_problem(tmp_path: Path) -> None:
    path = scenario(
        tmp_path, 13, 12, changed=("{strategy: restart, breaks: [recovery]", "{strategy: cow, breaks: [files]")
    )
    done = run(path, "--out", tmp_path, "--strategy", "restart,cow", "--jobs", 1)
    assert done.returncode == 1
    assert "NOT A RESULT: restart: a crash cost 12 steps, 0 are allowed" in done.stdout
    assert list((tmp_path / "runs").glob("*/journal.jsonl"))


def test_another_end_that_nobody_expects_is_a_problem(tmp_path: Path) -> None:
    path = scenario(
        tmp_path,
        13,
        12,
        changed=("{strategy: chat_history, breaks: [budget, state]", "{strategy: cow, breaks: [files]"),
    )
    done = run(path, "--out", tmp_path, "--strategy", "chat_history,cow,delta")
    assert done.returncode == 1
    assert "NOT A RESULT: chat_history: the final state is not that of delta:every=5, cow" in done.stdout


def test_a_kill_that_hits_nothing_is_a_problem(tmp_path: Path) -> None:
    path = scenario(tmp_path, 13, 12, changed=("phase: before_think", "phase: after_commit"))
    done = run(path, "--out", tmp_path, "--strategy", "restart")
    assert done.returncode == 1
    assert "NOT A RESULT: restart: the agent never came to kills@12/after_commit" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["none.chaos.yaml"], "none.chaos.yaml"),
        (["--strategy", "full_snapshop"], "--strategy: no strategy 'full_snapshop'; did you mean 'full_snapshot'?"),
        (["--servers", "mongo=x"], "--servers: there is no server 'mongo'"),
    ],
)
def test_wrong_input_is_told_and_nothing_is_run(arguments: list[str], message: str, tmp_path: Path) -> None:
    done = run(*arguments, "--out", tmp_path / "out")
    assert done.returncode == 2
    assert message in done.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_leaves_nothing(tmp_path: Path, number: int) -> None:
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    path = scenario(tmp_path, 2001, 1900)
    process = subprocess.Popen(
        command(path, "--out", tmp_path / "out", "--strategy", "full_snapshot,cow"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(temporary)},
    )
    end = time.monotonic() + SECONDS
    while len(list(temporary.glob("chaos-*/sandbox/durable/*"))) < 2 and time.monotonic() < end:
        time.sleep(0.02)
    agents = living(temporary)
    process.send_signal(number)
    stdout, stderr = process.communicate(timeout=SECONDS)
    assert process.returncode == 130, stderr
    assert agents and not living(temporary)
    assert list(temporary.iterdir()) == []
    assert "interrupted" in stderr and "storage_tax.json" not in stdout


def living(temporary: Path) -> list[int]:
    """Return the processes whose files for a run are below *temporary*."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and str(temporary).encode() in (entry / "environ").read_bytes():
                found.append(int(entry.name))
        except OSError:
            continue
    return found


def test_the_shipped_scenario_has_a_row_for_each_n_that_was_published() -> None:
    import chaos
    from chaos.explorers.fixed import Fixed
    from chaos.scenario.loader import load

    found = load(Path(chaos.__file__).parent / "scenarios" / "storage_tax.chaos.yaml")
    [fault] = found.faults
    places = [each.at for each in (fault, *fault.then)]
    assert places == [Fixed((n,), ("before_think",)) for n in (50, 100, 150, 200, 300, 400)]
    assert found.target.steps == 401
    assert found.limits.backoff_limit >= len(places)
