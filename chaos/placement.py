"""Where a cell can be run: what makes no sense anywhere, what this machine lacks, and which back end it gets."""

from __future__ import annotations

from itertools import chain

from chaos.cell import Cell, chain_of, store_of
from chaos.explorers.syscall import Syscall
from chaos.outfit import together
from chaos.plan import Case
from chaos.pool import Pool
from chaos.sandbox import Able, Backend, backends


def unsuited(cell: Cell, case: Case | None) -> str:
    """Return why *cell*, or the one *case* of it, makes no sense on any machine; "" if it does."""
    store, strategy = store_of(cell.strategy), cell.strategy.strategy
    if strategy.outside and held(cell, case):
        return "its half outside dumps processes, whose system calls must not be held"
    wanted = together(spec.fault.outfit for spec in chain_of(cell.fault)).releases
    if lacking := sorted(wanted - set(cell.scenario.target.releases)):
        return f"the target has no other release of the kind {lacking[0]!r}"
    return next(filter(None, (spec.fault.unsuited(store, strategy) for spec in chain_of(cell.fault))), "")


def without(cell: Cell, pool: Pool) -> str:
    """Return which program, package or server *cell* has to do without; "" if none."""
    strategy = cell.strategy.strategy
    servers = (pool.missing(name) for name in strategy.needs)
    killed = strategy.needs if together(spec.fault.outfit for spec in chain_of(cell.fault)).own_servers else ()
    foreign = (pool.foreign(name) for name in killed)
    return next(filter(None, chain([strategy.missing()], servers, foreign)), "")


def placed(cell: Cell, case: Case | None, known: tuple[Backend, ...]) -> tuple[Backend, str]:
    """Return which of the *known* back ends *cell* is run on, and what the machine lacks for it; "" if nothing."""

    def lacks(able: Able) -> str:
        calls = able.syscalls if held(cell, case) else ""
        return calls or next(filter(None, (spec.fault.missing(able) for spec in chain_of(cell.fault))), "")

    return backends.choose(known, cell.strategy.strategy, lacks)


def held(cell: Cell, case: Case | None) -> frozenset[str]:
    """Return the system calls that faults of *cell* are placed at."""
    calls = frozenset(spec.at.syscall for spec in chain_of(cell.fault) if isinstance(spec.at, Syscall))
    return calls | (case.plan.syscalls if case else frozenset())
