"""Where a cell can be run: what makes no sense anywhere, what this machine lacks, and which back end it gets."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from itertools import chain

from chaos.cell import Cell, chain_of, store_of
from chaos.errors import ScenarioError
from chaos.explorers.operation import Operation
from chaos.explorers.repeat import Repeat
from chaos.explorers.syscall import Syscall
from chaos.explorers.until_none import UntilNone
from chaos.faults import Fault
from chaos.outfit import together
from chaos.plan import OPERATIONS, Case, syscalls_of
from chaos.pool import Pool
from chaos.sandbox import Able, Backend, backends
from chaos.variants import Variants, varied


def unsuited(cell: Cell, case: Case | None) -> str:
    """Return why *cell*, or the one *case* of it, makes no sense on any machine; "" if it does."""
    store, strategy = store_of(cell.strategy), cell.strategy.strategy
    if strategy.outside and held(cell, case):
        return "its half outside dumps processes, whose system calls must not be held"
    wanted = together(fault.outfit for fault in _faults(cell, case)).releases
    if lacking := sorted(wanted - set(cell.scenario.target.releases)):
        return f"the target has no other release of the kind {lacking[0]!r}"
    return next(filter(None, (fault.unsuited(store, strategy) for fault in _known(cell, case))), "")


def without(cell: Cell, pool: Pool) -> str:
    """Return which program, package or server *cell* has to do without; "" if none."""
    strategy = cell.strategy.strategy
    servers = (pool.missing(name) for name in strategy.needs)
    killed = strategy.needs if together(fault.outfit for fault in _faults(cell, None)).own_servers else ()
    foreign = (pool.foreign(name) for name in killed)
    return next(filter(None, chain([strategy.missing()], servers, foreign)), "")


def placed(cell: Cell, case: Case | None, known: tuple[Backend, ...]) -> tuple[Backend, str]:
    """Return which of the *known* back ends *cell* is run on, and what the machine lacks for it; "" if nothing."""

    def lacks(able: Able) -> str:
        calls = able.syscalls if held(cell, case) else ""
        return calls or next(filter(None, (fault.missing(able) for fault in _faults(cell, case))), "")

    return backends.choose(known, cell.strategy.strategy, lacks)


def held(cell: Cell, case: Case | None) -> frozenset[str]:
    """Return the system calls that have to be held for the faults of *cell*."""
    return syscalls_of(_counted(cell)) | (case.plan.syscalls if case else frozenset())


def operations(cell: Cell, case: Case | None) -> frozenset[str]:
    """Return the operations on the world that have to be held for the faults of *cell*."""
    return (_counted(cell) & frozenset(OPERATIONS)) | (case.plan.operations if case else frozenset())


def _counted(cell: Cell) -> frozenset[str]:
    """Return the kinds of points with numbers of their own that faults of *cell* are placed at."""
    chosen = [spec.at.plain if isinstance(spec.at, Repeat) else spec.at for spec in chain_of(cell.fault)]
    return frozenset(at.operation for at in chosen if isinstance(at, Operation | UntilNone)) | frozenset(
        at.syscall for at in chosen if isinstance(at, Syscall)
    )


def _faults(cell: Cell, case: Case | None) -> Iterator[Fault]:
    """Yield every fault that a run of *cell* may have: those of *case*, and what a search varies, field by field."""
    yield from _known(cell, case)
    for spec in chain_of(cell.fault):
        for field, values in spec.vary:
            for value in values:
                with suppress(ScenarioError):  # it goes with another value of another field only
                    yield varied(spec.fault, {field: value})


def _known(cell: Cell, case: Case | None) -> Iterator[Fault]:
    """Yield the faults of *cell*, and the variants of them in *case*."""
    known = Variants({spec.label: spec.fault for spec in chain_of(cell.fault)})
    yield from known.values()
    for planned in case.plan.faults if case else ():
        if planned.fault in known:
            yield known[planned.fault]
