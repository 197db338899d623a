"""Every plug-in of every kind keeps its kind's contract; a new file is under test from its first day."""

from __future__ import annotations

import ast
import contextlib
import copy
import dataclasses
import importlib.util
import inspect
import itertools
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest

from chaos import registry
from chaos.cell import chain_of
from chaos.checks import Check
from chaos.durable import Durable
from chaos.errors import ScenarioError, UnknownName
from chaos.explorers import Explorer
from chaos.faults import Fault
from chaos.outfit import Outfit
from chaos.sandbox import Able, Survival
from chaos.scenario.loader import load
from chaos.servers import Server
from chaos.stores import Store
from chaos.targets import Strategy, Target
from tests import toy

PROTOCOLS: dict[str, type] = {
    "faults": Fault, "checks": Check, "explorers": Explorer, "stores": Store, "targets": Target,
    "strategies": Strategy, "servers": Server,
}  # fmt: skip
OURS = {
    "faults": {"changed_code", "clock_jump", "kill", "oom_kill", "evict", "rate_limit", "corrupt_delta"} | {
        "torn_write", "stale_store",
        "power_loss", "disk_full", "io_error", "hang", "crash_loop", "false_dead",
        "overloaded", "timeout", "lost_reply", "stream_cut", "malformed_reply", "context_overflow", "network",
        "store_down",
    },
    "checks": {"state", "files", "processes", "environment", "effects", "goal", "budget", "finishes", "corruption"} | {
        "retries", "streams", "fencing",
    },
    "explorers": {
        "every", "sampled", "fixed", "recovery", "replay", "combine", "syscall", "operation", "until_none", "search",
        "pairs", "arrivals", "repeat",
    },
    "stores": {
        "jsonl", "langgraph_sqlite", "langgraph_postgres", "redis_history", "dbos_sqlite", "dbos_postgres",
        "aws_sqlite", "temporal_sqlite",
    },
    "servers": {"postgres", "redis", "temporal"},
    "targets": {"reference", "planted"},
    "strategies": {
        "restart", "in_memory", "chat_history", "full_snapshot", "selective", "delta", "deep_agents", "cow", "semantic",
        "events", "segmented", "layered",
    },
}  # fmt: skip
"""What there is at least. The tests below go over what there is."""

PLUGINS = [(kind, name) for kind in registry.FOLDERS for name in registry.names(kind)]
every_plugin = pytest.mark.parametrize(("kind", "name"), PLUGINS, ids=[f"{kind}-{name}" for kind, name in PLUGINS])


def members(protocol: type) -> set[str]:
    """Return the names that *protocol* asks for."""
    names = {name for name in vars(protocol) if not name.startswith("_")}
    return names | set(protocol.__annotations__)


def test_every_kind_is_here() -> None:
    assert PROTOCOLS.keys() == registry.FOLDERS.keys() == OURS.keys()


@pytest.mark.parametrize("kind", registry.FOLDERS)
def test_names_lists_the_plug_ins_and_no_helpers(kind: str) -> None:
    names = registry.names(kind)
    assert names == sorted(names)
    assert set(names) >= OURS[kind]
    assert not [name for name in names if name.startswith("_")]


@every_plugin
def test_the_class_has_the_name_of_its_file(kind: str, name: str) -> None:
    cls = registry.load(kind, name)
    assert cls.__name__ == "".join(word.title() for word in name.split("_"))
    assert cls.__module__ == f"{registry.FOLDERS[kind]}.{name}"


@every_plugin
def test_a_plug_in_is_a_frozen_dataclass_with_a_docstring(kind: str, name: str) -> None:
    cls = registry.load(kind, name)
    assert dataclasses.is_dataclass(cls)
    assert cls.__dataclass_params__.frozen  # type: ignore[attr-defined]
    doc = vars(cls)["__doc__"] or ""
    assert doc and not doc.startswith(f"{cls.__name__}("), "the docstring must not be the one that dataclass makes"
    assert inspect.getdoc(inspect.getmodule(cls)), "the module says what it is about"


@every_plugin
def test_it_can_be_made_without_arguments_and_is_a_value(kind: str, name: str) -> None:
    cls = registry.load(kind, name)
    one, other = cls(), cls()
    assert one == other
    assert hash(one) == hash(other)
    assert copy.deepcopy(one) == one
    assert eval(repr(one), vars(inspect.getmodule(cls))) == one  # seeds and folders are derived from the repr
    for field in dataclasses.fields(cls):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(one, field.name, None)


@every_plugin
def test_it_has_all_that_its_kind_asks_for(kind: str, name: str) -> None:
    made = registry.load(kind, name)()
    protocol = PROTOCOLS[kind]
    assert [each for each in members(protocol) if not hasattr(made, each)] == []
    for each, wanted in vars(protocol).items():
        if inspect.isfunction(wanted) and not each.startswith("_"):
            wants, has = (list(inspect.signature(one).parameters) for one in (wanted, getattr(type(made), each)))
            assert has[: len(wants)] == wants, f"{each} takes {has}, the protocol says {wants}"


