"""The frameworks, a folder each, and what their campaigns say of six properties of recovery."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from chaos.results import Campaign, CellResult, RunResult
from chaos.verdict import CellVerdict, Outcome
from tests.track_record.cases import _CRASH_FREE as CRASH_FREE
from tests.track_record.cases import Bug, outcome

FOLDER = Path(__file__).parent
SIDES = ("published", "newest")
NO_FAULT = "no fault"
KEPT = "kept"
FAULTS = ("model_call", "effect", "checkpoint_write", "fsync")
"""What the process is killed at; the faults of a scenario have these names."""


@dataclass(frozen=True)
class Property:
    """One *name* of arXiv 2608.03836, the *scenario* that asks for it and the *check* that judges it.

    Where the process is killed at a call of the model, nothing outside is in flight: *quiet* then judges
    it too: what is done outside again was done before.
    """

    name: str
    scenario: str
    check: str
    quiet: str = ""

    def checks(self, fault: str) -> tuple[str, ...]:
        return (self.check, self.quiet) if self.quiet and fault == FAULTS[0] else (self.check,)


PROPERTIES = (
    Property("prefix continuation", "scenario", "recovery", quiet="effects"),
    Property("effect exactly-once", "scenario", "effects"),
    Property("checkpoint validity", "scenario", "state"),
    Property("recovery determinism", "scenario", "determinism"),
    Property("fork determinism", "fork", "state"),
    Property("consume-once", "approval", "effects"),
)


class Framework(Bug):
    """A folder with `agent.py`, `pins.txt`, `scenario.chaos.yaml`, and `fork.chaos.yaml` and `approval.chaos.yaml`.

    `reasons.txt` says of each property without a scenario, and of each fault that cannot hit, why, a line each:
    "fork determinism: there are no forks".
    """

    @property
    def scenarios(self) -> dict[str, Path]:
        return {path.name.split(".")[0]: path for path in sorted(self.folder.glob("*.chaos.yaml"))}

    @property
    def reasons(self) -> dict[str, str]:
        file = self.folder / "reasons.txt"
        lines = file.read_text().splitlines() if file.exists() else []
        return {name: why.strip() for name, _, why in (line.partition(":") for line in lines) if why}


@dataclass(frozen=True)
class Row:
    """What was seen of one property: a cell for each of NO_FAULT and FAULTS, and the first *finding*."""

    property: Property
    cells: dict[str, str]
    finding: str = ""


def frameworks() -> list[Framework]:
    """Return all of them, in the order of their names."""
    return [Framework(path.parent) for path in sorted(FOLDER.glob("*/pins.txt"))]


def tried(framework: Framework, side: str) -> list[Row]:
    """Run the campaigns of *framework* with the versions of *side* and return a row for each property.

    Raises:
        CalledProcessError: the versions could not be installed.
        TimeoutExpired: a campaign took too long.
    """
    seen: dict[str, Campaign | str] = {}
    for name, path in framework.scenarios.items():
        with tempfile.TemporaryDirectory(prefix="frameworks-") as folder:
            seen[name] = outcome(path, framework.pins(side), Path(folder, "results"), "--chaos-shrink", "0")
    return [row(one, seen.get(one.scenario), framework.reasons) for one in PROPERTIES]


def row(wanted: Property, campaign: Campaign | str | None, reasons: dict[str, str]) -> Row:
    """Return what *campaign* says of the *wanted* property; it is a text, or None, where there is none."""
    if campaign is None or isinstance(campaign, str):
        return Row(wanted, {}, campaign or reasons.get(wanted.name, "not tried"))
    columns: dict[str, str] = {}
    finding = ""
    for cell in campaign.cells:
        runs = [run for run in campaign.runs if run.key == cell.key]
        if runs and not any(wanted.check in run.checks or run.error for run in runs):
            continue  # only plans that are repeated say whether recovery is determined
        columns[cell.fault], found = judged(wanted.checks(cell.fault), cell, runs)
        finding = finding or found
    crash_free = next((known for cell in campaign.cells if (known := CRASH_FREE.match(cell.why))), None)
    if crash_free and crash_free[1] == wanted.check:
        return Row(wanted, {NO_FAULT: "**broken**"}, crash_free[2])
    if crash_free:
        return Row(wanted, {NO_FAULT: f"breaks `{crash_free[1]}`"}, crash_free[2])
    kept = "–" if wanted.check in ("recovery", "determinism") else KEPT  # they are of runs with a crash
    if not campaign.runs:
        kept = "not judged"
    untried = {fault: reasons[fault] for fault in FAULTS if fault in reasons and fault not in columns}
    return Row(wanted, {NO_FAULT: kept, **columns, **untried}, finding)


def judged(checks: Sequence[str], cell: CellResult, runs: Sequence[RunResult]) -> tuple[str, str]:
    """Return what the *runs* of *cell* say of *checks*, the worst of them for each, and the first finding."""
    if cell.skipped or not runs:
        return "not judged", cell.skipped or cell.why
    kinds = [_kind(checks, run) for run in runs]
    told = [f"**{kind}** {count} of {len(runs)}" for kind, count in sorted(Counter(kinds).items()) if kind != KEPT]
    if not told:
        return f"{KEPT}, {len(runs)} of {len(runs)}", ""
    worst = kinds.index("broken") if "broken" in kinds else next(at for at, kind in enumerate(kinds) if kind != KEPT)
    return ", ".join(told), _finding(checks, kinds[worst], runs[worst])


def _kind(checks: Sequence[str], run: RunResult) -> str:
    outcomes = [run.checks[check].outcome if check in run.checks else Outcome.UNKNOWN for check in checks]
    if run.error or run.verdict is CellVerdict.NOT_EXERCISED:
        return "not exercised"
    if Outcome.FAIL in outcomes:
        return "broken"
    if Outcome.UNKNOWN not in outcomes:
        return KEPT
    return "not resumed" if "finishes" in run.broke else "not judged"


def _finding(checks: Sequence[str], kind: str, run: RunResult) -> str:
    names = ("finishes", *checks) if kind == "not resumed" else (*checks, "finishes")
    verdicts = sorted((run.checks[name] for name in names if name in run.checks), key=lambda one: -one.outcome)
    return f"`{run.plan}`: {next((one.finding for one in verdicts if one.finding), run.error or '; '.join(run.missed))}"
