"""Campaigns made by hand, in memory: what matters is given, the rest is that of a run that came back unharmed."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from chaos.results import Campaign, CampaignInfo, Landed, RecoveryTime, RunResult, Storage, Tokens
from chaos.verdict import PASS, CellVerdict, fail, unknown

CHECKS = ("effects", "files", "finishes", "state")


def run(
    strategy: str,
    fault: str = "kill",
    *,
    broke: tuple[str, ...] = (),
    open: tuple[str, ...] = (),  # checks that could not judge
    expected: tuple[str, ...] = (),
    at: str = "3/after_act",
    claims: bool = True,
    again: int = 0,
    stored: int = 400_000,
    seconds: float = 0.2,
    **changes: object,
) -> RunResult:
    verdict = CellVerdict.REFUSED if "finishes" in broke else CellVerdict.DIVERGED if broke else CellVerdict.RECOVERED
    made = RunResult(
        campaign="c", scenario="s", strategy=strategy, fault=fault, survival="process", run=0, seed=1,
        plan=f"{fault}@{at}", planned=1, landed=(Landed(fault, at, "killed", {"status": -9}),),
        checks={name: fail("broke") if name in broke else unknown("?") if name in open else PASS for name in CHECKS},
        verdict=CellVerdict.UNKNOWN if open and not broke else verdict, broke=broke, expected=expected,
        claims={"state": "kept"} if claims else {}, steps=40, rto_seconds=RecoveryTime(0.0, seconds, 0.0, 0.0),
        tokens=Tokens(100_000, again, 0), storage=Storage(stored, 2 * stored),
    )  # fmt: skip
    return msgspec.structs.replace(made, **changes)


def campaign(runs: Iterable[RunResult], **info: object) -> Campaign:
    known = CampaignInfo(
        campaign="c", seed=1, began="2026-11-30T06:50:00Z", command="pytest --chaos", versions={}, machine={}
    )
    return Campaign(info=msgspec.structs.replace(known, **info), runs=tuple(runs), cells=())
