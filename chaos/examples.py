"""Plans that broke a cell in an earlier campaign: a search tries them first.

They are kept beside the results, which a new campaign does not clear, by Hypothesis' own store of examples; each file
holds one case in its text form. A folder that is checked in works on other machines too.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from hypothesis.database import DirectoryBasedExampleDatabase

from chaos.cell import Cell
from chaos.errors import ScenarioError
from chaos.plan import Case, parse_case
from chaos.variants import Variants

FOLDER = "examples"


@dataclass(frozen=True)
class Examples:
    """The examples of *cell* below the results in *folder*."""

    folder: Path
    cell: Cell

    def kept(self, faults: Variants) -> tuple[Case, ...]:
        """Return the cases that *faults* can still say, in order; the others go: the scenario is another one now."""
        found = []
        for text in sorted(self._store.fetch(self._key)):
            try:
                case = parse_case(text.decode())
                for planned in case.plan.faults:
                    faults.fault(planned.fault)
            except (ScenarioError, UnicodeDecodeError):
                self._store.delete(self._key, text)
            else:
                found.append(case)
        return tuple(found)

    def keep(self, case: Case) -> None:
        """Have *case* tried first from now on."""
        self._store.save(self._key, str(case).encode())

    def drop(self, case: Case) -> None:
        """Forget *case*: it breaks nothing any more."""
        self._store.delete(self._key, str(case).encode())

    @cached_property
    def _store(self) -> DirectoryBasedExampleDatabase:
        return DirectoryBasedExampleDatabase(self.folder / FOLDER)

    @property
    def _key(self) -> bytes:
        cell = self.cell
        return "\0".join((cell.scenario.name, cell.strategy.label, cell.fault.label)).encode()
