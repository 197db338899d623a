"""The options of `pytest --chaos`, and what all processes of one campaign agree on."""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import pytest

SUFFIX = ".chaos.yaml"
RESULTS = ".chaos"
FAIL_ON = "--chaos-fail-on"
REPLAY = "replay"  # folder among the default results: a replay must not cost the campaign that it replays a part of
REPORT = "report.html"
MAX_SEED = 2**63 - 1  # what every reader of the results can hold
MAX_RUNS = 10_000  # as many as a scenario may ask for
SHRINK = 60  # runs for one failure: with the time that they may take, what a job can spare
MAX_PRICE = 1_000_000  # USD for a million tokens: a dollar each, far beyond any model
MAX_PARTS = 1_000  # of a cell: ten runs each of the most that there may be
AUTO = "auto"

_OPTIONS = (
    ("--chaos-seed", "N", "Base seed of all randomness; by default a new one. It is always printed."),
    ("--chaos-runs", "N", "Runs of each cell whose faults hit at random places, instead of what the scenario says."),
    ("--chaos-strategy", "NAME[,NAME]", "Only these recovery strategies: labels, or names for all their variants."),
    ("--chaos-fault", "NAME[,NAME]", "Only these faults: labels, or kinds for all faults of a kind."),
    (
        "--chaos-servers",
        "NAME=ADDRESS[,...]",
        "Servers that strategies use (postgres, redis, temporal); the others are started when a binary is at hand.",
    ),
    (
        "--chaos-backend",
        "NAME",
        "The kind of sandbox: process, docker, or auto (default): the first in which a cell's faults can land.",
    ),
    (
        "--chaos-toxiproxy",
        "ADDRESS",
        "A Toxiproxy server's API, as HOST:PORT, or a program to start; by default one of our own.",
    ),
    (
        "--chaos-parts",
        "N|auto",
        "Tests that a cell of many runs is divided into; auto (default): one for each worker of pytest-xdist, "
        "or some for each group of --splits.",
    ),
    (
        "--chaos-speed",
        "HOW",
        "How runs are made: real, each from its start; fast, derived from captured crash states where possible; auto "
        "(default): derived in cells of many runs. Of the derived ones 5 % are killed for real as well.",
    ),
    (
        "--chaos-shrink",
        "N",
        f"Runs spent on making one failure as small as it gets at most (default: {SHRINK}, or 0 with --chaos-case); "
        "0: none.",
    ),
    ("--chaos-case", "PLAN#RUN", f"Replay exactly one run, as printed with a failure (results: {RESULTS}/{REPLAY})."),
    ("--chaos-results", "DIR", f"Where results and journals go (default: {RESULTS}); earlier ones are replaced."),
    ("--chaos-report", "FILE", f"The HTML report (default: {REPORT} among the results)."),
    (
        "--chaos-history",
        "FILE",
        "A line is added to it for each campaign (default: history.jsonl among the results): for trends, estimates and "
        "--chaos-fail-on.",
    ),
    ("--chaos-baseline", "FILE", "Failures that are known: they do not fail the campaign, new ones do."),
    ("--chaos-budget", "TIME", "As '10m': what has not begun by then is not judged, and the exit code is 1."),
    ("--chaos-price", "USD", "Price of a million tokens: the report then tells in money too what recovery costs."),
)


_FLAGS = (
    ("--chaos-cold", "Start agents as new interpreters instead of forking them from one that has their imports done."),
    ("--chaos-verify-fast", "Make each derived run from its start as well: both must come to the same verdict."),
    ("--chaos-write-baseline", "Write what fails to the --chaos-baseline FILE, as known from now on."),
    ("--chaos-no-skip", "A cell that this machine cannot run fails, instead of being skipped with the reason."),
)

EXIT_CODES = (
    "Exit codes: 0 all as promised; 1 a promise was broken, a fault did not land, a strict expectation was not met, a "
    "threshold was passed, or the budget did not suffice; 2 a scenario is wrong, or an interrupt; 3 an error inside "
    "pytest; 4 an option is wrong; 5 there was nothing to run."
)