def test_every_fault_has_a_scenario_and_tests_of_its_own() -> None:
    root = Path(__file__).parents[1]
    loaded = [load(path) for path in (root / "scenarios").glob("*.chaos.yaml")]
    kinds = {spec.kind for scenario in loaded for fault in scenario.faults for spec in chain_of(fault)}
    assert sorted(kinds) == registry.names("faults")
    assert [name for name in sorted(kinds) if not (root / f"tests/faults/test_{name}.py").exists()] == []


@pytest.mark.parametrize("name", registry.names("faults"))
def test_a_fault_says_what_it_takes_away_and_when_it_makes_no_sense(name: str) -> None:
    fault = registry.load("faults", name)()
    assert fault.survival in Survival
    assert fault.missing(Able()) == ""
    assert isinstance(fault.unsuited(None, toy.Forgets()), str)
    assert isinstance(fault.unsuited(registry.load("stores", "jsonl")(), toy.Keeps()), str)
    assert isinstance(fault.outfit, Outfit)
    assert fault.landed("1/after_act", []) is None, "nothing is no evidence"


@pytest.mark.parametrize("name", registry.names("strategies"))
def test_a_strategy_s_claims_and_store_exist(name: str) -> None:
    strategy = registry.load("strategies", name)()
    assert strategy.claims <= {"messages", "files", "processes", "environment"}
    assert strategy.store in {"", *registry.names("stores")}
    assert strategy.durable or not strategy.claims, "what is not durable restores nothing"
    assert set(strategy.needs) <= set(registry.names("servers"))
    assert isinstance(strategy.missing(), str)
    assert strategy.load(Durable(Path("/nonexistent"))) is None


def variants(name: str) -> list[Strategy]:
    """Return the strategy *name* with every combination of those options that have a fixed set of values."""
    kind = registry.load("strategies", name)
    hints = get_type_hints(kind)
    choices = {field.name: get_args(hints[field.name]) for field in dataclasses.fields(kind)}
    choices = {option: values for option, values in choices.items() if values}
    made = []
    for values in itertools.product(*choices.values()):
        with contextlib.suppress(ScenarioError):
            made.append(kind(**dict(zip(choices, values, strict=True))))
    return made


@pytest.mark.parametrize(
    "strategy", [each for name in registry.names("strategies") for each in variants(name)], ids=repr
)
def test_every_variant_of_a_strategy_keeps_the_contract(strategy: Strategy) -> None:
    assert strategy.claims <= {"messages", "files", "processes", "environment"}
    assert strategy.store in {"", *registry.names("stores")}
    assert bool(strategy.store) == strategy.durable, "what is stored can be damaged"
    assert set(strategy.needs) <= set(registry.names("servers"))
    lacks = strategy.missing()
    assert not lacks or ":" in lacks or ";" in lacks or "install" in lacks or "root" in lacks, "a remedy belongs to it"
    for module in strategy.imports if not lacks else ():
        assert importlib.util.find_spec(module), f"{module} cannot be imported"


@every_plugin
def test_it_has_a_test_of_its_own(kind: str, name: str) -> None:
    """Adding one thing is one new file and its test."""
    tests = Path(__file__).parent
    shared = {
        "explorers": tests / "explorers/test_explorers.py", "strategies": tests / "targets/test_strategies.py",
        "targets": tests / "test_acceptance.py",
    }  # fmt: skip
    assert (tests / kind / f"test_{name}.py").exists() or shared[kind].exists()


@pytest.mark.parametrize("kind", registry.FOLDERS)
def test_an_unknown_name_is_answered_with_a_near_one(kind: str) -> None:
    known = registry.names(kind)[0]
    with pytest.raises(UnknownName, match=f"did you mean '{known}'"):
        registry.load(kind, f"{known}x")


def imports(path: Path) -> set[str]:
    """Return the modules that *path* imports anywhere but under TYPE_CHECKING."""
    found = set[str]()
    todo: list[ast.AST] = [ast.parse(path.read_text())]
    while todo:
        node = todo.pop()
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            continue
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        if isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
        todo += ast.iter_child_nodes(node)
    return found


def modules(*parts: str) -> list[Path]:
    core = Path(registry.__file__).parent
    return sorted(path for part in parts for path in (core / part).rglob("*.py"))


@pytest.mark.parametrize(
    ("below", "never"),
    [
        (("checks",), ("run", "campaign", "sandbox", "world", "faults", "plugins", "reports")),
        (("reports",), ("run", "campaign", "sandbox", "world", "plugins")),
        (
            ("faults", "explorers", "stores", "sandbox", "world", "scenario", "targets"),
            ("campaign", "plugins", "reports"),
        ),
    ],
    ids=["checks touch nothing", "reports render what is on disk", "dependencies point downwards"],
)
def test_the_four_stages_never_call_back(below: tuple[str, ...], never: tuple[str, ...]) -> None:
    banned = tuple(f"chaos.{name}" for name in never)
    for path in modules(*below):
        wrong = [name for name in imports(path) if any(name == ban or name.startswith(f"{ban}.") for ban in banned)]
        assert wrong == [], f"{path.name} imports {wrong}"


def test_the_harness_reads_no_name_as_another_s() -> None:
    loaded: list[Any] = [registry.load(kind, name) for kind, name in PLUGINS]
    assert len(set(loaded)) == len(loaded)
