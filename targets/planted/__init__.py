"""Agents with one planted bug each, and their correct sibling: the test of the tester.

All of them do the reference agent's work with its tools; only the driver (`driver.py`) is their own: a plain durable
loop. A module of `bugs/` overrides one piece of it, the way people really get it wrong, and says which check must
notice (`catch.py`). `correct.py` has agents in which nothing is wrong.
"""

from __future__ import annotations

import importlib
import pkgutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, ClassVar

from chaos.errors import ScenarioError, UnknownName, did_you_mean
from chaos.targets import Facts, InProcess, Launch, Strategy
from chaos.targets.reference import LIGHT_IMPORTS, Reference

if TYPE_CHECKING:
    from chaos.sandbox import Watch
    from chaos.targets.planted.catch import Catch
    from chaos.targets.planted.driver import Driver
    from chaos.world import Brain

NONE = "none"
"""The bug of the correct sibling."""

STRATEGY = "loop"


def bug_names() -> list[str]:
    """Return the name of every planted bug."""
    package = importlib.import_module(f"{__name__}.bugs")
    return sorted(module.name for module in pkgutil.iter_modules(package.__path__))


def driver_of(bug: str) -> type[Driver]:
    """Return the driver with *bug* in it; `EffectWithoutKey` in `bugs/effect_without_key.py`, say."""
    from chaos.targets.planted.driver import Driver

    if bug == NONE:
        return Driver
    found: type[Driver] = getattr(_module_of(bug), "".join(word.title() for word in bug.split("_")))
    return found


def catch_of(bug: str) -> Catch:
    """Return what exposes *bug* and which check must catch it."""
    found: Catch = _module_of(bug).CATCH
    return found


def said_of(bug: str) -> str:
    """Return what *bug* is, in a sentence."""
    return (_module_of(bug).__doc__ or "").partition("\n")[0]


def _module_of(bug: str) -> ModuleType:
    return importlib.import_module(f"{__name__}.bugs.{bug}")


@dataclass(frozen=True)
class Loop(InProcess):
    """A plain durable loop: a checkpoint for each step, replaced as a whole, with the files that belong to it."""

    claims: ClassVar[frozenset[str]] = frozenset({"messages", "files", "processes", "environment"})
    store: ClassVar[str] = "jsonl"
    durable: ClassVar[bool] = True


@dataclass(frozen=True)
class Planted:
    """An agent with one planted bug, at the reference agent's work; its strategy is called `loop`.

    Args:
        bug: name of a module of `chaos.targets.planted.bugs`; "none" for the correct sibling.
        steps: number of steps of a crash-free run.
        workload: what it works on, as for the reference agent.
        stream: whether it has the model's replies streamed.
    """

    bug: str = NONE
    steps: int = 16
    workload: str = "quarterly_sales"
    stream: bool = False

    def __post_init__(self) -> None:
        known = [NONE, *bug_names()]
        wrong = [] if self.bug in known else [f"no bug {self.bug!r}; {did_you_mean(self.bug, known)}"]
        try:
            _ = self._reference
        except ScenarioError as error:
            wrong.append(str(error))
        if wrong:
            raise ScenarioError("\n".join(wrong))

    def strategy(self, name: str, options: Mapping[str, object]) -> Strategy:
        """Return the one strategy; it has no options."""
        if name != STRATEGY:
            raise UnknownName(f"the target 'planted' has no strategy {name!r}; {did_you_mean(name, [STRATEGY])}")
        if options:
            raise ScenarioError("\n".join(f"{name} has no option {option!r}; it has none" for option in options))
        return Loop()

    def prepare(self, assets: Path, seed: int) -> None:
        """Build the wheel that the agent installs."""
        self._reference.prepare(assets, seed)

    def launch(self, strategy: Strategy, seed: int, root: Path) -> Launch:
        """Return how to start an incarnation; whether there is something to resume, it finds out itself."""
        return self._launch(strategy, seed, root)

    def reload(self, strategy: Strategy, seed: int, root: Path) -> Launch:
        """Return how to have a new process print what a resume would find."""
        return self._launch(strategy, seed, root, "--reload")

    def digest(self, state: bytes) -> str | None:
        """Return the digest of a state, as the reference agent announces it."""
        return self._reference.digest(state)

    def brain(self, seed: int) -> Brain:
        """Return the scripted model and services of the reference agent's work."""
        return self._reference.brain(seed)

    def facts(self, seed: int) -> Facts:
        """Return what is true of a right result."""
        return self._reference.facts(seed)

    @property
    def releases(self) -> Mapping[str, tuple[str, ...]]:
        """The releases of the reference agent."""
        return self._reference.releases

    def watch(self) -> Watch:
        """Return what to look at, as for the reference agent."""
        return self._reference.watch()

    def _launch(self, strategy: Strategy, seed: int, root: Path, *arguments: str) -> Launch:
        command = (sys.executable, "-m", __name__, self.bug, *arguments)
        return Launch(command, self._reference.launch(strategy, seed, root).env, (*LIGHT_IMPORTS, f"{__name__}.driver"))

    @property
    def _reference(self) -> Reference:
        return Reference(self.workload, self.steps, stream=self.stream)
