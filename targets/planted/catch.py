"""What exposes a planted bug and which check must catch it: the value CATCH in each module of `bugs/`.

Agents import it with their bug, so that it needs the standard library alone.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

STEPS = 16  # the shortest script with a payment, a commit and a temporary file

# The steps of the script at that length; LATE is behind the last effect.
MAIL, BAIT, ENGINE, COMMIT, TICKET, KEEP, PAYMENT, LATE_MAIL, LATE, LAST = 2, 5, 7, 9, 10, 11, 12, 13, 14, 15

KILL: Mapping[str, object] = {"kind": "kill"}


@dataclass(frozen=True)
class Catch:
    """The plan that exposes a bug, and the check that must catch it with a finding that says *says*.

    Args:
        plan: of one run, as a replay command has it; its first fault is called as *fault* is.
        fault: as a scenario has it, with those that follow it below `then`.
        breaks: the other checks that the same damage must break; all that is not named must hold.
        verdict: what the run amounts to.
        options: the target's, besides the bug and the number of steps.
        volatile: what may differ in the state.
        needs: the ability of the sandbox (`chaos.sandbox.Able`) without which the bug does not show.
    """

    plan: str
    check: str
    says: str
    fault: Mapping[str, object] = field(default_factory=lambda: KILL)
    breaks: frozenset[str] = frozenset()
    verdict: Literal["diverged", "refused", "recovered with loss"] = "diverged"
    options: Mapping[str, object] = field(default_factory=dict)
    volatile: tuple[str, ...] = ()
    needs: Literal["", "process_tree"] = ""

    @property
    def broke(self) -> frozenset[str]:
        """Every check that must break."""
        return self.breaks | {self.check}

    def scenario(self, bug: str, checks: Sequence[str] = ()) -> str:
        """Return the scenario of an agent with *bug* under the fault, judged by *checks* (all if none is named)."""
        expect = {"checks": list(checks)} if checks else {}
        return json.dumps(
            {
                "version": 1,
                "scenario": f"planted-{bug.replace('_', '-')}",
                "target": {"planted": {"bug": bug, "steps": STEPS, **self.options}},
                "strategies": ["loop"],
                "faults": [dict(self.fault)],
                "expect": {**expect, **({"volatile": list(self.volatile)} if self.volatile else {})},
            },
            indent=1,
        )
