"""A scenario file as a test module: one function, parametrised by the cells of the matrix."""

from __future__ import annotations

import hashlib
import itertools
import os
import re
import types
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from chaos import codes, history, parts, thresholds
from chaos.campaign import Cell, Runner
from chaos.cell import seeker_of, starts_of
from chaos.errors import Kind, Problem, ScenarioError, did_you_mean
from chaos.plan import parse_case
from chaos.plugins import tags
from chaos.plugins.settings import SUFFIX, Settings, shard
from chaos.reports.failure_text import codes_of, failure
from chaos.results import CellResult, RunResult
from chaos.scenario import Scenario
from chaos.scenario.loader import load
from chaos.shards import Planned, PlannedCell
from chaos.variants import name_of
from chaos.verdict import CellVerdict

WORKERS = 4
"""Processes that each machine of `--splits` is taken to have, as a hosted runner has cores: all must divide alike."""


class Choice:
    """Which cells the options ask for. It sees all scenarios of a session, so it can tell a name that none of them has.

    A name that is a label means just that strategy or fault; else all variants of the name, or faults of the kind.
    """

    def __init__(self, config: pytest.Config, settings: Settings) -> None:
        self._seed = {"seed": settings.seed} if settings.fixed else {"default_seed": settings.seed}
        self._strategies: str = config.getoption("--chaos-strategy") or ""
        self._faults: str = config.getoption("--chaos-fault") or ""
        plan = parse_case(settings.case).plan if settings.case else None
        self._case = name_of(plan.faults[0].fault) if plan and plan.faults else ""
        self._asked = [each for text in settings.fail_on if (each := thresholds.parse(text).strategy)]
        self._known: dict[str, set[str]] = {"strategy": set(), "fault": set()}
        self._labels = set[str]()
        self._files: dict[str, Path] = {}
        self._order, self._folder = itertools.count(), config.invocation_params.dir
        self._estimates: dict[tuple[str, str], int] = {}  # runs of a cell, by scenario and fault
        self._parts, self._runs, self.report = settings.parts, settings.runs, settings.report
        _, groups = shard(config)
        self._workers = groups * WORKERS if groups > 1 else getattr(config, "workerinput", {}).get("workercount", 1)

    def cells(self, path: Path) -> tuple[Scenario, list[Cell]]:
        """Return the scenario in the file *path* and those of its cells, or their parts, that are asked for.

        A cell has the same place in the campaign whichever of them are.
        """
        scenario = load(path, **self._seed)
        return scenario, [part for cell in self.fields(scenario) for part in self._divided(cell)]

    @property
    def seed(self) -> dict[str, int]:
        """The seed that was given, or the one for scenarios without any, as the loader takes it."""
        return self._seed

    def fields(self, scenario: Scenario) -> list[Cell]:
        """Return those cells of *scenario* that are asked for; ScenarioError if another one has its name."""
        path = scenario.path
        if (other := self._files.setdefault(scenario.name, path)) != path:
            message = f"the scenario of {other} is called {scenario.name!r} too; rename one of them"
            raise ScenarioError((Problem(str(path), 0, 0, message, Kind.DUPLICATE),))
        strategies = {each.label: each.name for each in scenario.strategies}
        faults = {each.label: each.kind for each in scenario.faults}
        self._known["strategy"].update(strategies, strategies.values())
        self._known["fault"].update(faults, faults.values())
        self._labels.update(label for fault in scenario.faults for label in starts_of(fault))
        wanted = chosen(self._strategies, strategies), chosen(self._faults, faults)
        cells = [
            Cell(scenario, strategy, fault, next(self._order))
            for strategy in scenario.strategies
            for fault in scenario.faults
        ]
        return [
            cell
            for cell in cells
            if cell.strategy.label in wanted[0]
            and cell.fault.label in wanted[1]
            and self._case in ("", *starts_of(cell.fault))
        ]

    def _divided(self, cell: Cell) -> Iterator[Cell]:
        """Yield the parts of *cell*: itself if it is small, or one run of it depends on another."""
        if (self._parts or self._workers) == 1 or seeker_of(cell.fault):
            yield cell
            return
        expected = parts.estimate(cell.fault, cell.scenario.target.steps, self._runs or cell.scenario.runs)
        for part in parts.parts(expected, self._parts, self._workers):
            yield replace(cell, part=part)

    def planned(self, cells: Iterable[Cell], here: Iterable[Cell]) -> Planned:
        """Return what the campaign consists of: all *cells* that are asked for, and which of them are run *here*."""
        own = {(cell.order, cell.part) for cell in here}
        digests = {
            name: hashlib.blake2b(file_of(path).read_bytes(), digest_size=8).hexdigest()
            for name, path in self._files.items()
        }
        return Planned(
            scenarios=digests,
            cells=tuple(
                _planned(cell, (cell.order, cell.part) in own, self._expected(cell), self._folder) for cell in cells
            ),
        )

    def _expected(self, cell: Cell) -> int:
        """Return about how many runs *cell*, or a part of one, will have."""
        key, wanted = (cell.scenario.name, cell.fault.label), self._runs or cell.scenario.runs
        if self._case:
            return 1
        if seeker_of(cell.fault):
            return wanted
        if key not in self._estimates:
            self._estimates[key] = parts.estimate(cell.fault, cell.scenario.target.steps, wanted)
        return len(cell.part.share(self._estimates[key]))

    def complaint(self) -> str:
        """Return which name in the options none of the scenarios has, and which may be meant; "" if there is none."""
        if not self._files:
            return ""
        for what, text in (("strategy", self._strategies), ("fault", self._faults)):
            for word in words(text, self._known[what]):
                if word not in self._known[what]:
                    return f"--chaos-{what}: no {what} {word!r}; {did_you_mean(word, self._known[what])}"
        for strategy in self._asked:
            if strategy not in self._known["strategy"]:
                return f"--chaos-fail-on: no strategy {strategy!r}; {did_you_mean(strategy, self._known['strategy'])}"
        if self._case and self._case not in self._labels:
            return f"--chaos-case: no fault {self._case!r}; {did_you_mean(self._case, self._labels)}"
        return ""


