"""Scenarios in these tests name the small plug-ins of `plugins_for_tests`, and their own errors."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from chaos import registry
from chaos.errors import ScenarioError
from chaos.scenario import Scenario
from chaos.scenario.loader import load

GOOD = """\
version: 1
scenario: kill-at-random-steps
description: One sentence.
tags: [demo]
vars: {n: 40}
target:
  toy: {workload: sales, length: "${{ vars.n }}"}
strategies: [restart, {delta: {every: 5}}, {delta: {durability: async}}]
runs: 5
seed: 8412
faults:
  - kind: kill
    name: kill-late
    at: {step: random, phase: after_act, after: 5, before: 30}
    then:
      - kind: kill
        at: {during: recovery, phase: after_load}
  - kind: evict
    grace: 250ms
    keep: 2MiB
    codes: [1, 2]
    at: {step: [4, 8]}
expect:
  checks: [state, files]
  effects: at-least-once
  max_lost_steps: 2
  max_tokens_asked_again: 2000
  max_recovery: 10s
  volatile: ["workspace/*.log"]
expected_failures:
  - strategy: delta
    fault: kill
    breaks: [files]
    may_break: [state]
    because: it stores messages only
    issue: https://example.org/1
limits: {backoff_limit: 2, backoff: 10ms, deadline: 1m, memory: 512MiB}
"""


@pytest.fixture(autouse=True, scope="module")
def _plugins() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(Path(__file__).parent))
        for kind in ("faults", "targets", "strategies", "checks"):
            patch.setitem(registry.FOLDERS, kind, f"plugins_for_tests.{kind}")
        yield


@pytest.fixture(scope="session")
def good() -> str:
    """A scenario that uses every key."""
    return GOOD


@pytest.fixture(scope="session")
def loads(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Scenario]:
    """Load a text as a scenario."""
    path = tmp_path_factory.mktemp("scenarios") / "s.chaos.yaml"

    def load_text(text: str | bytes, seed: int | None = None) -> Scenario:
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return load(path, seed)

    return load_text


@pytest.fixture(scope="session")
def errors(loads: Callable[..., Scenario]) -> Callable[..., list[str]]:
    """Return the first line of each problem of a text, without the path."""

    def errors_of(text: str | bytes) -> list[str]:
        with pytest.raises(ScenarioError) as caught:
            loads(text)
        lines = str(caught.value).splitlines()
        return [line.split("s.chaos.yaml:", 1)[1] for line in lines if "s.chaos.yaml:" in line]

    return errors_of
