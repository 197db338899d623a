"""The reference agent: an ordinary tool-calling agent whose way of coming back is a parameter.

The agent is written once as pure pieces (`agent.py`); a strategy (`strategies/`) is one small file that drives
them on its runtime. The harness imports this module, and so does every incarnation: it stays light.
"""

from __future__ import annotations

import dataclasses
import importlib
import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol, cast, get_args

from chaos.errors import ScenarioError, did_you_mean
from chaos.targets import Facts, Launch, Strategy, zone_env

if TYPE_CHECKING:
    from chaos.sandbox import Watch
    from chaos.world import Brain

Overflow = Literal["fail", "compact"]

CONFIG = "CHAOS_AGENT"
"""Environment variable that configures one incarnation, as JSON."""

WORKLOADS = ("quarterly_sales", "live_engine", "long_notes")
MIN_WINDOW = 2  # a call and its result: a model that is shown less begins anew in every step
WINDOWED = ("long_notes",)  # can go on from the newest messages; the others need what was said before
LIGHT_IMPORTS = (
    *(f"chaos.targets.reference.{name}" for name in ("incarnation", "model", "tools")),
    *("installer", "installer.destinations", "installer.sources"),  # imported when a package is installed
    "encodings.idna",  # imported when a name is first looked up
)
MIN_STEPS = 12  # the shortest script that still does each kind of thing once
MAX_STEPS_FACTOR = 2  # the agent's own cap: redone steps count as used, more than twice the work is a runaway
REQUESTS_FACTOR, REQUESTS_EXTRA = 2, 20  # every step asked twice, and a few rounds more for several faults


class Workload(Protocol):
    """What a module of `chaos.targets.reference.workloads` holds."""

    GOAL: str
    VARIABLES: tuple[str, ...]

    def brain(self, seed: int, steps: int, bytes_per_step: int) -> Brain: ...
    def facts(self, seed: int, steps: int, bytes_per_step: int, max_requests: int) -> Facts: ...


@dataclass(frozen=True)
class Reference:
    """The reference agent at work on *workload*.

    Args:
        workload: name of a module of `chaos.targets.reference.workloads`.
        steps: number of steps of a crash-free run.
        bytes_per_step: length of the text that the model adds to the conversation in each step.
        step_ms: milliseconds that each step takes at least; asynchronous durability depends on it.
        window: how many of the newest messages the model is shown besides the system's and the goal; 0: all. The
            state keeps everything.
        on_overflow: what it does about a prompt that the model refuses as too long: "fail" stops loudly, "compact"
            shows half as many of the newest messages, and keeps the system's and the goal.
        stream: whether it has the model's replies streamed.
        timeout_ms: milliseconds that it waits for a byte of a reply of the model or of a service.
    """

    workload: str = "quarterly_sales"
    steps: int = 40
    bytes_per_step: int = 200
    step_ms: int = 0
    window: int = 0
    on_overflow: Overflow = "fail"
    stream: bool = False
    timeout_ms: int = 60_000

    def __post_init__(self) -> None:
        wrong = []
        if self.workload not in WORKLOADS:
            wrong.append(f"no workload {self.workload!r}; {did_you_mean(self.workload, WORKLOADS)}")
        if self.steps < MIN_STEPS:
            wrong.append(f"steps must be at least {MIN_STEPS} (got {self.steps})")
        for name in ("bytes_per_step", "step_ms", "window"):
            if getattr(self, name) < 0:
                wrong.append(f"{name} must not be negative (got {getattr(self, name)})")
        if 0 < self.window < MIN_WINDOW:
            wrong.append(f"window must be 0 (all messages) or at least {MIN_WINDOW} (got {self.window})")
        if self.on_overflow not in (known := get_args(Overflow)):
            wrong.append(f"on_overflow must be {' or '.join(known)} (got {self.on_overflow!r})")
        if self.timeout_ms <= 0:
            wrong.append(f"timeout_ms must be more than 0 (got {self.timeout_ms})")
        short = "window" if self.window else "on_overflow: compact" if self.on_overflow == "compact" else ""
        if short and self.workload not in WINDOWED:
            wrong.append(f"{self.workload} needs the whole conversation; {short} goes with {', '.join(WINDOWED)} only")
        if wrong:
            raise ScenarioError("\n".join(wrong))

    def strategy(self, name: str, options: Mapping[str, object]) -> Strategy:
        """Return the recovery strategy *name* with its *options*."""
        from chaos import registry

        kind = registry.load("strategies", name)
        known = [field.name for field in dataclasses.fields(kind)]
        if unknown := sorted(set(options) - set(known)):
            raise ScenarioError("\n".join(f"{name} has no option {o!r}; {did_you_mean(o, known)}" for o in unknown))
        made: Strategy = kind(**options)
        return made

    def prepare(self, assets: Path, seed: int) -> None:
        """Build the wheel that the agent installs; the same bytes every time."""
        from chaos.targets.reference.wheel import build

        build(assets)

    def launch(self, strategy: Strategy, seed: int, root: Path) -> Launch:
        """Return how to start an incarnation; whether there is something to resume, it finds out itself."""
        return self._launch(strategy, seed, root)

    def reload(self, strategy: Strategy, seed: int, root: Path) -> Launch:
        """Return how to have a new process print what *strategy* would resume with."""
        return self._launch(strategy, seed, root, "--reload")

    def digest(self, state: bytes) -> str | None:
        """Return the digest of the state that *state* is the JSON of."""
        from chaos.targets.reference import agent

        return agent.digest(json.loads(state)) if state != b"null" else None

    def brain(self, seed: int) -> Brain:
        """Return the scripted model and services of the workload."""
        return self._workload().brain(seed, self.steps, self.bytes_per_step)

    def facts(self, seed: int) -> Facts:
        """Return what is true of a right result of the workload."""
        requests = REQUESTS_FACTOR * self.steps + REQUESTS_EXTRA
        return self._workload().facts(seed, self.steps, self.bytes_per_step, requests)

    @property
    def releases(self) -> Mapping[str, tuple[str, ...]]:
        """The releases of `release.py`."""
        from chaos.targets.reference.release import RELEASES

        return RELEASES

    def watch(self) -> Watch:
        """Return what to look at: the variables that the agent sets in its shell, and the engine's port."""
        from chaos.sandbox import Watch

        return Watch(environment=self._workload().VARIABLES, ports=(("ENGINE_PORT", 0),))

    def _launch(self, strategy: Strategy, seed: int, root: Path, *arguments: str) -> Launch:
        kind = type(strategy)
        config = {
            "strategy": f"{kind.__module__}:{kind.__qualname__}",
            "options": {field.name: getattr(strategy, field.name) for field in dataclasses.fields(kind)},  # type: ignore[arg-type]
            "goal": self._workload().GOAL,
            "max_steps": MAX_STEPS_FACTOR * self.steps,
            "step_ms": self.step_ms,
            "window": self.window,
            "on_overflow": self.on_overflow,
            "stream": self.stream,
            "timeout_ms": self.timeout_ms,
            "workload": self.workload,
            "seed": seed,
        }
        # LANGSMITH_TRACING: LangGraph must not look for a network.
        env = {CONFIG: json.dumps(config), "LANGSMITH_TRACING": "false", **zone_env(root, ())}
        command = (sys.executable, "-m", "chaos.targets.reference", *arguments)
        return Launch(command, env, (*LIGHT_IMPORTS, kind.__module__, *strategy.imports))

    def _workload(self) -> Workload:
        return cast(Workload, importlib.import_module(f"chaos.targets.reference.workloads.{self.workload}"))
