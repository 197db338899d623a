"""A scenario: what a `*.chaos.yaml` file says, as one frozen value.

`chaos.scenario.loader.load` reads it; nothing past the loader sees untyped data.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from chaos import mask
from chaos.checks import Terms
from chaos.explorers import Explorer
from chaos.faults import Fault
from chaos.targets import Strategy, Target


@dataclass(frozen=True)
class FaultSpec:
    """A fault and where it hits. *then* are further faults of the same plan, mostly during recovery."""

    label: str  # unique in the scenario; the kind unless `name:` says otherwise
    kind: str
    fault: Fault
    at: Explorer
    then: tuple[FaultSpec, ...] = ()
    vary: tuple[tuple[str, tuple[object, ...]], ...] = ()  # for a search: fields of the fault, and values of each


@dataclass(frozen=True)
class StrategySpec:
    """A recovery strategy with its options. *label* is the name and the options given: "delta:every=5"."""

    label: str
    name: str
    strategy: Strategy


@dataclass(frozen=True)
class ExpectedFailure:
    """Promises that a strategy is known to break under a fault, and why.

    Every check in *breaks* must fail in at least one run of the cell, else the cell fails as unexpectedly kept;
    those in *may_break* are allowed to. *strategy* is a label or a bare name; *fault* a label or a kind, "" for all.
    """

    strategy: str
    fault: str
    breaks: tuple[str, ...]
    may_break: tuple[str, ...]
    because: str
    issue: str = ""


@dataclass(frozen=True)
class Limits:
    """Where a run is stopped; reaching one is reported, never silent."""

    backoff_limit: int = 4  # restarts; Kubernetes Jobs default to 6, and every one costs CI time
    backoff_seconds: float = 0.0  # before the first restart, doubled each time as a Job does
    deadline_seconds: float = 60.0
    memory_bytes: int = 2 << 30
    heartbeat_seconds: float = 30.0  # Kubernetes' liveness probe by default: every 10 s, and the third miss ends it


@dataclass(frozen=True)
class Scenario:
    """Break *target* under each of *strategies* with each of *faults*; *checks* must hold in all *runs*."""

    path: Path
    name: str
    description: str
    tags: tuple[str, ...]
    target: Target
    strategies: tuple[StrategySpec, ...]
    faults: tuple[FaultSpec, ...]
    checks: tuple[str, ...]
    terms: Terms
    volatile: tuple[str, ...]  # patterns of files, and paths into the state
    expected: tuple[ExpectedFailure, ...]
    limits: Limits
    runs: int = 3
    seed: int | None = None

    @property
    def volatile_files(self) -> tuple[str, ...]:
        """Patterns of the files that may differ."""
        return tuple(each for each in self.volatile if not mask.is_path(each))

    @property
    def volatile_state(self) -> tuple[str, ...]:
        """Paths of the fields of the state that may differ."""
        return tuple(each for each in self.volatile if mask.is_path(each))

    def expectation(self, strategy: StrategySpec, fault: FaultSpec) -> tuple[ExpectedFailure, ...]:
        """Return the expected failures that speak of the cell *strategy* x *fault*.

        A name that is the label of one strategy or fault means just that one; else all of that name or kind.
        """
        strategies = {each.label for each in self.strategies}
        faults = {each.label for each in self.faults}
        return tuple(
            expected
            for expected in self.expected
            if _means(expected.strategy, strategy.label, strategy.name, strategies)
            and (not expected.fault or _means(expected.fault, fault.label, fault.kind, faults))
        )


def _means(said: str, label: str, name: str, labels: set[str]) -> bool:
    return said == label if said in labels else said == name