def _planned(cell: Cell, here: bool, runs: int, folder: Path) -> PlannedCell:
    number, of = cell.part
    return PlannedCell(
        scenario=cell.scenario.name,
        strategy=cell.strategy.label,
        fault=cell.fault.label,
        order=cell.order,
        part=number,
        parts=of,
        here=here,
        runs=runs,
        file=os.path.relpath(file_of(cell.scenario.path), folder),
    )


def file_of(path: Path) -> Path:
    """Return the file in which the scenario of *path* stands: a test in Python goes by its node id, FILE::TEST."""
    return path.with_name(path.name.partition("::")[0])


def of_items(items: Iterable[pytest.Item]) -> list[Cell]:
    """Return the cells that are among *items*."""
    given: Iterator[dict[str, Any]] = (getattr(getattr(item, "callspec", None), "params", {}) for item in items)
    return [found for parameters in given if isinstance(found := parameters.get("chaos_cell"), Cell)]


def counted(ids: Iterable[str]) -> int:
    """Return how many cells there are in *ids* of tests, those that xdist has named: parts are of one cell."""
    return len({re.sub(r"(-part\d+of\d+)?\](@.*)?$", "]", each) for each in ids if f"{SUFFIX}::" in each})


def chosen(text: str, labels: dict[str, str]) -> set[str]:
    """Return those of *labels* (label to name) that the option's *text* asks for; all of them if it is empty."""
    asked = set(words(text, {*labels, *labels.values()}))
    return {label for label, name in labels.items() if not asked or {label, *({name} - labels.keys())} & asked}


def words(text: str, known: Collection[str]) -> list[str]:
    """Split *text* at its commas, but not within a label: "delta:every=4,durability=exit" is one variant."""
    names = "|".join(map(re.escape, sorted(known, key=len, reverse=True)))
    return re.findall(rf"\s*({names}|[^,]+?(?:,\s*\w+=[^,]+?)*)\s*(?:,(?!\s*\w+=)|$)", text)


CHOICE = pytest.StashKey[Choice]()


