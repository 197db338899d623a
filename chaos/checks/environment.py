"""Do the agent's shell and processes live in the environment that they would have?"""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, ClassVar, TypeAlias

from chaos.checks import Terms
from chaos.checks._diff import Difference, living_observations, short, verdict
from chaos.verdict import Verdict

if TYPE_CHECKING:
    from chaos.events.seen import Observation
    from chaos.record import Record
    from chaos.targets import Facts

_SHELLS = frozenset({"bash", "sh", "dash", "zsh"})

_Surroundings: TypeAlias = tuple[str, tuple[tuple[str, str], ...]]  # working directory, watched variables by name


@dataclass(frozen=True)
class Environment:
    """At the end the shell lives, and it, the other processes and the installed packages are as in the crash-free run.

    Of each process: its working directory and the watched variables.
    """

    looks_at_the_living: ClassVar[bool] = True

    def check(self, run: Record, reference: Record, terms: Terms, facts: Facts) -> Verdict:
        seen = living_observations(run, reference)
        return seen if isinstance(seen, Verdict) else verdict(list(differences(*seen)))


def differences(seen: Observation, reference: Observation) -> Iterator[Difference]:
    """Yield what differs. A missing process is no matter of this check, unless it is a shell: it *is* environment."""
    if seen.processes == reference.processes and seen.packages == reference.packages:
        return
    for argv in sorted({process.argv for process in reference.processes}):
        here, expected = _surroundings(seen, argv), _surroundings(reference, argv)
        name = f"`{short(shlex.join(argv))}`"
        if not here:
            if argv and PurePosixPath(argv[0].removeprefix("-")).name in _SHELLS:  # "-bash" is a login shell
                yield Difference(f"the shell {name} is gone, and with it its directory and variables")
            continue
        # Two processes of one command line are told apart by nothing, so what both runs have is paired off first.
        odd, wanted = sorted((here - expected).elements()), sorted((expected - here).elements())
        for (cwd, variables), (right_cwd, right) in zip(odd, wanted, strict=False):
            if cwd != right_cwd:
                yield Difference(f"{name} is in {cwd} instead of {right_cwd}")
            yield from _variables(name, dict(variables), dict(right))
    packages, expected_packages = set(seen.packages), set(reference.packages)
    for package in sorted(expected_packages - packages):
        yield Difference(f"package {package} is not installed")
    for package in sorted(packages - expected_packages):
        yield Difference(f"package {package} is extra")


def _surroundings(seen: Observation, argv: tuple[str, ...]) -> Counter[_Surroundings]:
    return Counter((p.cwd, tuple(sorted(p.environment))) for p in seen.processes if p.argv == argv)


def _variables(name: str, here: dict[str, str], expected: dict[str, str]) -> Iterator[Difference]:
    for variable in sorted(here.keys() | expected.keys()):
        if variable not in here:
            yield Difference(f"{variable} is not set in {name}", (f"reference: {variable}={expected[variable]}",))
        elif variable not in expected:
            yield Difference(f"{variable} is set in {name}: {short(here[variable])}")
        elif here[variable] != expected[variable]:
            yield Difference(
                f"{variable} is {short(here[variable])!r} instead of {short(expected[variable])!r} in {name}"
            )
