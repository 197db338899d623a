"""What is shipped: one import package, whole, and nothing else."""

from __future__ import annotations

import importlib.util
import os
import pkgutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import chaos

ROOT = Path(__file__).parents[1]
LINKED = ("pages", "plugins", "reports", "scenarios", "targets")
ELSEWHERE = {"pages": "../docs/codes"}
LACKING = [name for name in ("build", "hatchling") if importlib.util.find_spec(name) is None]
checkout = pytest.mark.skipif(not (ROOT / ".git").exists(), reason="not a git checkout")


def git(*words: str) -> list[str]:
    return subprocess.run(["git", *words], cwd=ROOT, check=True, capture_output=True, text=True).stdout.splitlines()


@pytest.fixture(scope="module")
def entries(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """The names in the wheel that is built from this tree; nothing is fetched and nothing installed."""
    if LACKING:
        pytest.skip(f"cannot build a wheel offline without {' and '.join(LACKING)}; install the extra 'dev'")
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "PIP_NO_INDEX": "1"})
    assert done.returncode == 0, done.stdout + done.stderr
    (wheel,) = folder.glob("*.whl")
    assert wheel.name.startswith("pytest_chaos-") and wheel.name.endswith("-py3-none-any.whl")
    return set(zipfile.ZipFile(wheel).namelist())


def test_the_only_import_package_is_chaos(entries: set[str]) -> None:
    tops = {name.partition("/")[0] for name in entries}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"chaos"}
    assert len(tops) == 2


def test_every_file_of_the_tree_is_inside_and_no_other(entries: set[str]) -> None:
    """Through the links too: zip files have none, so their files are there in full."""
    here = {
        str(path.relative_to(ROOT))
        for folder in (ROOT / "chaos", *(ROOT / "chaos" / name for name in LINKED))
        for path in folder.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    if (ROOT / ".git").exists():  # what git ignores is not shipped
        ignored = git("ls-files", "--others", "--ignored", "--exclude-standard")
        here -= {*ignored, *(f"chaos/{name}" for name in ignored)}
    assert {name for name in entries if name.startswith("chaos/")} == here


@pytest.mark.parametrize(
    "name",
    [
        "chaos/py.typed",
        "chaos/scenarios/kill.chaos.yaml",
        "chaos/targets/reference/strategies/delta.py",
        "chaos/plugins/pytest_plugin.py",
        "chaos/sandbox/launcher.py",
        "chaos/pages/check.effects.md",
    ],
)
def test_what_users_would_miss_first(entries: set[str], name: str) -> None:
    assert name in entries


def test_what_the_report_is_made_of(entries: set[str]) -> None:
    kinds = {Path(name).suffix for name in entries if name.startswith("chaos/reports/")}
    assert {".py", ".css", ".j2"} <= kinds


def test_entry_points_of_pytest_and_the_command_line() -> None:
    from importlib.metadata import entry_points

    (plugin,) = entry_points(group="pytest11", name="chaos")
    assert plugin.value == "chaos.plugins.pytest_plugin"
    (script,) = entry_points(group="console_scripts", name="pytest-chaos")
    assert callable(script.load())


@checkout
@pytest.mark.parametrize("name", LINKED)
def test_the_links_are_committed_as_links(name: str) -> None:
    (line,) = git("ls-files", "-s", f"chaos/{name}")
    assert line.startswith("120000 ")
    assert os.readlink(ROOT / "chaos" / name) == ELSEWHERE.get(name, f"../{name}")  # relative: a clone elsewhere works


@checkout
def test_no_output_is_committed() -> None:
    committed = git("ls-files")
    wrong = [name for name in committed if name.endswith((".pyc", "results.jsonl", "journal.jsonl")) or "/." in name]
    assert [name for name in wrong if not name.startswith((".", "tests/"))] == []


EVERYTHING = """
import importlib, pkgutil, sys, chaos
for module in pkgutil.walk_packages(chaos.__path__, "chaos."):
    if not module.name.endswith(("__main__", ".launcher", ".salesmath.engine")):  # programs; the last in an agent only
        importlib.import_module(module.name)
print(*(name for name in ("plugins", "reports", "scenarios", "targets") if name in sys.modules))
"""


def test_a_top_level_folder_is_never_imported_by_its_own_name(tmp_path: Path) -> None:
    """One file, one module: imported twice under two names its classes would not be equal to themselves."""
    done = subprocess.run([sys.executable, "-c", EVERYTHING], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == ""


def test_the_probe_does_not_drag_the_harness_into_the_agent(tmp_path: Path) -> None:
    code = "import sys, chaos.probe; print(*sorted(sys.modules))"
    path = {"PYTHONPATH": str(Path(chaos.__file__).parents[1])}
    done = subprocess.run([sys.executable, "-S", "-c", code], cwd=tmp_path, env=path, capture_output=True, text=True)
    foreign = [name for name in done.stdout.split() if name.partition(".")[0] not in sys.stdlib_module_names]
    assert foreign == ["__main__", "chaos", "chaos.probe"], done.stderr


def test_every_public_name_is_there() -> None:
    for name in chaos.__all__:
        assert getattr(chaos, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        chaos.nothing  # noqa: B018
    assert {module.name for module in pkgutil.iter_modules(chaos.__path__)} >= {"probe", "journal", "faults"}
