"""The project in a folder: the framework of its agent, where its tests are, how it is installed. Nothing is run."""

from __future__ import annotations

import ast
import configparser
import re
import shlex
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from chaos.errors import HarnessError

MAX_FILES = 2000  # Python files that are looked through for imports: seconds even on a slow disk
IGNORED = frozenset({"node_modules", "site-packages", "build", "dist", "venv", "env", "__pycache__"})
TESTS = ("tests", "test")
GROUPS = ("test", "tests", "testing", "dev")
"""What people call the extra, or the dependency group, that has what their tests need."""


@dataclass(frozen=True)
class Framework:
    """A framework for agents, by the packages that it is installed from and the modules that are imported.

    Args:
        strategies: those of the reference agent that recover as it does, as they stand in a scenario.
        why: these.
    """

    name: str
    packages: frozenset[str]
    modules: frozenset[str]
    strategies: tuple[str, ...]
    why: str


def _framework(name: str, packages: str, modules: str, strategies: tuple[str, ...], why: str) -> Framework:
    return Framework(name, frozenset(packages.split()), frozenset(modules.split()), strategies, why)


_HISTORY = ("chat_history", "full_snapshot")
_BY_HISTORY = (
    "it leaves persistence to you; most people store the messages, which is compared with a snapshot of all state"
)

FRAMEWORKS = (
    _framework("dbos", "dbos", "dbos", ("{events: {runtime: dbos}}",), "it replays the records of a DBOS workflow"),
    _framework(
        "temporal",
        "temporalio",
        "temporalio",
        ("{events: {runtime: temporal}}", "{events: {runtime: dbos}}"),
        "it replays a Temporal workflow (skipped without a server or the program `temporal`); DBOS, which replays too, "
        "needs neither",
    ),
    _framework(
        "deepagents",
        "deepagents",
        "deepagents",
        ("deep_agents", "full_snapshot"),
        "Deep Agents keep state and text files in LangGraph's checkpoints",
    ),
    _framework(
        "langgraph",
        "langgraph langgraph-checkpoint-sqlite langgraph-checkpoint-postgres",
        "langgraph",
        ("full_snapshot", "delta"),
        "LangGraph's checkpointers store the whole state after each step, or deltas of its channels",
    ),
    _framework("pydantic-ai", "pydantic-ai pydantic-ai-slim", "pydantic_ai", _HISTORY, _BY_HISTORY),
    _framework("crewai", "crewai", "crewai", _HISTORY, _BY_HISTORY),
    _framework("openai", "openai openai-agents", "openai agents", _HISTORY, _BY_HISTORY),
    _framework("anthropic", "anthropic claude-agent-sdk", "anthropic claude_agent_sdk", _HISTORY, _BY_HISTORY),
)
"""Those that decide how an agent recovers before those that do not: the first one that is found counts."""

NO_FRAMEWORK = _framework("none", "", "", _HISTORY, "the two that people write first: messages alone, or all state")


@dataclass(frozen=True)
class Project:
    """What was found in *root*.

    Args:
        framework: the first of those that are there.
        evidence: where it was seen; "" for none.
        others: the names of further frameworks that were seen.
        tests: the folder of the tests, relative; it need not be there yet.
        tests_because: it is that one.
        install: arguments of `pip install`, one list for each call of it.
        has_chaos: pytest-chaos is among what the project says that it needs.
        autoload: pytest loads plug-ins by itself here; else a conftest.py has to name ours.
        other_ci: the configuration of another CI than GitHub's, if it is the only one.
    """

    root: Path
    framework: Framework
    evidence: str
    others: tuple[str, ...]
    tests: Path
    tests_because: str
    install: tuple[str, ...]
    has_chaos: bool
    autoload: bool
    other_ci: str


def find(root: Path) -> Project:
    """Return the project in the folder *root*; HarnessError if its configuration cannot be read."""
    pyproject = _toml(root / "pyproject.toml")
    packages = _packages(root, pyproject)
    evidence = dict(_frameworks(packages, root))
    framework = next((each for each in FRAMEWORKS if each.name in evidence), NO_FRAMEWORK)
    settings = _pytest_settings(root, pyproject)
    tests, because = _tests(root, settings)
    return Project(
        root=root,
        framework=framework,
        evidence=evidence.pop(framework.name, ""),
        others=tuple(evidence),
        tests=tests,
        tests_because=because,
        install=tuple(_install(root, pyproject)),
        has_chaos="pytest-chaos" in packages,
        autoload="--disable-plugin-autoload" not in settings.get("addopts", []),
        other_ci=_other_ci(root),
    )


def _toml(path: Path) -> dict[str, Any]:
    if not path.is_file():
        return {}
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise HarnessError(f"{path}: no TOML ({error}); mend it first") from None


# -- what it needs


def _packages(root: Path, pyproject: Mapping[str, Any]) -> dict[str, str]:
    """Return the packages that the project says it needs, each with where it says so."""
    found: dict[str, str] = {}
    for line in _named_in(pyproject):
        found.setdefault(_normal(line), "pyproject.toml")
    for path in [*sorted(root.glob("requirements*.txt")), *sorted(root.glob("requirements/*.txt"))]:
        for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
            if line.strip() and not line.lstrip().startswith(("#", "-")):
                found.setdefault(_normal(line), str(path.relative_to(root)))
    for line in _ini(root / "setup.cfg").get("options", {}).get("install_requires", "").splitlines():
        found.setdefault(_normal(line), "setup.cfg")
    return found


