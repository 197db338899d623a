"""TCP faults on an agent's connections: what the taps see of each toxic, and what they must not take for one."""

from __future__ import annotations

import dataclasses
import shutil
from pathlib import Path
from typing import Any

import pytest

from chaos.errors import ScenarioError
from chaos.events.done import Healed, LinkHit, Poisoned
from chaos.events.seen import Asked
from chaos.faults.network import Network
from chaos.toxiproxy.servers import PROGRAM
from chaos.verdict import CellVerdict
from tests import toy

PATIENT = """
import http.client
once = toy.ask

def ask(answers):
    for turn in range(200):
        try:
            return once(answers)
        except (OSError, http.client.HTTPException, ValueError):
            time.sleep(0.01)

toy.ask = ask
work()
time.sleep(0.1)  # a close that is late must come while somebody looks
"""
"""The toy agent asks its model again when a connection broke."""

TOXICS: dict[str, dict[str, Any]] = {
    "latency": {"latency": 0.1, "jitter": 0.01},
    "bandwidth": {"rate": 20_000},
    "reset_peer": {"timeout": 0.01, "connections": 2},
    "timeout": {"connections": 1},
    "slow_close": {"delay": 0.02},
    "limit_data": {"connections": 1},
    "slicer": {},
    "down": {"seconds": 0.2},
}
HOW = {
    "latency": {"held back"}, "bandwidth": {"held back"}, "slicer": {"held back"}, "reset_peer": {"reset"},
    "timeout": {"cut"}, "limit_data": {"cut", "reset"}, "slow_close": {"closed late"}, "down": {"refused"},
}  # fmt: skip
SERVERS = [
    "",
    pytest.param(PROGRAM, marks=pytest.mark.skipif(not shutil.which(PROGRAM), reason=f"no {PROGRAM} on the PATH")),
]


def run(folder: Path, fault: Network, plan: str = "network@1/before_think", toxiproxy: str = "") -> toy.Ran:
    made = toy.setup(toy.Toy(PATIENT), {"network": fault})
    return toy.execute_plan(folder, dataclasses.replace(made, toxiproxy=toxiproxy), plan)


@pytest.mark.parametrize("toxiproxy", SERVERS)
@pytest.mark.parametrize("toxic", TOXICS)
def test_every_toxic_lands_and_is_survived(tmp_path: Path, toxic: Any, toxiproxy: str) -> None:
    fault = Network(toxic=toxic, **TOXICS[toxic])
    ran = run(tmp_path, fault, toxiproxy=toxiproxy)
    assert ran.statuses == [0]
    (landed,) = ran.landed
    assert landed.how.rpartition(", ")[2] in HOW[toxic]
    assert landed.evidence["proxy"] == f"{toxiproxy or 'embedded'} 2.12.0"
    (begun,), (healed,), hits = ran.all(Poisoned), ran.all(Healed), ran.all(LinkHit)
    assert (begun.link, begun.toxic, begun.stream) == ("model", toxic, "downstream")
    assert healed.hits == len(hits) == landed.evidence["connections"]
    if fault.connections:
        assert len(hits) == fault.connections, "so many, however fast the agent comes again"
    if toxic in ("latency", "bandwidth", "slicer"):
        assert hits[0].bytes > 100 and hits[0].seconds > 0


def test_the_agent_upstream(tmp_path: Path) -> None:
    """What it says can be held back as well as what it is told."""
    (landed,) = run(tmp_path, Network(toxic="latency", stream="upstream")).landed
    assert landed.how == "model: latency, held back"
    assert float(landed.evidence["seconds"]) >= 0.098


def test_the_services_have_a_link_of_their_own(tmp_path: Path) -> None:
    ran = run(tmp_path, Network(toxic="latency", link="services"), "network@1/before_act")
    (landed,) = ran.landed
    assert landed.how == "services: latency, held back"
    assert {hit.link for hit in ran.all(LinkHit)} == {"services"}


def test_a_lost_answer_was_given(tmp_path: Path) -> None:
    """The model has done its work, and does it again: a reset is no refusal."""
    ran = run(tmp_path, Network(toxic="reset_peer", connections=1))
    assert [asked.again for asked in ran.all(Asked)] == [False, False, True, False]


def test_the_reference_run_has_no_links(tmp_path: Path) -> None:
    ran = run(tmp_path, Network(), "no fault")
    assert ran.all(Poisoned) == [] and ran.statuses == [0]


def test_a_link_that_nobody_uses_has_not_been_hit(tmp_path: Path) -> None:
    """The only call of a service was before: the toxic was there, and nothing came through."""
    ran = run(tmp_path, Network(link="services"), "network@2/before_act")
    assert ran.landed == () and len(ran.all(Poisoned)) == 1 and ran.all(LinkHit) == []


def test_a_fault_that_misses_is_not_exercised(tmp_path: Path) -> None:
    result, cell = toy.replay(tmp_path, Network(link="services"), "network@2/before_act", target=toy.Toy(PATIENT))
    assert result.verdict is CellVerdict.NOT_EXERCISED and not cell.passed
    assert result.missed == ("network@2/before_act was injected and left no proof that it hit",)


def test_it_is_over_with_the_run(tmp_path: Path) -> None:
    """A toxic that would last for a minute does not keep the harness."""
    ran = run(tmp_path, Network(toxic="latency", latency=0.01, seconds=60.0))
    assert len(ran.landed) == 1
    assert ran.all(Healed)[0].seconds < 30


def test_a_kill_in_the_middle_of_an_outage(tmp_path: Path) -> None:
    """The outage goes on for the next incarnation; both faults have their proof."""
    from chaos.faults.kill import Kill

    faults = {"network": Network(toxic="latency", seconds=20.0), "kill": Kill()}
    ran = toy.run(tmp_path, PATIENT, "network@1/before_think+kill@1/before_act", faults)
    assert [landed.fault for landed in ran.landed] == ["network", "kill"]
    assert ran.statuses == [-9, 0]
    assert {hit.attempt for hit in ran.all(LinkHit)} == {1, 2}


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"toxic": "latency", "bytes": 5}, "bytes is no attribute of latency; it has jitter, latency"),
        ({"toxic": "down", "rate": 5000}, "rate is no attribute of down; it has none"),
        ({"connections": -1}, "0 is any number"),
        ({"toxic": "bandwidth", "rate": 999}, "whole kB"),
        ({"toxic": "slicer", "size_variation": 200}, "less than average_size"),
        ({"toxic": "latency", "jitter": 1.0}, "not be more than latency"),
    ],
)
def test_what_makes_no_sense_is_said(fields: dict[str, Any], told: str) -> None:
    with pytest.raises(ScenarioError, match=told):
        Network(**fields)


def test_a_link_to_a_server_suits_who_uses_it() -> None:
    assert "keeps nothing on redis" in Network(link="redis").unsuited(None, toy.Keeps())
    assert Network(link="model").unsuited(None, toy.Forgets()) == ""


def test_evidence_of_another_fault_is_none_of_this_one() -> None:
    common: dict[str, Any] = {"at": 1.0, "attempt": 1, "link": "model", "number": 1}
    begun = Poisoned(**common, toxic="reset_peer")
    hit = LinkHit(**common, connection=1, how="reset")
    assert Network().landed("1/before_think", [begun, hit]) is not None
    assert Network().landed("1/before_think", [begun]) is None
    assert Network().landed("1/before_think", [hit]) is None
    assert Network(toxic="timeout").landed("1/before_think", [begun, hit]) is None
    other = LinkHit(**{**common, "number": 2}, connection=1, how="reset")
    assert Network().landed("1/before_think", [begun, other]) is None
