"""`pytest-chaos clean`: what a killed harness left goes; what a living one has stays."""

from __future__ import annotations

import os
import platform
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from chaos import leftovers, results
from chaos.plugins.command_line import main
from chaos.plugins.commands.demo import PREFIX
from chaos.results import CampaignInfo

HARNESS = """
import subprocess, time
from chaos import leftovers
from chaos.sandbox import hierarchy
folder = leftovers.folder("run-")
(folder / "file").write_text("x")
(folder / "mount").mkdir()
mounted = subprocess.run(["mount", "-t", "tmpfs", "none", folder / "mount"], capture_output=True).returncode == 0
parent = hierarchy.find_parent()
cgroup = hierarchy.create(parent, 0) if not parent.missing else None
print(folder, mounted, cgroup.memory if cgroup else "", sep="|", flush=True)
time.sleep(600)
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for temporary ones, and the current folder."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def harness(place: Path) -> Iterator[tuple[subprocess.Popen[str], Path, Path | None]]:
    """A harness with a folder, a mount in it and a cgroup, as far as this user may."""
    process = subprocess.Popen([sys.executable, "-c", HARNESS], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    folder, mounted, cgroup = process.stdout.readline().strip().split("|")
    assert bool(leftovers.mounts_below(Path(folder))) is (mounted == "True")
    yield process, Path(folder), Path(cgroup) if cgroup else None
    process.kill()
    process.wait()
    process.stdout.close()
    leftovers.sweep()


def test_the_dead_ones_things_go_and_the_living_ones_stay(
    harness: tuple[subprocess.Popen[str], Path, Path | None], capsys: pytest.CaptureFixture[str]
) -> None:
    process, folder, cgroup = harness
    assert main(["clean"]) == 0
    assert str(folder) not in capsys.readouterr().out and (folder / "file").exists()
    assert cgroup is None or cgroup.exists()

    process.send_signal(signal.SIGKILL)
    process.wait()
    assert main(["clean", "--dry-run"]) == 0
    listed = capsys.readouterr().out
    assert f"would remove folder {folder}" in listed and (folder / "file").exists()
    assert cgroup is None or (f"would remove cgroup {cgroup}" in listed and cgroup.exists())

    assert main(["clean"]) == 0
    assert f"removed folder {folder}" in capsys.readouterr().out
    assert not folder.exists() and not leftovers.mounts_below(folder)
    assert cgroup is None or not cgroup.exists()
    assert main(["clean"]) == 0
    assert str(folder) not in capsys.readouterr().out


def test_a_volume_of_a_dead_harness(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from chaos.sandbox.docker import engine

    if reason := engine.unreachable():
        pytest.skip(reason)
    dead = subprocess.Popen(["true"])
    dead.wait()
    volume = engine.client().volumes.create(
        f"{leftovers.PREFIX}{dead.pid}-test", labels={engine.LABEL: f"{leftovers.PREFIX}{dead.pid}"}
    )
    assert main(["clean"]) == 0
    assert f"removed volume {volume.name}" in capsys.readouterr().out
    assert volume.name not in engine.stale()[1]


def begun(folder: Path, pid: int) -> None:
    """Write the beginning of a campaign of the process *pid*."""
    info = CampaignInfo(
        campaign=f"20261130-065000-{pid}",
        seed=1,
        began="2026-11-30T06:50:00Z",
        command="pytest --chaos",
        versions={},
        machine={},
        host=platform.node(),
    )
    results.write_info(folder, info)


def test_results_go_only_when_that_is_asked_for(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    dead = subprocess.Popen(["true"])
    dead.wait()
    shown = place / f"{PREFIX}x"
    begun(place / ".chaos", dead.pid)
    begun(shown / ".chaos", dead.pid)
    assert main(["clean"]) == 0
    assert (place / ".chaos").exists() and shown.exists()
    assert main(["clean", "--results"]) == 0
    assert not (place / ".chaos").exists() and not shown.exists()
    assert capsys.readouterr().out.count("removed results") == 2


def test_results_of_a_running_campaign_and_of_nobody_stay(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    begun(place / ".chaos", os.getpid())  # this is a pytest, and it lives
    assert main(["clean", "--results"]) == 0
    assert f"its campaign runs, as process {os.getpid()}" in capsys.readouterr().out
    (place / ".chaos" / results.CAMPAIGN).unlink()
    assert main(["clean", "--results"]) == 0
    assert "no campaign is in it" in capsys.readouterr().out and (place / ".chaos").exists()
