"""Targets: systems under test. One module or package each; its name is the YAML name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Protocol

if TYPE_CHECKING:  # an incarnation of the agent imports this module too, and needs nothing of the harness
    from chaos.host import Host, Report
    from chaos.sandbox import Sandbox, Watch
    from chaos.world import Brain


@dataclass(frozen=True)
class Facts:
    """What is true of a right result, known without asking the agent.

    Args:
        goal: the goal's text, as every prompt must carry it.
        deliverable: path of the final report, such as "workspace/report.md"; "" if there is none.
        digests: path to content digest (as in `FileEntry.digest`) of what must stand there in the end.
        required: identities of the effects that the goal needs (`Effected.identity`).
        max_requests: cap on answered model requests in one run, asked again included.
        most: by "SERVICE.OPERATION", how often one and the same call of it may change the world in any run; what is not
            named may as often as in the crash-free run.
    """

    goal: str
    deliverable: str = ""
    digests: tuple[tuple[str, str], ...] = ()
    required: tuple[str, ...] = ()
    max_requests: int | None = None
    most: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True)
class Launch:
    """How to start one incarnation: *command* and the *env* that it needs beyond the harness's own.

    In the values of *env* {services} stands for CHAOS_SERVICES_URL, which is known when the incarnation starts.

    *resume* is the command of every incarnation after the first, if that is another one.
    *warm* are modules that it imports: it may be forked from a process that has them. Its command is then
    `python -m MODULE ARGUMENT...`, with this interpreter.
    *live* is the path, below the folder of the zones, of a file in which the agent leaves the state that it holds when
    it ends, as JSON; "" if it leaves none. It belongs to the command that prints what is stored: that must be the same.
    """

    command: tuple[str, ...]
    env: Mapping[str, str]
    warm: tuple[str, ...] = ()
    resume: tuple[str, ...] = ()
    live: str = ""


class Strategy(Protocol):
    """A recovery strategy's face to the harness; a frozen dataclass whose fields are its YAML options.

    *claims* names what it restores after the container is gone: "messages", "files", "processes",
    "environment". *store* names the module of `chaos.stores` that its durable zone is laid out as, or "".
    *durable* tells whether a new process can read the state back. *needs* names the servers that it keeps its state
    on (modules of `chaos.servers`), *imports* the heavy modules that its half in the agent imports. *outside* tells
    whether it has a half outside the sandbox, which works on the zones and the processes of this machine.
    """

    @property
    def claims(self) -> frozenset[str]: ...
    @property
    def store(self) -> str: ...
    @property
    def durable(self) -> bool: ...
    @property
    def needs(self) -> tuple[str, ...]: ...
    @property
    def imports(self) -> tuple[str, ...]: ...
    @property
    def outside(self) -> bool: ...

    def missing(self) -> str:
        """Return what this machine lacks for it besides its servers, and the remedy; "" if nothing."""
        ...

    def host(self, sandbox: Sandbox, report: Report) -> Host | None:
        """Return its half outside of *sandbox* for one run, None if it has none.

        The zones are empty yet: this is the place to mount a file system over `sandbox.zones.root`, with its image
        beside that folder; zones that it hides are made anew. *report* writes into the journal.
        """
        ...


RELEASE = "CHAOS_RELEASE"
"""Environment variable that tells an incarnation which release of the target it is; not set for the first."""


class InProcess:
    """What most strategies have in common: all of them is in the agent's process, and needs nothing else."""

    needs: ClassVar[tuple[str, ...]] = ()
    imports: ClassVar[tuple[str, ...]] = ()
    outside: ClassVar[bool] = False

    def missing(self) -> str:
        return ""

    def host(self, sandbox: Sandbox, report: Report) -> Host | None:
        return None


class Target(Protocol):
    """A frozen dataclass with defaults for every field; its fields are its YAML keys."""

    def strategy(self, name: str, options: Mapping[str, object]) -> Strategy:
        """Return the recovery strategy *name*; raise UnknownName or ScenarioError."""
        ...

    def prepare(self, assets: Path, seed: int) -> None:
        """Put what the agent is given (a wheel, say) into the empty folder *assets*."""
        ...

    def launch(self, strategy: Strategy, seed: int, root: Path) -> Launch:
        """Return how to start the agent, for the first time or again: it finds out itself."""
        ...

    def reload(self, strategy: Strategy, seed: int, root: Path) -> Launch:
        """Return how to have a new process print the stored state as one JSON object (see `Reloaded`)."""
        ...

    def digest(self, state: bytes) -> str | None:
        """Return the digest that the agent announces for *state*, as `reload` prints it; None if it announces none."""
        ...

    def brain(self, seed: int) -> Brain:
        """Return the scripted model and services."""
        ...

    def facts(self, seed: int) -> Facts:
        """Return what is true of a right result."""
        ...

    def watch(self) -> Watch:
        """Return what to look at in the sandbox; its ports are names with number 0, filled in by the harness."""
        ...

    @property
    def steps(self) -> int:
        """The number of steps of a crash-free run."""
        ...

    @property
    def releases(self) -> Mapping[str, tuple[str, ...]]:
        """The other releases that it can be launched as (see RELEASE), by kind: "prompt", "tools", "code".

        Each with the paths of the state ("$.tokens") that it makes different by itself, when all goes right.
        """
        ...


def zone_env(root: Path, ports: Sequence[tuple[str, int]]) -> dict[str, str]:
    """Return the variables by which every target finds its zones and its *ports*."""
    zones = {f"CHAOS_{zone.upper()}": str(root / zone) for zone in ("durable", "workspace", "tmp", "assets")}
    return {**zones, "TMPDIR": str(root / "tmp"), **{name: str(number) for name, number in ports}}
