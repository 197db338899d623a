from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaos.checks.environment import Environment
from chaos.events.seen import Observation, ProcessEntry
from chaos.verdict import PASS, Outcome, Verdict
from tests.journals import FACTS, SEEN, SERVER, SHELL, TERMS, Story, recovered, reference, refusing, seen


def judged(observed: Observation | None, against: Observation | None = SEEN) -> Verdict:
    run, other = (Story().start().steps(0).finish(seen=each).record for each in (observed, against))
    return Environment().check(run, other, TERMS, FACTS)


def shell(**changes: object) -> ProcessEntry:
    return msgspec.structs.replace(SHELL, **changes)


def test_a_recovered_run_has_the_same_environment() -> None:
    assert Environment().check(recovered().record, reference().record, TERMS, FACTS) == PASS


@pytest.mark.parametrize(
    ("change", "finding"),
    [
        ({"cwd": "/"}, "`/bin/bash -i` is in / instead of $ROOT/workspace/data"),
        ({"environment": ()}, "STAGE is not set in `/bin/bash -i`"),
        ({"environment": (("STAGE", "live"),)}, "STAGE is 'live' instead of 'test' in `/bin/bash -i`"),
        ({"environment": (("A", "1"), ("STAGE", "test"))}, "A is set in `/bin/bash -i`: 1"),
    ],
)
def test_a_changed_shell_is_named(change: dict[str, object], finding: str) -> None:
    verdict = judged(seen(processes=(SERVER, shell(**change))))
    assert (verdict.outcome, verdict.finding) == (Outcome.FAIL, finding)


@pytest.mark.parametrize("name", ["/bin/bash", "sh", "-bash"])
def test_a_shell_that_is_gone_counts_here(name: str) -> None:
    verdict = judged(SEEN, seen(processes=(SERVER, SHELL, ProcessEntry(argv=(name,), cwd="/"))))
    assert verdict.finding == f"the shell `{name}` is gone, and with it its directory and variables"


def test_another_process_that_is_gone_is_left_to_the_check_of_processes() -> None:
    assert judged(seen(processes=(SHELL,))) == PASS


def test_packages_are_compared() -> None:
    verdict = judged(seen(packages=("salesmath-2.0",)))
    assert verdict.finding == "package salesmath-1.0 is not installed (and 1 more)"
    assert "package salesmath-2.0 is extra" in verdict.details


@given(st.permutations([SERVER, SHELL, shell(cwd="/"), shell(cwd="/tmp")]))
def test_the_order_of_processes_and_variables_is_nothing(processes: list[ProcessEntry]) -> None:
    assert judged(seen(processes=tuple(processes)), seen(processes=tuple(reversed(processes)))) == PASS
    pair = (("A", "1"), ("B", "2"))
    one, other = (seen(processes=(shell(environment=each),)) for each in (pair, pair[::-1]))
    assert judged(one, other) == PASS


def test_one_of_two_like_processes_that_moved_is_one_difference() -> None:
    verdict = judged(seen(processes=(SHELL, shell(cwd="/x"))), seen(processes=(SHELL, shell(cwd="/a"))))
    assert verdict.finding == "`/bin/bash -i` is in /x instead of /a"


def test_unknown_without_both_observations() -> None:
    assert judged(SEEN, None).outcome is Outcome.UNKNOWN
    assert Environment().check(refusing().record, reference().record, TERMS, FACTS).outcome is Outcome.UNKNOWN
