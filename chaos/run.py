"""One run: everything that it needs is made, the supervisor drives the agent, and everything is undone again."""

from __future__ import annotations

import random
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path

from chaos import leftovers, ports
from chaos.clock import Clock
from chaos.copies import Copies
from chaos.durable import Durable
from chaos.errors import HarnessError
from chaos.events.seen import HostDid
from chaos.faults import FIRST_HOST, KILL_SECONDS
from chaos.gate import Gate
from chaos.host import Host
from chaos.journal import Journal
from chaos.leftovers import surely
from chaos.outfit import Outfit, together
from chaos.plan import Plan
from chaos.record import Record
from chaos.rig import Rig
from chaos.rig import Setup as Setup
from chaos.sandbox import Sandbox
from chaos.sandbox.disk import Disk
from chaos.sandbox.syscalls import Calls, Holder
from chaos.supervisor import Supervisor
from chaos.toxiproxy.links import linked
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
        outfit = together(setup.faults[planned.fault].outfit for planned in plan.faults)
        rig = fitted(rigged(setup, outfit, journal, rng, stack), setup, plan, outfit)
        supervisor = Supervisor(setup, plan, rig)
        stack.callback(surely, supervisor.undo)
        supervisor.supervise()
        return Record(journal.events, setup.volatile)


def rigged(setup: Setup, outfit: Outfit, journal: Journal, rng: random.Random, stack: ExitStack) -> Rig:
    """Make what every run has; *stack* undoes it."""
    root = leftovers.folder()
    stack.callback(surely, partial(leftovers.remove, root))
    leases = stack.enter_context(setup.pool.leases(setup.strategy.needs))
    world = stack.enter_context(World(setup.brain, journal))
    gate = Gate()
    stack.callback(gate.close)
    sandbox = setup.backend.sandbox(root / "sandbox", setup.limits.memory_bytes, FIRST_HOST)
    stack.callback(surely, sandbox.close)
    disk = Disk(root, sandbox.zones, outfit.disk, outfit.disk_bytes) if outfit.disk else None
    _under(disk, sandbox, stack)
    taken = stack.enter_context(ports.claimed(tuple(name for name, _ in setup.watch.ports)))
    watch = replace(setup.watch, ports=taken)
    rig = hosted(Rig(journal, world, gate, sandbox, watch, rng, leases, stack=stack, root=root, disk=disk), setup)
    setup.target.prepare(sandbox.zones.assets, setup.seed)
    return rig


def hosted(rig: Rig, setup: Setup) -> Rig:
    """Return *rig* with the half of the strategy that is outside the sandbox, if it has one; its stack closes it."""
    host = setup.strategy.host(rig.sandbox, partial(_report, rig.journal))
    _under(host, rig.sandbox, rig.stack)
    rig.world.thinking = _nobody if host is None else host.asked
    return replace(rig, host=host)


def _nobody(turn: int) -> None:
    """Let the model think undisturbed."""


def fitted(rig: Rig, setup: Setup, plan: Plan, outfit: Outfit) -> Rig:
    """Return *rig* with what the faults of *plan* need besides; its stack undoes that too."""
    if rig.disk is not None:
        rig.disk.sync()
    rig.world.holds.phases = plan.operations | setup.operations
    calls = _calls(rig.sandbox, outfit.syscalls | plan.syscalls | setup.syscalls, rig.journal)
    if calls is not None:
        rig.stack.callback(calls.close)
    clock = Clock(rig.root / "clock") if outfit.clock else None
    if clock is not None:
        rig.stack.callback(surely, clock.close)
    rig = replace(rig, calls=calls, clock=clock)
    if outfit.copies:
        kept = Durable(rig.sandbox.zones.durable, rig.leases.parts)
        rig = replace(rig, copies=Copies(kept, rig.root / "copies", outfit.copies))
    if outfit.links:
        seed, port = rig.rng.getrandbits(63), rig.world.door.port
        lead = linked(outfit.links, setup.toxiproxy, port, rig.leases.parts, rig.journal, rig.root, seed)
        rig = replace(rig, links=rig.stack.enter_context(lead))
    return rig


def _under(under: Host | Disk | None, sandbox: Sandbox, stack: ExitStack) -> None:
    """Make the zones of *sandbox* anew: *under* may have put another file system under them; *stack* closes it."""
    if under is not None:
        stack.callback(surely, partial(_close_host, under, sandbox))
        sandbox.make_zones()


def _report(journal: Journal, what: str, figures: Mapping[str, object]) -> None:
    journal.add(HostDid, what=what, figures=dict(figures))


def _calls(sandbox: Sandbox, held: frozenset[str], journal: Journal) -> Calls | None:
    """Have the system calls *held* of the sandbox's agents held; None if there are none to hold."""
    if not held:
        return None
    if not isinstance(sandbox, Holder):
        raise HarnessError(f"a {type(sandbox).__name__} does not hold system calls; use --chaos-backend process")
    calls = Calls(sandbox.zones.durable, held, journal)
    sandbox.hold(calls)
    return calls


def _close_host(host: Host | Disk, sandbox: Sandbox) -> None:
    """Close what is under the zones, or works on them: nothing of the agent may hold what it has to undo."""
    sandbox.kill()
    if sandbox.pid:
        sandbox.wait(KILL_SECONDS)
    host.close()