def _named_in(pyproject: Mapping[str, Any]) -> Iterator[str]:
    """Yield requirements as they stand in a pyproject.toml: PEP 621's, PEP 735's, Poetry's."""
    project, poetry = _table(pyproject, "project"), _table(pyproject, "tool", "poetry")
    lists = [project.get("dependencies"), *_table(project, "optional-dependencies").values()]
    lists += _table(pyproject, "dependency-groups").values()
    for given in lists:
        yield from (line for line in given if isinstance(line, str)) if isinstance(given, list) else ()
    yield from _table(poetry, "dependencies")
    for group in _table(poetry, "group").values():
        yield from _table(group, "dependencies") if isinstance(group, dict) else ()


def _table(value: Mapping[str, Any], *keys: str) -> dict[str, Any]:
    found: Any = value
    for key in keys:
        found = found.get(key) if isinstance(found, dict) else None
    return found if isinstance(found, dict) else {}


def _normal(requirement: str) -> str:
    """Return the name in *requirement* as PEP 503 has it."""
    name = re.match(r"\s*([A-Za-z0-9][\w.-]*)", requirement)
    return re.sub(r"[-_.]+", "-", name[1]).lower().rstrip("-") if name else ""


def _frameworks(packages: Mapping[str, str], root: Path) -> Iterator[tuple[str, str]]:
    """Yield each framework that is there, and where it was seen: what is declared before what is imported."""
    imported = _imports(root)
    for each in FRAMEWORKS:
        if declared := sorted(each.packages & packages.keys()):
            yield each.name, f"{declared[0]} in {packages[declared[0]]}"
        elif seen := sorted(each.modules & imported.keys()):
            yield each.name, f"`import {seen[0]}` in {imported[seen[0]]}"


def _imports(root: Path) -> dict[str, str]:
    """Return the top-level modules that the Python files below *root* import, each with the first file that does."""
    found: dict[str, str] = {}
    for _, path in zip(range(MAX_FILES), _python_files(root), strict=False):
        try:
            tree = ast.parse(path.read_bytes())
        except (SyntaxError, ValueError, OSError, RecursionError):
            continue  # what Python cannot read imports nothing
        for node in ast.walk(tree):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and node.module and not node.level:
                names = [node.module]
            for name in names:
                found.setdefault(name.partition(".")[0], str(path.relative_to(root)))
    return found


def _python_files(folder: Path) -> Iterator[Path]:
    """Yield the project's own Python files, shallow ones first, without those of a virtual environment."""
    entries = sorted(folder.iterdir())
    yield from (path for path in entries if path.suffix == ".py" and path.is_file())
    for path in entries:
        hidden = path.name.startswith(".") or path.name in IGNORED
        if path.is_dir() and not path.is_symlink() and not hidden and not (path / "pyvenv.cfg").exists():
            yield from _python_files(path)


# -- its tests


def _pytest_settings(root: Path, pyproject: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return `testpaths` and `addopts` as words, from the file that pytest would take."""
    tables = [
        _ini(root / "pytest.ini").get("pytest"),
        _table(pyproject, "tool", "pytest", "ini_options") or _table(pyproject, "tool", "pytest"),
        _ini(root / "tox.ini").get("pytest"),
        _ini(root / "setup.cfg").get("tool:pytest"),
    ]
    table = next(filter(None, tables), {})
    return {key: _words(table.get(key)) for key in ("testpaths", "addopts")}


def _words(value: object) -> list[str]:
    if isinstance(value, list):
        return [str(each) for each in value]
    try:
        return shlex.split(str(value or ""))
    except ValueError:  # quotes that are never closed: pytest will say so
        return []


def _ini(path: Path) -> dict[str, dict[str, str]]:
    parser = configparser.ConfigParser(interpolation=None, strict=False)
    try:
        parser.read(path, encoding="utf-8")
    except (configparser.Error, UnicodeDecodeError):
        return {}  # pytest tells it better
    return {name: dict(section) for name, section in parser.items()}


def _tests(root: Path, settings: Mapping[str, Iterable[str]]) -> tuple[Path, str]:
    """Return the folder of the tests, relative to *root*, and why it is that one."""
    for name in settings.get("testpaths", ()):
        if (root / name).is_dir():
            return Path(name), "pytest's testpaths name it"
    for name in TESTS:
        if (root / name).is_dir():
            return Path(name), "it is there"
    for path in _python_files(root):
        if path.name.startswith("test_") or path.name.endswith("_test.py"):
            return path.parent.relative_to(root), f"{path.relative_to(root)} is in it"
    return Path(TESTS[0]), "there are no tests yet, and this is the usual name"


# -- how it is installed


def _install(root: Path, pyproject: Mapping[str, Any]) -> Iterator[str]:
    """Yield the arguments of `pip install` that make a machine ready for its tests."""
    project = _table(pyproject, "project")
    if project or (root / "setup.py").is_file() or (root / "setup.cfg").is_file():
        extra = next((name for name in GROUPS if name in _table(project, "optional-dependencies")), "")
        yield f"-e '.[{extra}]'" if extra else "-e ."
    if group := next((name for name in GROUPS if name in _table(pyproject, "dependency-groups")), ""):
        yield f"--group {group}"
    for path in sorted(root.glob("requirements*.txt")):
        yield f"-r {path.name}"


def _other_ci(root: Path) -> str:
    if (root / ".github").is_dir():
        return ""
    names = (".gitlab-ci.yml", "azure-pipelines.yml", ".circleci/config.yml", "Jenkinsfile", "bitbucket-pipelines.yml")
    return next((name for name in names if (root / name).exists()), "")
