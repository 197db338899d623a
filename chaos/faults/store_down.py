"""The server that the strategy keeps its state on is away for a while."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from typing import Literal

from chaos.errors import HarnessError
from chaos.events.done import Poisoned, ServerBack, ServerKilled
from chaos.faults import Plain, Scene, first, hit
from chaos.faults.network import hits_of
from chaos.journal import AnyEvent, Journal
from chaos.outfit import Outfit
from chaos.results import Landed
from chaos.sandbox import Able, Survival
from chaos.scenario.units import Seconds
from chaos.servers._daemon import Service
from chaos.stores import Store
from chaos.targets import Strategy

LINKS = frozenset({"postgres", "redis", "temporal"})


@dataclass(frozen=True)
class StoreDown(Plain):
    """The strategy's server cannot be reached for some `seconds`, or is killed and comes back with its data.

    A correct agent does not go on without its store. It waits and connects again, or comes to a loud end and resumes
    when the store is back; in either case what the store had acknowledged is there, and what it had not is done once.
    A commit whose answer was lost may or may not be there: the agent has to look.

    `how`: `unreachable` takes down the proxy that leads there. `killed` is SIGKILL to a server that was started here,
    all of its processes, and after `seconds` a start on the same port and data: its crash recovery is part of it.
    What it acknowledged is on its disk (PostgreSQL by default; Redis runs with `appendfsync always`, and with
    `everysec` would lose up to a second only if the machine died as well), so nothing that is lost is its fault.

    It landed only if a connection of the agent was cut or refused meanwhile; `killed` only with the status of the
    server's first process and another one that answers.
    """

    how: Literal["unreachable", "killed"] = "unreachable"
    seconds: Seconds = 0.3

    @property
    def survival(self) -> Survival:
        return Survival.NONE

    @property
    def outfit(self) -> Outfit:  # type: ignore[override]
        return Outfit(links=LINKS, own_servers=self.how == "killed")

    def missing(self, able: Able) -> str:
        return "" if find_spec("toxiproxy") else "no client of Toxiproxy: pip install toxiproxy-python"

    def unsuited(self, store: Store | None, strategy: Strategy) -> str:
        return "" if strategy.needs else "the strategy keeps its state in files: there is no server that could be away"

    def inject(self, scene: Scene) -> None:
        if scene.links is None:
            raise HarnessError("the run was started without links (Outfit.links)")
        for name in sorted(scene.durable.leases):
            link = scene.links[name]
            if self.how == "unreachable":
                outage = link.poison("down", "downstream", {}, self.seconds)
            else:
                service = scene.servers[name].service
                if service is None:
                    raise HarnessError(f"{name} is somebody's server, which we do not kill")
                kill = partial(_kill, service, name, scene.journal)
                outage = link.kill(kill, partial(_restart, service, name, scene.journal), self.seconds)
            scene.gate.once_ended(outage.end, run=True)

    def landed(self, at: str, after: Sequence[AnyEvent]) -> Landed | None:
        begun = first(after, Poisoned)
        if begun is None or not (hits := hits_of(begun, after)):
            return None
        how, evidence = f"{begun.link} was unreachable", dict[str, str | int | float](proxy=begun.server)
        if self.how == "killed":
            killed, back = first(after, ServerKilled), first(after, ServerBack)
            if killed is None or back is None or killed.status != -signal.SIGKILL or killed.pid == back.pid:
                return None
            how = f"{begun.link} was killed, and recovered"
            evidence = {"status": killed.status, "pid": f"{killed.pid} -> {back.pid}",
                        "recovery_seconds": back.recovery_seconds}  # fmt: skip
        return hit("store_down", at, how, connections=len(hits), first=hits[0].how, **evidence)


def _kill(service: Service, name: str, journal: Journal) -> None:
    pid, status = service.kill()
    journal.add(ServerKilled, server=name, pid=pid, status=status)


def _restart(service: Service, name: str, journal: Journal) -> None:
    pid, seconds = service.restart()
    journal.add(ServerBack, server=name, pid=pid, recovery_seconds=round(seconds, 3))
