"""Recovery testing for long-running agents: really break them, prove they come back.

Public names are loaded on first use (PEP 562), so that an agent that imports
`chaos.probe` does not drag the harness into its process.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from chaos.campaign import Cell, Runner
    from chaos.errors import ChaosError, HarnessError, ScenarioError
    from chaos.journal import Journal
    from chaos.plan import Plan, PlannedFault, Point
    from chaos.plugins.api import ChaosRun, Ledger
    from chaos.plugins.at_hand import ChaosSandbox, ChaosWorld
    from chaos.probe import point
    from chaos.reproduction import reproduce
    from chaos.results import Campaign, CellResult, RunResult
    from chaos.scenario import Scenario
    from chaos.verdict import CellVerdict, Outcome, Verdict

_HOMES = {
    "Campaign": "chaos.results",
    "Cell": "chaos.campaign",
    "CellResult": "chaos.results",
    "CellVerdict": "chaos.verdict",
    "ChaosError": "chaos.errors",
    "ChaosRun": "chaos.plugins.api",
    "ChaosSandbox": "chaos.plugins.at_hand",
    "ChaosWorld": "chaos.plugins.at_hand",
    "HarnessError": "chaos.errors",
    "Journal": "chaos.journal",
    "Ledger": "chaos.plugins.api",
    "Outcome": "chaos.verdict",
    "Plan": "chaos.plan",
    "PlannedFault": "chaos.plan",
    "Point": "chaos.plan",
    "RunResult": "chaos.results",
    "Runner": "chaos.campaign",
    "Scenario": "chaos.scenario",
    "ScenarioError": "chaos.errors",
    "Verdict": "chaos.verdict",
    "point": "chaos.probe",
    "reproduce": "chaos.reproduction",
}

__all__ = [
    "Campaign",
    "Cell",
    "CellResult",
    "CellVerdict",
    "ChaosError",
    "ChaosRun",
    "ChaosSandbox",
    "ChaosWorld",
    "HarnessError",
    "Journal",
    "Ledger",
    "Outcome",
    "Plan",
    "PlannedFault",
    "Point",
    "RunResult",
    "Runner",
    "Scenario",
    "ScenarioError",
    "Verdict",
    "point",
    "reproduce",
]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'chaos' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)
