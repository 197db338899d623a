from __future__ import annotations

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from chaos.checks.processes import Processes
from chaos.events.seen import Observation, ProcessEntry
from chaos.verdict import PASS, Outcome, Verdict
from tests.journals import FACTS, SEEN, SERVER, SHELL, TERMS, Story, recovered, reference, refusing, seen


def judged(observed: Observation | None, against: Observation | None = SEEN) -> Verdict:
    run, other = (Story().start().steps(0).finish(seen=each).record for each in (observed, against))
    return Processes().check(run, other, TERMS, FACTS)


def test_a_recovered_run_has_the_same_processes() -> None:
    assert Processes().check(recovered().record, reference().record, TERMS, FACTS) == PASS


def test_other_pids_are_the_same_processes() -> None:
    assert judged(seen(processes=(msgspec.structs.replace(SERVER, pid=9), SHELL))) == PASS


def test_a_missing_process_is_named_with_its_port() -> None:
    verdict = judged(seen(processes=(SHELL,)))
    assert verdict.outcome is Outcome.FAIL
    assert verdict.finding == "process `python server.py` is not running"
    assert verdict.details == ("it listened on $ENGINE_PORT",)


def test_an_extra_process_and_a_second_instance_are_named() -> None:
    stray = ProcessEntry(argv=("sleep", "60"), cwd="/")
    assert judged(seen(processes=(SERVER, SHELL, stray))).finding.startswith("process `sleep 60` is extra")
    twice = judged(seen(processes=(SERVER, SHELL, SERVER)))
    assert twice.finding == "process `python server.py` runs 2 times instead of once"


def test_a_process_that_lives_and_does_not_listen_is_named() -> None:
    deaf = msgspec.structs.replace(SERVER, ports=())
    assert judged(seen(processes=(deaf, SHELL))).finding == (
        "process `python server.py` does not listen on $ENGINE_PORT"
    )
    more = msgspec.structs.replace(SERVER, ports=("$ENGINE_PORT", "9999"))
    assert judged(seen(processes=(more, SHELL))).finding == "process `python server.py` listens on 9999 too"


def test_ports_shared_otherwise_are_another_multiset() -> None:
    both, none = (msgspec.structs.replace(SERVER, ports=ports) for ports in (("1", "2"), ()))
    one, two = (msgspec.structs.replace(SERVER, ports=(port,)) for port in "12")
    assert judged(seen(processes=(both, none)), seen(processes=(one, two))).outcome is Outcome.FAIL


@given(st.permutations([SERVER, SHELL, msgspec.structs.replace(SERVER, ports=("1",)), SHELL]))
def test_the_order_of_independent_processes_is_nothing(processes: list[ProcessEntry]) -> None:
    right = (SHELL, SHELL, SERVER, msgspec.structs.replace(SERVER, ports=("1",)))
    assert judged(seen(processes=tuple(processes)), seen(processes=right)) == PASS


def test_unknown_without_both_observations() -> None:
    assert judged(SEEN, None).outcome is Outcome.UNKNOWN
    assert Processes().check(refusing().record, reference().record, TERMS, FACTS).outcome is Outcome.UNKNOWN
