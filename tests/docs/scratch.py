"""A reader's project: an environment in which our packages and the reader's own are installed; commands run in it."""

from __future__ import annotations

import os
import site
import subprocess
import sys
import tomllib
import venv
from pathlib import Path

COMMANDS = {"pytest": "pytest", "pytest-chaos": "chaos", "python": ""}
SECONDS = 90
FOREIGN = ("langsmith_plugin", "anyio", "hypothesispytest", "faker", "xdist", "split")
"""Plug-ins of pytest that come with our packages; a start without them takes a third of the time."""


class Reader:
    """Somebody who follows one page: saves its files in an empty folder, and types its commands."""

    def __init__(self, folder: Path, byte_code: Path) -> None:
        """Be somebody with an empty folder below *folder*.

        Args:
            byte_code: where Python keeps what it has compiled, if not beside the modules. Pytest compiles all modules
                of a plug-in in its own way, which takes seconds at each start where nothing is kept.
        """
        self._byte_code = byte_code
        self.folder = folder / "project"
        self.folder.mkdir()
        (folder / "tmp").mkdir()
        self._tmp = folder / "tmp"
        self._venv = folder / "venv"
        venv.create(self._venv, symlinks=True)
        packages = self._venv / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}" / "site-packages"
        lines = [f"import site; site.addsitedir({found!r})" for found in site.getsitepackages()]
        (packages / "reader.pth").write_text("\n".join([*lines, str(self.folder)]) + "\n")
        for name, module in COMMANDS.items():
            self._command(name, f"-m {module}" if module else "")
        self.printed = ""

    def save(self, name: str, text: str, append: bool = False) -> None:
        """Save a file; a project's entry points count as if it were installed in editable mode."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text((path.read_text() if append else "") + text)
        if name == "pyproject.toml":
            self._install(text)

    def run(self, script: str, shell: tuple[str, ...] = ("bash", "-e")) -> tuple[int, str]:
        """Run *script* in the project and return how it ended and what it printed."""
        done = subprocess.run(
            [*shell, "-c", script],
            cwd=self.folder,
            env=self._environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=SECONDS,
        )
        self.printed += done.stdout
        return done.returncode, done.stdout

    def left(self) -> list[str]:
        """Return the harness's temporary folders that are still there."""
        return sorted(path.name for path in self._tmp.glob("chaos-*"))

    @property
    def python(self) -> str:
        return str(self._venv / "bin" / "python")

    def _command(self, name: str, arguments: str) -> None:
        path = self._venv / "bin" / name
        if not path.exists():
            path.write_text(f'#!/bin/sh\nexec {self.python} {arguments} "$@"\n')
            path.chmod(0o755)

    def _install(self, pyproject: str) -> None:
        project = tomllib.loads(pyproject)["project"]
        folder = self.folder / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
        folder.mkdir(exist_ok=True)
        (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: 1.0\n")
        groups = (
            f"[{group}]\n" + "".join(f"{name} = {value}\n" for name, value in entries.items())
            for group, entries in project.get("entry-points", {}).items()
        )
        (folder / "entry_points.txt").write_text("\n".join(groups))

    def _environment(self) -> dict[str, str]:
        mine = {
            name: text for name, text in os.environ.items() if not name.startswith(("CHAOS_", "PYTEST_", "GITHUB_"))
        }
        for name in ("CI", "BUILD_NUMBER", "PYTHONDONTWRITEBYTECODE"):
            mine.pop(name, None)
        if "CHAOS_CGROUP" in os.environ:  # says what this machine gives us, not what to do
            mine["CHAOS_CGROUP"] = os.environ["CHAOS_CGROUP"]
        options = " ".join(f"-p no:{name}" for name in FOREIGN)
        return {
            **mine,
            "PATH": f"{self._venv / 'bin'}:{os.environ['PATH']}",
            "PYTEST_ADDOPTS": f"-q -p no:cacheprovider {options}",
            **({"PYTHONPYCACHEPREFIX": str(self._byte_code)} if sys.dont_write_bytecode else {}),
            "TMPDIR": str(self._tmp),
            "COLUMNS": "200",
        }