class Settings(NamedTuple):
    """What all processes of one campaign agree on; xdist's workers get it from the controller."""

    seed: int
    fixed: bool  # the seed was given: it counts instead of a scenario's own
    campaign: str
    folder: str
    report: str
    runs: int | None
    case: str
    servers: tuple[tuple[str, str], ...] = ()
    cold: bool = False
    backend: str = "auto"
    toxiproxy: str = ""
    no_skip: bool = False
    speed: str = "auto"
    verify: bool = False
    shrink: int = 0  # runs for one failure
    parts: int | None = 1  # of each large cell; None: as many as there are processes
    price: float = 0.0  # USD for a million tokens
    history: str = ""  # file; "": none
    baseline: str = ""  # file; "": none
    learn: bool = False  # what fails becomes known
    fail_on: tuple[str, ...] = ()
    budget: float = 0.0  # seconds; 0: none
    ends: float = 0.0  # when they are used up, on the machine's monotonic clock


def add_options(parser: pytest.Parser) -> None:
    """Add the options to `pytest --help`, each but `--chaos` with its environment variable as the default."""
    group = parser.getgroup("chaos", "recovery testing of long-running agents (pytest-chaos)")
    what = f"Run the scenarios in *{SUFFIX} files. {EXIT_CODES}"
    _add(group, "--chaos", action="store_true", default=False, help=what)
    for name, text in _FLAGS:
        variable = _variable(name)
        default = os.environ.get(variable, "") == "1"
        _add(group, name, action="store_true", default=default, help=f"{text} Environment: {variable}=1.")
    for name, metavar, text in _OPTIONS:
        variable = _variable(name)
        # Empty is unset: CI systems hand on inputs that nobody gave as empty variables.
        given = os.environ.get(variable) or None
        _add(group, name, metavar=metavar, default=given, help=f"{text} Environment: {variable}.")

    _add(
        group,
        FAIL_ON,
        action="append",
        metavar="EXPR",
        default=[text for text in (os.environ.get(_variable(FAIL_ON)) or "").split(";") if text.strip()],
        help="Fail if a figure of a strategy is worse, as 'rto_p95>+20%%' (than in the history) or "
        f"'recovered[cow]<90%%'; may be repeated. Environment: {_variable(FAIL_ON)}, with semicolons.",
    )


def _variable(option: str) -> str:
    return option.removeprefix("--").replace("-", "_").upper()


def _add(group: pytest.OptionGroup, name: str, **options: Any) -> None:
    """Add an option; another plugin that has taken the name first keeps it."""
    try:
        group.addoption(name, **options)
    except ValueError:
        message = f"another plugin defines {name} too; pytest-chaos uses what is given to that one"
        warnings.warn(pytest.PytestConfigWarning(message), stacklevel=1)


def read(config: pytest.Config) -> Settings:
    """Return what the options and the environment say; raise UsageError for the first that makes no sense."""
    from chaos import seeds
    from chaos.errors import ScenarioError
    from chaos.plan import parse_case
    from chaos.plugins import gate_options
    from chaos.plugins.machine import campaign_name

    seed = _number(config, "--chaos-seed", 0, MAX_SEED)
    runs = _number(config, "--chaos-runs", 1, MAX_RUNS)
    case = config.getoption("--chaos-case") or ""
    try:
        if case:
            parse_case(case)
    except ScenarioError as error:
        raise pytest.UsageError(f"--chaos-case: {error}") from None
    default = Path(RESULTS, REPLAY) if case else RESULTS
    folder = config.invocation_params.dir / (config.getoption("--chaos-results") or default)
    report = config.invocation_params.dir / (config.getoption("--chaos-report") or folder / REPORT)
    if report.is_dir():
        raise pytest.UsageError(f"--chaos-report: {report} is a folder; name a file")
    base = seeds.fresh() if seed is None else seed
    servers, cold = _servers(config), bool(config.getoption("--chaos-cold"))
    return Settings(
        base,
        seed is not None,
        campaign_name(),
        str(folder),
        str(report),
        runs,
        case,
        servers,
        cold,
        _backend(config),
        config.getoption("--chaos-toxiproxy") or "",
        bool(config.getoption("--chaos-no-skip")),
        speed=_speed(config),
        verify=bool(config.getoption("--chaos-verify-fast")),
        shrink=_shrink(config, replaying=bool(case)),
        parts=1 if case else _parts(config),
        price=_price(config),
        **gate_options.read(config, folder, replaying=bool(case)),
    )


def _shrink(config: pytest.Config, *, replaying: bool) -> int:
    """Return the runs for one failure; what is replayed is small already, or is to be seen as it is."""
    given = _number(config, "--chaos-shrink", 0, MAX_RUNS)
    return (0 if replaying else SHRINK) if given is None else given


def _parts(config: pytest.Config) -> int | None:
    if str(config.getoption("--chaos-parts") or AUTO) == AUTO:
        return None
    return _number(config, "--chaos-parts", 1, MAX_PARTS, f" or {AUTO!r}")


