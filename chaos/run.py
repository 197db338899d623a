"""One run: everything that it needs is made, the supervisor drives the agent, and everything is undone again."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path

from chaos import leftovers, ports
from chaos.faults import FIRST_HOST, KILL_SECONDS
from chaos.gate import Gate
from chaos.host import Host
from chaos.journal import HostDid, Journal
from chaos.plan import Plan
from chaos.record import Record
from chaos.sandbox import Sandbox
from chaos.supervisor import Rig, Supervisor
from chaos.supervisor import Setup as Setup
from chaos.world.server import World


def execute(setup: Setup, plan: Plan, folder: Path, rng: random.Random) -> Record:
    """Run the target of *setup* under *plan* and return what was seen; `journal.jsonl` is in *folder*.

    Args:
        plan: the faults to inject, in order; the empty plan makes a reference run.
        folder: for the journal; made if it is not there.
        rng: the run's own source of randomness, for what a fault chooses (which delta, which bit).

    Raises:
        HarnessError: the harness could not do its part; nothing is left behind.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        journal = Journal(folder / "journal.jsonl")
        stack.callback(journal.close)
        root = leftovers.folder()
        stack.callback(_surely, partial(leftovers.remove, root))
        leases = stack.enter_context(setup.pool.leases(setup.strategy.needs))
        world = stack.enter_context(World(setup.brain, journal))
        gate = Gate()
        stack.callback(gate.close)
        sandbox = setup.backend.sandbox(root / "sandbox", setup.limits.memory_bytes, FIRST_HOST)
        stack.callback(_surely, sandbox.close)
        host = setup.strategy.host(sandbox, partial(_report, journal))
        if host is not None:
            stack.callback(_surely, partial(_close_host, host, sandbox))
            world.thinking = host.asked
            sandbox.make_zones()  # it may have put another file system under them
        setup.target.prepare(sandbox.zones.assets, setup.seed)
        taken = stack.enter_context(ports.claimed(tuple(name for name, _ in setup.watch.ports)))
        watch = replace(setup.watch, ports=taken)
        rig = Rig(journal, world, gate, sandbox, watch, rng, leases, host)
        Supervisor(setup, plan, rig).supervise()
        return Record(journal.events, setup.volatile)


def _surely(clean_up: Callable[[], None]) -> None:
    """Call *clean_up*, and once more if an interrupt came in the middle of it: what it began must not stay behind."""
    try:
        clean_up()
    except KeyboardInterrupt:
        clean_up()
        raise


def _report(journal: Journal, what: str, figures: Mapping[str, object]) -> None:
    journal.add(HostDid, what=what, figures=dict(figures))


def _close_host(host: Host, sandbox: Sandbox) -> None:
    """Close the half of the strategy that is outside: nothing of the agent may hold what it has to undo."""
    sandbox.kill()
    if sandbox.pid:
        sandbox.wait(KILL_SECONDS)
    host.close()
