"""A sandbox seen from outside, again and again: what is known by its digest is not looked at twice."""

from __future__ import annotations

import msgspec

from chaos.capture import quiet
from chaos.capture.shelf import Shelf
from chaos.events.seen import Observation, ProcessEntry
from chaos.sandbox import Sandbox, Watch, Zones, observe, processes

MOST = 1024
"""Looks that are remembered: a run of 1600 steps leaves a quarter as many different container disks."""


class Sights:
    """Observations of sandboxes in one place, whose files *shelf* knows; to hash them and to ask git takes 20 ms."""

    def __init__(self, shelf: Shelf, watch: Watch) -> None:
        self._shelf, self._watch = shelf, watch
        self._known: dict[tuple[Watch, str, str], tuple[Observation, list[str]]] = {}

    def observe(self, sandbox: Sandbox, watch: Watch) -> Observation:
        """Return what `Sandbox.observe` returns, of an agent that is alive and held still."""
        return msgspec.structs.replace(self._on_disk(sandbox.zones, watch), processes=self._processes(sandbox, watch))

    def _on_disk(self, zones: Zones, watch: Watch) -> Observation:
        key, installed = self._key(watch), observe.packages(zones, watch)
        known = self._known.get(key) if key else None
        if known is None or known[1] != installed:
            known = observe.on_disk(zones, watch, zones.root), installed
            if key and key == self._key(watch):
                if len(self._known) >= MOST:
                    self._known.pop(next(iter(self._known)))
                self._known[key] = known
        return known[0]

    def _key(self, watch: Watch) -> tuple[Watch, str, str] | None:
        """Return what the container's disk is known by; None if something beside the agent is at work there."""
        try:
            digests = self._shelf.current()
        except FileNotFoundError:
            return None
        return watch, digests["workspace"], digests["tmp"]

    def here(self, sandbox: Sandbox) -> Observation:
        """Return what `observe` does, with the ports of the recorded run."""
        return self.observe(sandbox, self._watch)

    def _processes(self, sandbox: Sandbox, watch: Watch) -> tuple[ProcessEntry, ...]:
        pids = quiet.tree(sandbox.pid)[1:]
        return processes.processes(sandbox.zones.root, watch, pids) if pids else ()
