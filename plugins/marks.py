"""`@pytest.mark.chaos(...)`: a scenario on a test function, which is run once for each of its cells.

The mark has the words of YAML: `scenario="FILE.chaos.yaml"`, or the keys of a scenario as keyword arguments. They go
through the same reader, so that a mistake has the same text; its place is in the test's own file.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pydantic import JsonValue

from chaos import codes, seeds
from chaos.errors import Kind, Problem, ScenarioError
from chaos.plugins import tags
from chaos.plugins.api import ChaosRun, OneRun
from chaos.plugins.cells import CHOICE, settle, tell
from chaos.plugins.in_python import InPython, plain
from chaos.plugins.settings import SUFFIX
from chaos.scenario import Scenario
from chaos.scenario.loader import load, target_of, understand_values
from chaos.verdict import CellVerdict

if TYPE_CHECKING:
    from chaos.campaign import Runner
    from chaos.cell import Cell
    from chaos.world import Brain

JUDGE = "judge"
"""What the mark has besides the keys of a scenario: False leaves broken promises to the test."""

OURS = {"scenario", "strategy", "fault"}
"""Keywords of the mark that each cell bears, for `-m`: it says which cell it is, and asks for nothing."""

_PROVES_NOTHING = (CellVerdict.NOT_EXERCISED, CellVerdict.UNKNOWN, CellVerdict.HARNESS_ERROR)

SAID = f"scenario='NAME{SUFFIX}'), or its keys as keywords"

NONE_ASKED = "no cell that is asked for"


def parametrize(metafunc: pytest.Metafunc) -> None:
    """Make one test for each cell of the scenario that the function's mark says; an error of collection if none does.

    Other parameters of the function are refused when all are known (`doubled`).
    """
    definition, choice = metafunc.definition, metafunc.config.stash[CHOICE]
    found = _asked(definition)
    try:
        if "chaos_world" in metafunc.fixturenames:
            brain_of(definition, choice.seed)
        if "chaos_run" not in metafunc.fixturenames:
            _used(metafunc, found)
            return
        if found is None:
            raise _wrong(definition, f"takes chaos_run; say of which scenario: @pytest.mark.chaos({SAID}")
        scenario = scenario_of(definition, *found, choice.seed)
        marks = tags.marks(scenario)
        cells = choice.fields(scenario)
    except ScenarioError as error:
        raise pytest.Collector.CollectError(codes.told(error)) from None
    for tag in marks:
        metafunc.config.addinivalue_line("markers", f"{tag}: a tag of chaos scenarios")
    parameters = [_parameter(cell, marks) for cell in cells]
    metafunc.parametrize("chaos_cell", parameters or [pytest.param(None, id=NONE_ASKED)])


def _used(metafunc: pytest.Metafunc, found: tuple[Any, pytest.Mark] | None) -> None:
    """Refuse a scenario on a function that does nothing with it: it would pass for one that was run."""
    definition = metafunc.definition
    if found and found[0] is definition and not {"chaos_world", "chaos_sandbox"} & set(metafunc.fixturenames):
        raise _wrong(definition, "has a scenario and would never run it; let it take chaos_run")


def _parameter(cell: Cell, tags: list[str]) -> Any:
    strategy = cell.strategy
    marks = (
        pytest.mark.chaos(scenario=cell.scenario.name, strategy=strategy.name, fault=cell.fault.kind),
        pytest.mark.xdist_group(strategy.label),  # cells of one strategy share their reference run
        *(getattr(pytest.mark, tag) for tag in tags),
    )
    return pytest.param(cell, id=cell.name, marks=marks)


def without_cell(item: pytest.Item) -> bool:
    """Tell whether *item* stands for a function none of whose cells is asked for."""
    parameters = getattr(getattr(item, "callspec", None), "params", {})
    return "chaos_cell" in parameters and parameters["chaos_cell"] is None


def doubled(items: list[pytest.Item]) -> str:
    """Return what is wrong with *items* that would run one cell several times; "" if none would."""
    seen: set[int] = set()
    for item in items:
        cell = getattr(getattr(item, "callspec", None), "params", {}).get("chaos_cell")
        if cell is None or "chaos_run" not in getattr(item, "fixturenames", ()):
            continue
        if cell.order in seen:
            name = item.nodeid.partition("[")[0]
            return (
                f"{name}: a test that takes chaos_run has the cells as its one parameter; it has others, or is repeated"
            )
        seen.add(cell.order)
    return ""


def _asked(node: pytest.Item) -> tuple[Any, pytest.Mark] | None:
    """Return the mark of *node* that says a scenario, the closest one, and whose it is; None if none does."""
    for owner, mark in node.iter_markers_with_node("chaos"):
        if (mark.args or mark.kwargs) and set(mark.kwargs) != OURS:
            return owner, mark
    return None


def scenario_of(node: pytest.Item, owner: Any, mark: pytest.Mark, seed: Mapping[str, int]) -> Scenario:
    """Return the scenario of the test *node* that the *mark* of *owner* says, under the name and path of the test."""
    tree, problems = _read(owner, mark)
    name = re.sub(r"[^a-z0-9]+", "-", f"{node.path.stem}-{_within(node)}".lower()).strip("-")
    if file := _file(tree, problems):
        scenario = load(file, **seed)
        name = f"{scenario.name}-{name}"  # the file may be a module of the campaign by itself
    else:
        scenario = understand_values({"version": 1, "scenario": name, **tree}, problems, **seed)
        name = scenario.name
    return replace(scenario, name=name, path=node.path.with_name(f"{node.path.name}::{_within(node)}"))


def brain_of(node: pytest.Item, seed: Mapping[str, int]) -> Brain:
    """Return the model and the services of the target that the mark of *node* says, which need say nothing else."""
    if (found := _asked(node)) is None:
        raise _wrong(node, "takes chaos_world; say of which target: @pytest.mark.chaos(target={...})")
    tree, problems = _read(*found)
    if file := _file(tree, problems):
        scenario = load(file, **seed)
        target, own = scenario.target, scenario.seed
    elif {"strategies", "faults"} & set(tree):
        scenario = scenario_of(node, *found, seed)
        target, own = scenario.target, scenario.seed
    else:
        for key in set(tree) - {"target", "vars", "seed"}:
            problems.add(
                (key,), "says nothing of a world; give the target, vars and seed, or a whole scenario", key=True
            )
        if "target" not in tree:
            problems.add((), "'target' is required", Kind.MISSING_FIELD)
        problems.raise_if_any()
        target, own = target_of(tree, problems, **seed)
    return target.brain(seeds.derive(own or 0, "workload", target))


def _read(owner: Any, mark: pytest.Mark) -> tuple[dict[str, JsonValue], InPython]:
    """Return the *mark* of *owner* as plain values, and where to tell what is wrong with it."""
    problems = InPython(owner.path, max(owner.reportinfo()[1] or 0, 0) + 1)
    if mark.args:
        problems.add((), "takes keywords only: scenario='FILE', or the keys of a scenario", Kind.TYPE)
        problems.raise_if_any()
    tree = {key: plain(value, (key,), problems) for key, value in mark.kwargs.items() if key != JUDGE}
    if not isinstance(mark.kwargs.get(JUDGE, True), bool):
        problems.add((JUDGE,), f"is True or False, not {mark.kwargs[JUDGE]!r}", Kind.TYPE)
    return tree, problems


def _file(tree: Mapping[str, JsonValue], problems: InPython) -> Path | None:
    """Return the file that is said to have the scenario; None if *tree* is it."""
    given = tree.get("scenario")
    if not isinstance(given, str) or not given.endswith(SUFFIX):
        return None
    for key in tree.keys() - {"scenario"}:
        problems.add((key,), f"is not given beside a file; write it into {given}", Kind.DUPLICATE, key=True)
    file = problems.path.parent / given
    if not file.is_file():
        problems.add(("scenario",), f"there is no file {file}", Kind.UNREADABLE)
    problems.raise_if_any()
    return file


def _within(node: Any) -> str:
    """Return the name of the test *node* within its file: "TestTrip::test_pays_once"."""
    return str(node.nodeid).partition("::")[2].partition("[")[0]


def _wrong(node: Any, message: str) -> ScenarioError:
    path, line, _ = node.reportinfo()
    name = _within(node)
    return ScenarioError((Problem(str(path), (line or 0) + 1, 1, f"{name} {message}", Kind.MISSING_FIELD),))


# ----- while the tests run


def run(item: pytest.Item, cell: Cell, runner: Runner, report: str) -> ChaosRun:
    """Run *cell* for the test *item*; skip it if the machine cannot."""
    result = runner.run_cell(cell)
    tell(item, runner, result)
    return ChaosRun(result, tuple(OneRun(each, runner.folder) for each in runner.ran), report)


def before(item: pytest.Item, made: ChaosRun) -> None:
    """Fail the test *item* as a cell of YAML fails, before it is called, if the mark does not say `judge=False`.

    What proves nothing, as a fault that did not land, fails it in any case.
    """
    __tracebackhide__ = True
    if (_judged(item) and not made.result.passed) or made.verdict in _PROVES_NOTHING:
        pytest.fail(made.failure, pytrace=False)
    if made.runs:  # if the test itself fails: nothing else has said how the cell is run again
        again = made.runs[0].result.replay.partition(" --chaos-case ")[0]
        item.add_report_section("call", "chaos", f"the cell again: {again}")


def after(item: pytest.Item, made: ChaosRun) -> None:
    """Have the test *item*, which has passed, end as its cell: what was expected to break is an expected failure."""
    __tracebackhide__ = True
    if _judged(item):
        settle(made.result, [each.result for each in made.runs], made.report)


def _judged(item: pytest.Item) -> bool:
    found = _asked(item)
    return found is None or bool(found[1].kwargs.get(JUDGE, True))
