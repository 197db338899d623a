"""The audit of snapshot decisions finds a wrong one, both ways, and a run with a missed change is no result."""

from __future__ import annotations

from pathlib import Path

import pytest

from chaos.errors import HarnessError
from chaos.targets.reference import Reference
from chaos.targets.reference.semantic import host
from chaos.targets.reference.semantic.audit import Audit
from chaos.targets.reference.semantic.inspector import Decision
from tests.cells import ReferenceCell

NOBODY = 2**22 + 1  # above every process number: nothing lives below it


@pytest.mark.parametrize(
    ("changes", "says", "missed", "needless"),
    [(True, False, 1, 0), (False, True, 0, 1), (True, True, 0, 0), (False, False, 0, 0)],
)
def test_it_judges_by_what_is_on_the_disk(
    tmp_path: Path, changes: bool, says: bool, missed: int, needless: int
) -> None:
    (tmp_path / "file").write_text("one")
    audit = Audit({"workspace": tmp_path}, memory=False)
    audit.restored(())
    if changes:
        (tmp_path / "file").write_text("two")
    judged = audit.turn(NOBODY, Decision(files=says, processes=False))
    assert judged == {"false_negatives": missed, "false_positives": needless}


def test_an_inspector_that_sees_nothing_is_found_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "decide", lambda before, now, memory: Decision(files=False, processes=False))
    cell = ReferenceCell(tmp_path, Reference(steps=12), "semantic", {"processes": "manifest", "audit": True})
    with pytest.raises(HarnessError, match="changed more than was stored"):
        cell.whole  # noqa: B018 (the crash-free run is made when it is asked for)
