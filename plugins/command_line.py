"""The command line, `pytest-chaos` or `python -m chaos`: what needs no agent to run.

Exit codes: 0 done, and for `table` and `merge` everything is as promised; 1 for them if something is not, for
`storage-tax` if a number proves nothing, for `kill-points` if a fault missed, for `audit` if there is damage, for
`doctor` if the main job cannot run here; 2 the input is wrong: the arguments, a scenario, a folder without results, or
one of another campaign, a store or thread that is not there.

Imports are inside the handlers: `--version` must not load the harness.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

OK, BROKEN, WRONG_INPUT = 0, 1, 2
RESULTS = ".chaos"
REPORT = "report.html"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line with *arguments* and return its exit code."""
    from chaos.errors import ChaosError

    options = _parser().parse_args(arguments)
    handlers = {
        "report": _report,
        "merge": _merge,
        "table": _table,
        "schema": _schema,
        "check": _check,
        "scenarios": _scenarios,
        "doctor": _doctor,
        "storage-tax": _storage_tax,
        "kill-points": _kill_points,
        "audit": _audit,
    }
    try:
        return handlers[options.command](options)
    except ChaosError as error:
        print(error, file=sys.stderr)
        return WRONG_INPUT
    except BrokenPipeError:  # `pytest-chaos table | head`
        sys.stderr.close()
        return OK


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="pytest-chaos",
        description="Recovery testing for long-running agents. Campaigns are run by `pytest --chaos`.",
        epilog="exit codes: 0 done; 1 a promise was broken or not proved (table, storage-tax); 2 wrong input",
    )
    parser.add_argument("--version", action=_Version)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    report = commands.add_parser("report", help="render the HTML report of a campaign, finished or interrupted")
    _add_results(report)
    report.add_argument("-o", "--output", type=Path, metavar="FILE", help=f"default: {REPORT} in the results folder")

    table = commands.add_parser("table", help="print the strategy x fault table of a campaign")
    _add_results(table)

    merge = commands.add_parser(
        "merge",
        help="make one campaign of the results folders of several machines",
        epilog="exit codes: 0 all as promised; 1 something failed, is missing or was not proved; 2 not of one campaign",
    )
    merge.add_argument("folders", type=Path, nargs="+", metavar="DIR", help="a results folder, finished or interrupted")
    merge.add_argument("-o", "--output", type=Path, required=True, metavar="OUT", help="the folder to make")

    commands.add_parser("schema", help="print the JSON schema of scenarios, for editors")

    check = commands.add_parser("check", help="check scenario files without running them")
    check.add_argument("files", type=Path, nargs="+", metavar="FILE")

    commands.add_parser("scenarios", help="print the folder of the scenarios that come with the package")

    doctor = commands.add_parser("doctor", help="try what this machine can do, and name the remedy for what it cannot")
    doctor.add_argument("--format", choices=("text", "json"), default="text", help="default: text")
    doctor.add_argument(
        "--clean", action="store_true", help="only remove our image from Docker, and what killed campaigns left there"
    )
    _add_storage_tax(commands)
    _add_kill_points(commands)
    _add_audit(commands)
    return parser


