"""`pytest-chaos demo`: every strategy against every fault, once each, offline, with the scenarios of the package."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from chaos.plugins.commands import REPORT, RESULTS, alone

HELP = "break the reference agent under every recovery strategy: a report in a minute, nothing is needed"
EPILOG = """It needs no network, no key, no root and no Docker; what this machine cannot do is skipped with the reason.
What breaks is expected to: the exit code is pytest's, 0 if each strategy kept and broke what the scenarios say.
Options of `pytest --chaos` are taken from the environment: CHAOS_STRATEGY=delta,cow pytest-chaos demo"""

SCENARIOS = ("kill", "oom_kill", "evict", "rate_limit", "corrupt_delta", "covered_delta")
"""In this order the table reads best."""

PREFIX = "pytest-chaos-demo-"
"""Of folders that stay, for the report is to be looked at: `clean --results` removes them."""

JOBS = 2  # processes of pytest-xdist, where that is installed: cells wait much, so that two are good on any machine


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument(
        "folder", type=Path, nargs="?", metavar="FOLDER", help="where the results go; a temporary folder by default"
    )
    parser.add_argument(
        "--jobs", type=int, default=JOBS, metavar="N", help=f"processes, by pytest-xdist; default: {JOBS}"
    )
    parser.add_argument("--open", action="store_true", help="open the report in a browser")


def run(options: argparse.Namespace) -> int:
    """Run the campaign in a pytest of its own, and say where the report is."""
    import subprocess

    folder = _folder(options.folder)
    command = [sys.executable, "-m", "pytest", *_arguments(options.jobs)]
    print(f"results go to {folder / RESULTS}", flush=True)
    code = subprocess.run(command, cwd=folder, env=alone(), check=False).returncode
    report = folder / RESULTS / REPORT
    if not report.exists():
        print("there is no report: see what pytest said above", file=sys.stderr)
        return code
    print(f"the report: {report}\nnext: `pytest-chaos init` in the folder of your own project")
    if options.open:
        _open(report)
    return code


def _folder(given: Path | None) -> Path:
    import tempfile

    from chaos.errors import HarnessError

    if given is None:
        return Path(tempfile.mkdtemp(prefix=PREFIX))
    try:
        given.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise HarnessError(f"{given}: cannot be made ({error.strerror}); name another folder, or none") from None
    return given.resolve()


def _arguments(jobs: int) -> list[str]:
    """Return pytest's arguments: nothing of a project around the folder counts."""
    import importlib.util

    from chaos.plugins.commands.scenarios import folder as shipped

    files = [str(shipped() / f"{name}.chaos.yaml") for name in SCENARIOS]
    parallel = jobs > 1 and importlib.util.find_spec("xdist")
    spread = ["-p", "xdist", "-n", str(jobs), "--dist", "loadgroup"] if parallel else []
    apart = ["--rootdir", str(shipped()), "-c", "/dev/null", "-p", "no:cacheprovider", "-p", "chaos"]
    return ["--chaos", *files, "-q", "--chaos-runs", "1", "--chaos-results", RESULTS, *spread, *apart]


def _open(report: Path) -> None:
    import webbrowser

    if not webbrowser.open(report.as_uri()):
        print("no browser was found here; open it yourself", file=sys.stderr)