def _price(config: pytest.Config) -> float:
    from chaos.errors import ScenarioError

    try:
        return price_of("--chaos-price", config.getoption("--chaos-price") or "0")
    except ScenarioError as error:
        raise pytest.UsageError(str(error)) from None


def price_of(option: str, text: str) -> float:
    """Return the USD that the *text* of *option* asks for a million tokens; ScenarioError for what is no price."""
    from chaos.errors import ScenarioError

    try:
        price = float(text)
    except ValueError:
        price = -1.0
    if not 0 <= price <= MAX_PRICE:
        raise ScenarioError(f"{option} takes the USD for a million tokens, from 0 to {MAX_PRICE:,}, not {text!r}")
    return price


def shard(config: pytest.Config) -> tuple[int, int]:
    """Return which group of how many this session is by pytest-split's options; (1, 1) without."""
    group, splits = config.getoption("group", None), config.getoption("splits", None)
    return (group, splits) if isinstance(group, int) and isinstance(splits, int) else (1, 1)


def _backend(config: pytest.Config) -> str:
    from chaos.errors import did_you_mean
    from chaos.sandbox import backends

    name = config.getoption("--chaos-backend") or backends.AUTO
    if name not in backends.NAMES:
        raise pytest.UsageError(f"--chaos-backend: no back end {name!r}; {did_you_mean(name, backends.NAMES)}")
    return str(name)


def _speed(config: pytest.Config) -> str:
    from chaos.errors import did_you_mean
    from chaos.route import Speed

    name = config.getoption("--chaos-speed") or Speed.AUTO
    if name not in (known := [str(speed) for speed in Speed]):
        raise pytest.UsageError(f"--chaos-speed: there is no speed {name!r}; {did_you_mean(name, known)}")
    return str(name)


def _servers(config: pytest.Config) -> tuple[tuple[str, str], ...]:
    """Return name and address of each server that the user has; UsageError for what is no such pair."""
    from chaos.errors import ScenarioError

    try:
        return servers_of("--chaos-servers", config.getoption("--chaos-servers") or "")
    except ScenarioError as error:
        raise pytest.UsageError(str(error)) from None


def servers_of(option: str, text: str) -> tuple[tuple[str, str], ...]:
    """Return name and address of each server in the *text* of *option*; ScenarioError for what is no such pair."""
    from chaos import registry
    from chaos.errors import ScenarioError, did_you_mean

    known = registry.names("servers")
    found = []
    for pair in text.replace(",", " ").split():
        name, equals, address = pair.partition("=")
        if name not in known:
            raise ScenarioError(f"{option}: there is no server {name!r}; {did_you_mean(name, known)}")
        if not equals or not address:
            raise ScenarioError(f"{option}: {pair!r} has no address; write {name}=ADDRESS")
        found.append((name, address))
    return tuple(found)


def _number(config: pytest.Config, option: str, least: int, most: int, other: str = "") -> int | None:
    """Return the value of *option*, which may come from the environment and so be any text; *other* is allowed too."""
    text = config.getoption(option)
    if text is None:
        return None
    if not str(text).isdecimal() or not least <= int(text) <= most:
        wanted = f"a number from {least} to {most}{other}"
        raise pytest.UsageError(f"{option} ({_variable(option)}) takes {wanted}, not {text!r}")
    return int(text)


def begin(config: pytest.Config, settings: Settings, cells: int) -> None:
    """Begin the results of a campaign of so many *cells* in place of earlier ones; UsageError if it cannot."""
    from chaos import results
    from chaos.plugins.machine import campaign_info

    folder, report = Path(settings.folder), Path(settings.report)
    try:
        arguments = config.invocation_params.args
        given = settings.price, settings.history
        info = campaign_info(settings.campaign, settings.seed, arguments, cells, shard(config), *given)
        results.write_info(folder, info)
        if folder == config.invocation_params.dir / RESULTS:  # only where the name is ours
            (folder / ".gitignore").write_text("# made by pytest-chaos\n*\n", encoding="utf-8")
    except OSError as error:
        raise pytest.UsageError(f"--chaos-results: cannot write to {folder}: {error.strerror}") from None
    try:
        report.parent.mkdir(parents=True, exist_ok=True)
        report.unlink(missing_ok=True)  # a report of an earlier campaign must not pass for this one's
    except OSError as error:
        raise pytest.UsageError(f"--chaos-report: cannot write {report}: {error.strerror}") from None
