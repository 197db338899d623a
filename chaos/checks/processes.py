"""Do the processes run that would be running?"""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from chaos.checks import Terms
from chaos.checks._diff import Difference, living_observations, short, times, verdict
from chaos.verdict import Verdict

if TYPE_CHECKING:
    from chaos.events.seen import Observation
    from chaos.record import Record
    from chaos.targets import Facts


@dataclass(frozen=True)
class Processes:
    """At the end the same long-lived processes run and listen on the same ports as in the crash-free run."""

    looks_at_the_living: ClassVar[bool] = True

    def check(self, run: Record, reference: Record, terms: Terms, facts: Facts) -> Verdict:
        seen = living_observations(run, reference)
        return seen if isinstance(seen, Verdict) else verdict(list(differences(*seen)))


def differences(seen: Observation, reference: Observation) -> Iterator[Difference]:
    """Yield every process that is missing, extra, or listens elsewhere. Which was started first does not matter."""
    if seen.processes == reference.processes:
        return
    here, expected = (Counter(process.argv for process in each.processes) for each in (seen, reference))
    for argv in sorted(here.keys() | expected.keys()):
        name, ports = f"process `{short(shlex.join(argv))}`", _ports(reference, argv)
        if here[argv] == 0:
            yield Difference(f"{name} is not running", tuple(f"it listened on {port}" for port in sorted(ports)))
        elif expected[argv] == 0:
            yield Difference(f"{name} is extra: the reference had none at its end")
        elif here[argv] != expected[argv]:
            yield Difference(f"{name} runs {times(here[argv])} instead of {times(expected[argv])}")
        elif (listens := _ports(seen, argv)) != ports:
            lost, new = sorted((ports - listens).elements()), sorted((listens - ports).elements())
            how = f"does not listen on {', '.join(lost)}" if lost else f"listens on {', '.join(new)} too"
            yield Difference(f"{name} {how}")
        elif _groups(seen, argv) != _groups(reference, argv):
            yield Difference(f"{name}: its {here[argv]} instances share the ports in another way")


def _ports(seen: Observation, argv: tuple[str, ...]) -> Counter[str]:
    return Counter(port for process in seen.processes if process.argv == argv for port in process.ports)


def _groups(seen: Observation, argv: tuple[str, ...]) -> Counter[tuple[str, ...]]:
    return Counter(tuple(sorted(process.ports)) for process in seen.processes if process.argv == argv)
