"""What the harness did to the agent and to what is around it, as evidence that a fault landed."""

from __future__ import annotations

import msgspec

from chaos.events import Event


class Injecting(Event, frozen=True, tag="injecting"):
    """The *index*-th fault of the plan is about to be injected at *point*."""

    index: int
    fault: str
    point: str


class Signalled(Event, frozen=True, tag="signalled"):
    """The harness sent *signal* to the agent (its whole tree for SIGKILL)."""

    pid: int
    signal: int


class Stopped(Event, frozen=True, tag="stopped"):
    """Every process of the agent was stopped where it was: host's numbers, and the state that /proc shows of each."""

    pids: tuple[int, ...]
    states: tuple[str, ...]  # "T" for stopped


class HeartbeatMissed(Event, frozen=True, tag="heartbeat_missed"):
    """The supervisor's watchdog saw no sign of life of the agent *pid* for *seconds*, and ends it."""

    pid: int
    seconds: float


class PresumedDead(Event, frozen=True, tag="presumed_dead"):
    """The supervisor takes the agent *pid* for dead, which it is not: the next incarnation starts beside it."""

    pid: int
    disk: str  # "own" | "shared": what the next one works on
    wakes: str  # "resumed" | "finished": what the next one must have done before this one goes on


class Overlapped(Event, frozen=True, tag="overlapped"):
    """Two workers on one thread: *first* and *second* are in /proc at once, in these *states*."""

    first: int
    second: int
    states: tuple[str, str]


class MemoryClamped(Event, frozen=True, tag="memory_clamped"):
    """The harness lowered the sandbox's memory limit to *limit_bytes*; the kernel had counted *oom_kill_before*."""

    limit_bytes: int
    usage_bytes: int
    oom_kill_before: int
    oom_kill_after: int


class DiskWiped(Event, frozen=True, tag="disk_wiped"):
    """The container disk was lost: *zones* are empty, *files* entries are gone."""

    zones: tuple[str, ...]
    files: int


class HostRenamed(Event, frozen=True, tag="host_renamed"):
    """The next incarnation runs on another host."""

    old: str
    new: str


class ClockMoved(Event, frozen=True, tag="clock_moved"):
    """The agent's wall clock was moved by *seconds*; a helper in its environment read it so many seconds off."""

    seconds: int
    before_seconds: float
    after_seconds: float


class ClockRead(Event, frozen=True, tag="clock_read"):
    """A process of the sandbox was seen to look at the wall clock since it was moved last."""

    offset_seconds: int


class PowerLost(Event, frozen=True, tag="power_lost"):
    """The disk was stopped with nothing written back, and mounted again: what un-synced writes it lost.

    Paths are of the zones ("durable/history.jsonl"), the first of many; *refused*: the error of a write in between.
    """

    filesystem: str
    refused: str
    files: int  # that were there before
    lost_files: int
    changed_files: int
    reappeared_files: int  # they had been removed, and that was not synced
    lost_bytes: int
    paths: tuple[str, ...] = ()


class DiskFilled(Event, frozen=True, tag="disk_filled"):
    """All free space of the sandbox's disk was taken."""

    free_before_bytes: int
    free_after_bytes: int


class DiskFreed(Event, frozen=True, tag="disk_freed"):
    """The space was given back. *errors*: system calls of the agent that failed for want of it, as strace saw them."""

    free_bytes: int
    failed: int
    errors: tuple[str, ...] = ()  # the first lines of strace's log


class CallFailed(Event, frozen=True, tag="call_failed"):
    """A held call was not executed: the kernel took *error* as its result and gave it to the agent."""

    phase: str
    number: int
    name: str
    path: str
    error: str  # "EIO"


class Released(Event, frozen=True, tag="released"):
    """The next incarnations are another release of the target, *release*.

    *system* and *tools* are what the model endpoint saw last (see `Asked`). *changes*: paths of the state that the
    release makes different by itself.
    """

    release: str
    system: str = ""
    tools: str = ""
    changes: tuple[str, ...] = ()


class StoreDamaged(Event, frozen=True, tag="store_damaged"):
    """Stored bytes were changed between crash and resume, and read back to prove it."""

    store: str
    how: str
    where: str
    bytes_before: int
    bytes_after: int
    digest_before: str
    digest_after: str


class Poisoned(Event, frozen=True, tag="poisoned"):
    """The link to *link* is made bad for the *number*-th time, by a toxic, by "down", or because who is behind is dead.

    *attributes* are in Toxiproxy's units; *server* is what the proxy belongs to: "embedded 2.12.0".
    """

    link: str
    number: int
    toxic: str
    stream: str = ""
    attributes: dict[str, int] = msgspec.field(default_factory=dict)
    server: str = ""


class LinkHit(Event, frozen=True, tag="link_hit"):
    """The taps at both ends of the link saw what only that does: *how* one connection was hit, the first time."""

    link: str
    number: int
    connection: int
    how: str  # "held back", "swallowed", "cut", "reset", "refused", "closed late", "reset by the dead"
    bytes: int = 0
    seconds: float = 0.0  # that the bytes, or the end, came late


class Healed(Event, frozen=True, tag="healed"):
    """The link is good again, after *seconds* and *hits* hit connections."""

    link: str
    number: int
    hits: int
    seconds: float


class ServerKilled(Event, frozen=True, tag="server_killed"):
    """The server that the agent keeps its state on was killed: its first process *pid* ended with *status*."""

    server: str
    pid: int
    status: int


class ServerBack(Event, frozen=True, tag="server_back"):
    """It was started again on the same port and data, and answers as *pid*, its crash recovery done."""

    server: str
    pid: int
    recovery_seconds: float


class StoreRolledBack(Event, frozen=True, tag="store_rolled_back"):
    """All that is durable was made what it was *behind* commits before; the records of the *store*, read back."""

    store: str
    behind: int
    records_before: int
    records_after: int
    digest_before: str
    digest_after: str


class Audited(Event, frozen=True, tag="audited"):
    """The harness looked for structural damage in what LangGraph has stored (`chaos.audit`).

    *when*: "crashed", the agent being dead and nothing healed yet, or "end". *blind* is what could not be seen.
    """

    when: str
    threads: int
    checkpoints: int
    writes: int
    findings: tuple[str, ...] = ()
    blind: tuple[str, ...] = ()


Done = (
    Injecting | Signalled | Stopped | HeartbeatMissed | PresumedDead | Overlapped | MemoryClamped | DiskWiped
    | HostRenamed | ClockMoved | ClockRead | PowerLost | DiskFilled | DiskFreed | CallFailed | Released
    | StoreDamaged | Poisoned | LinkHit | Healed | ServerKilled | ServerBack | StoreRolledBack | Audited
)  # fmt: skip
