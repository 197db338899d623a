"""Every kind of failure has a code that says what it is, and a page that says what to do.

    check.effects            a promise that was broken: one code for each check plug-in
    verdict.not-exercised    what a run amounts to
    scenario.unknown-field   a mistake in a scenario
    harness.docker           what the harness could not do on this machine

Pages are `docs/codes/CODE.md`. A check of somebody else's package has none there: its page is made from its docstring.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from chaos import registry
from chaos.errors import ChaosError, HarnessError, Kind, Problem, ScenarioError, UnknownName, did_you_mean
from chaos.verdict import CellVerdict

PAGES = Path(__file__).parent / "pages"
HEADINGS = ("What it means", "What was compared", "Usual causes", "What to do", "Example")
"""Of every page, in this order."""

CHECK, VERDICT, SCENARIO, HARNESS = "check", "verdict", "scenario", "harness"

BY_MODULE: Mapping[str, str] = {
    "chaos.campaign": "case",
    "chaos.capture": "capture",
    "chaos.clock": "clock",
    "chaos.faketime": "clock",
    "chaos.faults": "fault",
    "chaos.faults.clock_jump": "clock",
    "chaos.faults.disk_full": "disk",
    "chaos.faults.io_error": "system-calls",
    "chaos.faults.network": "network",
    "chaos.faults.power_loss": "disk",
    "chaos.faults.store_down": "network",
    "chaos.gate": "protocol",
    "chaos.history": "history",
    "chaos.merge": "merge",
    "chaos.plugins": "command",
    "chaos.ports": "ports",
    "chaos.reading": "protocol",
    "chaos.results": "no-campaign",
    "chaos.route": "capture",
    "chaos.run": "system-calls",
    "chaos.sandbox": "sandbox",
    "chaos.sandbox.cgroup": "memory",
    "chaos.sandbox.disk": "disk",
    "chaos.sandbox.docker": "docker",
    "chaos.sandbox.hierarchy": "memory",
    "chaos.sandbox.mounts": "disk",
    "chaos.sandbox.strace": "system-calls",
    "chaos.servers": "server",
    "chaos.shrink": "shrink",
    "chaos.supervisor": "protocol",
    "chaos.targets": "snapshot",
    "chaos.toxiproxy": "network",
    "chaos.world.cassette": "cassette",
}
"""Which part of the harness raises what: the innermost module of the traceback that is here, or below one, counts."""

OTHER = "other"
STORE = "no-store"  # what `audit` says of a place without a thread


@dataclass(frozen=True)
class Page:
    """What there is to say about *code*: a *title* of one line, and the page in Markdown, title and all."""

    code: str
    title: str
    text: str


def of_check(name: str) -> str:
    """Return the code of a promise that the check *name* found broken."""
    return f"{CHECK}.{name}"


def of_verdict(verdict: CellVerdict | str) -> str:
    """Return the code of what a run or a cell amounts to."""
    return f"{VERDICT}.{str(verdict).replace(' ', '-')}"


def of_problem(problem: Problem) -> str:
    """Return the code of a mistake in a scenario."""
    return f"{SCENARIO}.{problem.kind}"


def of_error(error: ChaosError) -> str:
    """Return the code of an *error* that was caught: of its first problem, or of the part that raised it."""
    if isinstance(error, ScenarioError):
        kind = Kind.UNKNOWN_NAME if isinstance(error, UnknownName) else Kind.VALUE
        return of_problem(error.problems[0]) if error.problems else f"{SCENARIO}.{kind}"
    if not isinstance(error, HarnessError):
        return f"{HARNESS}.{STORE}"
    return f"{HARNESS}.{next(filter(None, map(_part, _modules(error))), OTHER)}"


def told(error: ChaosError) -> str:
    """Return what *error* says, with a code for each of its problems."""
    if isinstance(error, ScenarioError) and error.problems:
        return "\n".join(problem.text(of_problem(problem)) for problem in error.problems)
    first, *rest = str(error).split("\n")
    return "\n".join([f"{first} [{of_error(error)}]", *rest])


def all() -> tuple[str, ...]:
    """Return every code, grouped as above."""
    harness = sorted({*BY_MODULE.values(), OTHER, STORE})
    return (
        *map(of_check, registry.names("checks")),
        *map(of_verdict, CellVerdict),
        *(f"{SCENARIO}.{kind}" for kind in sorted(Kind)),
        *(f"{HARNESS}.{part}" for part in harness),
    )


def page(code: str) -> Page:
    """Return the page of *code*; raise UnknownName with what may be meant."""
    if code not in (known := all()):
        raise UnknownName(f"no code {code!r}; {_meant(code, known)}")
    path = PAGES / f"{code}.md"
    text = path.read_text(encoding="utf-8") if path.exists() else _made(code)
    return Page(code, text.partition("\n")[0].removeprefix("# ").partition(": ")[2], text)


def _meant(code: str, known: tuple[str, ...]) -> str:
    """Return the suggestion for a *code* that is none: the last part of one may have been typed alone."""
    if same := [each for each in known if each.partition(".")[2] == code]:
        return f"did you mean {same[0]!r}?"
    said = did_you_mean(code, known)
    return said if said.startswith("did") else "`pytest-chaos explain` lists all"


def _made(code: str) -> str:
    """Return the page of a check that comes without one, from its docstring."""
    from chaos.scenario.options import summary

    name = code.removeprefix(f"{CHECK}.")
    first, _, rest = summary(registry.load("checks", name)).partition("\n\n")
    says = {
        "What it means": f"The check `{name}` found its promise broken: {first}",
        "What was compared": rest or "What the check itself says in its finding, which stands beside the code.",
        "Usual causes": "The check is part of another package, whose documentation knows them.",
        "What to do": "Run the replay command that stands with the failure, and read the finding and its details.",
        "Example": f"```\n{name} [{code}]: the finding of the check\n```",
    }
    body = "\n\n".join(f"## {heading}\n\n{says[heading]}" for heading in HEADINGS)
    return f"# {code}: {' '.join(first.split()).rstrip('.')}\n\n{body}\n"


def _modules(error: BaseException) -> Iterator[str]:
    """Yield the modules that *error* came through, innermost first."""
    trace, found = error.__traceback__, []
    while trace is not None:
        found.append(str(trace.tb_frame.f_globals.get("__name__", "")))
        trace = trace.tb_next
    yield from reversed(found)


def _part(module: str) -> str:
    while module:
        if module in BY_MODULE:
            return BY_MODULE[module]
        module = module.rpartition(".")[0]
    return ""