class ScenarioFile(pytest.Module):
    """A scenario as a test module; what it says wrong is an error of collection, and nothing is run."""

    def _getobj(self) -> types.ModuleType:
        try:
            scenario, cells = self.config.stash[CHOICE].cells(self.path)
            marks = tags.marks(scenario)
        except ScenarioError as error:
            raise self.CollectError(codes.told(error)) from None
        for mark in marks:
            self.config.addinivalue_line("markers", f"{mark}: a tag of chaos scenarios")
        module = types.ModuleType(re.sub(r"\W", "_", self.path.name.removesuffix(SUFFIX)))
        if cells:
            setattr(module, f"test_{module.__name__}", _function(self.path, list(_parameters(cells, marks))))
        return module


def _parameters(cells: list[Cell], tags: list[str]) -> Iterator[Any]:
    for cell in cells:
        marks = [
            pytest.mark.chaos(scenario=cell.scenario.name, strategy=cell.strategy.name, fault=cell.fault.kind),
            # Cells of one strategy share their reference run: `--dist loadgroup` keeps them together; parts it spreads.
            pytest.mark.xdist_group(_group(cell)),
            *(getattr(pytest.mark, tag) for tag in tags),
        ]
        yield pytest.param(cell, id=cell.name, marks=marks)


def _group(cell: Cell) -> str:
    return f"{cell.strategy.label}-{cell.part.number}of{cell.part.of}" if cell.part.of > 1 else cell.strategy.label


def _function(path: Path, parameters: list[Any]) -> Callable[..., None]:
    def test(request: pytest.FixtureRequest, chaos_cell: Cell, chaos_runner: Runner) -> None:
        result = chaos_runner.run_cell(chaos_cell)
        _report(chaos_runner, result, request, request.config.stash[CHOICE].report)

    # Reports that name a place (skips, annotations) name the scenario, not us.
    test.__code__ = test.__code__.replace(co_filename=str(path), co_firstlineno=1)
    return pytest.mark.parametrize("chaos_cell", parameters)(test)


def _report(runner: Runner, result: CellResult, request: pytest.FixtureRequest, report: str) -> None:
    """Turn what the cell amounts to into pytest's own outcomes."""
    __tracebackhide__ = True
    tell(request.node, runner, result)
    settle(result, runner.ran, report)


def tell(item: pytest.Item, runner: Runner, result: CellResult) -> None:
    """Have the JUnit entry of *item* say what became of its cell; skip it if there was nothing to run."""
    __tracebackhide__ = True  # the place of a skip is the test
    # Not by record_property: it warns about a JUnit dialect, and warnings may be errors.
    item.user_properties += [
        (f"chaos.{name}", value) for name, value in properties(result, runner.ran, runner.seed).items()
    ]
    if result.skipped or (result.passed and not result.runs):
        pytest.skip(result.skipped or result.why)  # the latter is a part of a cell that has fewer runs than expected


def settle(result: CellResult, runs: Sequence[RunResult], report: str) -> None:
    """End the test of a cell that was run as what the *result* amounts to; come back if all is well."""
    __tracebackhide__ = True
    if result.expected or result.known:
        pytest.xfail(result.why)  # comes back only under --runxfail, which asks for failures
    if result.expected or result.known or not result.passed:
        pytest.fail("\n".join(failure(result, runs, report)), pytrace=False)


def properties(result: CellResult, runs: Sequence[RunResult], seed: int) -> dict[str, str]:
    """Return what a JUnit file says of a cell with its *runs*; "" for what is not known."""
    found = {name: str(getattr(result, name)) for name in _PROPERTIES}
    figures = next(iter(history.of_runs(runs)), None)
    for name in ("recovered", "rpo_p50", "rpo_p95", "rto_p50", "rto_p95", "asked_again_tokens"):
        value = getattr(figures, name, None)
        found[name] = "" if value is None else f"{value:g}"
    found["codes"] = " ".join(codes_of(result.verdict, result.findings)) if result.verdict not in _FINE else ""
    found["known"] = " ".join(result.known)
    found["minimal"] = "; ".join(minimal.sentence for minimal in result.minimal)
    return {**found, "seed": str(seed)}


_PROPERTIES = ("scenario", "strategy", "fault", "verdict", "runs", "planned", "landed", "replay")
_FINE = (CellVerdict.RECOVERED,)