def _add_storage_tax(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    tax = commands.add_parser("storage-tax", help="measure what each strategy stores, writes and takes, N steps on")
    tax.add_argument(
        "scenarios", type=Path, nargs="*", metavar="SCENARIO", help="default: storage_tax* of those in the package"
    )
    default = Path(RESULTS, "storage-tax")  # below the results: it must not replace a campaign
    tax.add_argument("--out", type=Path, default=default, metavar="DIR", help=f"default: {default}")
    tax.add_argument(
        "--jobs", type=int, default=2, metavar="N", help="strategies at a time, each on a core; default: 2"
    )
    tax.add_argument("--seed", type=int, default=2026, metavar="N", help="default: 2026, so that two runs are alike")
    tax.add_argument("--strategy", default="", metavar="NAME[,NAME]", help="only these: names or labels")
    tax.add_argument("--servers", default="", metavar="NAME=ADDRESS[,...]", help="as --chaos-servers of pytest")


def _add_audit(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    audit = commands.add_parser(
        "audit",
        help="look for rows of a stored LangGraph thread that are missing, doubled, unlinked or unreadable",
        description="Reads only, and says what cannot be seen from what is stored.",
        epilog="exit codes: 0 nothing found; 1 damage; 2 no such store or thread, or no thread named",
    )
    audit.add_argument("place", metavar="PATH|URL", help="a file of SqliteSaver, or postgresql://USER@HOST/DATABASE")
    audit.add_argument("thread", metavar="THREAD", nargs="?", help="its thread_id; without it, the threads are listed")
    audit.add_argument("--format", choices=("text", "json"), default="text", help="default: text")


def _add_kill_points(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    points = commands.add_parser(
        "kill-points",
        help="crash durable runtimes at each point around an effect; print the duplicates and the losses",
        epilog="exit codes: 0 done; 1 a fault missed where it should have hit; 2 wrong input; 130 interrupted",
    )
    points.add_argument("--runtime", default="", metavar="NAME[,NAME]", help="only these columns, such as 'DBOS'")
    points.add_argument("--point", default="", metavar="NAME[,NAME]", help="only these rows, such as 'in recovery'")
    points.add_argument("--json", type=Path, metavar="FILE", help="write every run with its findings to FILE")
    points.add_argument("--seed", type=int, default=2026, metavar="N", help="default: 2026, so that two runs are alike")
    points.add_argument("--jobs", type=int, default=2, metavar="N", help="processes at a time; default: 2")
    points.add_argument("--servers", default="", metavar="NAME=ADDRESS[,...]", help="as --chaos-servers of pytest")


def _add_results(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "results", type=Path, nargs="?", default=Path(RESULTS), metavar="RESULTS_FOLDER", help=f"default: {RESULTS}"
    )


class _Version(argparse.Action):
    """Prints the version; reading it takes as long as everything else, so only when asked."""

    def __init__(self, option_strings: Sequence[str], dest: str) -> None:
        super().__init__(option_strings, dest, nargs=0, help="print the version")

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from importlib.metadata import version

        print(f"pytest-chaos {version('pytest-chaos')}")
        parser.exit(OK)


def _report(options: argparse.Namespace) -> int:
    from chaos import results
    from chaos.errors import HarnessError
    from chaos.reports import html

    output: Path = options.output or options.results / REPORT
    page = html.render(results.read(options.results), options.results)
    try:
        output.write_text(page, encoding="utf-8")
    except OSError as error:
        raise HarnessError(f"{output}: cannot be written ({error.strerror}); name another file with -o") from None
    print(output)
    return OK


def _table(options: argparse.Namespace) -> int:
    from chaos import results
    from chaos.reports import matrix, terminal

    campaign = results.read(options.results)
    report = options.results / REPORT
    for line in terminal.render(campaign, str(report) if report.exists() else None, shutil.get_terminal_size().columns):
        print(line)
    found = matrix.of(campaign)
    return OK if found.judged and not found.bad else BROKEN


def _merge(options: argparse.Namespace) -> int:
    from chaos.plugins import merging

    return merging.run(options)


def _schema(options: argparse.Namespace) -> int:
    from chaos.scenario.jsonschema import json_schema

    print(json.dumps(json_schema(), indent=2))
    return OK


def _check(options: argparse.Namespace) -> int:
    """Check every file before giving up: all errors in one pass."""
    from chaos.errors import ScenarioError
    from chaos.scenario import loader

    wrong = 0
    for file in options.files:
        try:
            if not file.is_file():
                raise ScenarioError(f"{file}: no such file")
            loader.load(file)
        except ScenarioError as error:
            wrong += 1
            print(error, file=sys.stderr)
        else:
            print(f"{file}: ok")
    return WRONG_INPUT if wrong else OK


def _kill_points(options: argparse.Namespace) -> int:
    from chaos.plugins import kill_points

    return kill_points.run(options)


def _storage_tax(options: argparse.Namespace) -> int:
    from chaos.plugins import storage_tax

    return storage_tax.run(options)


def _audit(options: argparse.Namespace) -> int:
    from chaos.plugins import audit

    return audit.run(options)


def _doctor(options: argparse.Namespace) -> int:
    from chaos.plugins import doctor

    return doctor.run(options)


def _scenarios(options: argparse.Namespace) -> int:
    import chaos

    print(Path(chaos.__file__).parent / "scenarios")
    return OK
