"""Everything seen in one run, in order, appended to disk as it happens.

An event is a frozen struct; its line in `journal.jsonl` is JSON tagged by "event". Checks, numbers and
reports work on events alone, so that an old journal can be judged again.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

NULL = msgspec.Raw(b"null")
"""No JSON value where one could be: a line stays valid JSON, and `Raw | None` decodes nothing but null."""


class Event(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", omit_defaults=True):
    """*at*: seconds since the run began, monotonic. *attempt*: the agent's incarnation, from 1."""

    at: float
    attempt: int


class Started(Event, frozen=True, tag="started"):
    """The supervisor started the agent. *pid* is the host's number of its first process."""

    pid: int
    hostname: str
    thread_id: str


class Reached(Event, frozen=True, tag="reached"):
    """The agent announced a point at the gate. *snapshot* is its whole state as JSON, where it sent one."""

    step: int
    phase: str
    key: str
    state: str | None = None
    snapshot: msgspec.Raw = NULL


class FileEntry(msgspec.Struct, frozen=True, order=True, omit_defaults=True):
    """One path of a zone. *digest* is of the content with the sandbox's own path masked; *target* of a link."""

    path: str  # "workspace/data/q1.csv"
    kind: str  # "file" | "dir" | "link" | "other"
    mode: int  # permission bits
    size: int = 0
    digest: str = ""
    target: str = ""


class Repository(msgspec.Struct, frozen=True, omit_defaults=True):
    """What git says of one repository: index times and reflogs differ in every run, these do not."""

    path: str
    head: str  # commit, or "" before the first
    log: tuple[str, ...] = ()  # "HASH subject", newest first
    status: tuple[str, ...] = ()  # lines of `git status --porcelain`


class ProcessEntry(msgspec.Struct, frozen=True, order=True, omit_defaults=True):
    """A live process of the sandbox other than the agent itself, as the kernel reports it; paths masked."""

    argv: tuple[str, ...]
    cwd: str
    environment: tuple[tuple[str, str], ...] = ()  # the watched variables only
    ports: tuple[str, ...] = ()  # listening TCP ports; those that the sandbox was given go by name: "$ENGINE_PORT"
    pid: int = 0  # host's number; for evidence, never compared


class Observation(msgspec.Struct, frozen=True, omit_defaults=True):
    """The sandbox as seen from outside at one instant, the agent held at the gate."""

    files: tuple[FileEntry, ...]
    repositories: tuple[Repository, ...]
    processes: tuple[ProcessEntry, ...]
    packages: tuple[str, ...] = ()  # "salesmath-1.0" for each *.dist-info below the zones


class Observed(Event, frozen=True, tag="observed"):
    """The harness looked at the sandbox while the agent stood at *phase* of *step*."""

    step: int
    phase: str
    seen: Observation


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


class Called(Event, frozen=True, tag="called"):
    """The agent's *number*-th *phase* ("write", "fsync", "rename") below the durable zone, from 1 in each incarnation.

    The kernel held the call *name* of the thread *pid* until the harness let it go.
    """

    phase: str
    number: int
    name: str  # "fdatasync"
    path: str  # "durable/checkpoints.sqlite-wal"
    pid: int


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
    attributes: dict[str, int] = {}
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


class Exited(Event, frozen=True, tag="exited"):
    """The agent's first process ended. *status*: exit code, or minus the signal. *log*: its last lines."""

    status: int
    oom_kill: int = 0  # the cgroup's counter afterwards; 0 without one
    # bytes that the agent's first process caused to be written (proc(5) io write_bytes)
    written_bytes: int = 0
    stored_bytes: int = 0  # in the durable zone afterwards, servers and the strategy's other half included
    log_bytes: int = 0  # of those: in write-ahead logs, a checkpoint gives them back
    elsewhere_bytes: int = 0  # written since the run began by servers and by the strategy's half outside the sandbox
    log: str = ""


class Asked(Event, frozen=True, tag="asked"):
    """The model endpoint received a request and answered it with *status*.

    *turn* is the number of model turns already in the conversation. *prompt* digests the conversation;
    *prefixes* digests it up to each message, so that two conversations can be compared from outside.
    *messages* holds only what is new against the previous request of this run.
    """

    turn: int
    status: int
    prompt: str
    prefixes: tuple[str, ...]
    messages: msgspec.Raw
    goal: str  # the goal as it stands in the prompt
    budget: int | None = None  # steps used, as the agent itself accounts for it in the request's metadata
    tokens_in: int = 0
    tokens_out: int = 0
    again: bool = False  # the same prompt was answered before in this run: work paid for twice
    retry: int = 0  # how many times the client says that it retried
    style: str = "openai"
    tools: str = ""  # digest of the tools that the request offers, "" for none
    release: str = ""  # the release that the client says it is
    budget_tokens: int | None = None  # tokens used, by the same account
    refused: str = ""  # why it was refused: "rate_limit", "overloaded", "quota", "context_length"
    retry_after: float | None = None  # the least seconds that the refusal asks to wait; None: it names none
    spoiled: str = ""  # how the reply is to go wrong on its way (see `Spoiled`): billed, and of no use


class Spoiled(Event, frozen=True, tag="spoiled"):
    """A reply went wrong on its way, and its client was there to see it: what was done for it stays done.

    *how*: "held" until the client gave up or its time was over, "lost" in a reset before its first byte, "dropped" in
    a reset in its middle, "truncated" by an end that looks whole, or one of the ways of being malformed.
    """

    link: str  # "model" | "services"
    path: str  # that was asked for
    how: str
    status: int  # of the reply, whether or not it was sent
    sent_bytes: int  # of the body
    whole_bytes: int
    prompt: str = ""  # as in the `Asked` that it replies to
    held_seconds: float = 0.0


class Effected(Event, frozen=True, tag="effected"):
    """A service was asked to change the outside world: one line of the effects ledger.

    *deduplicated*: the service knew the idempotency key and did nothing. *identity* names the effect over
    runs: service, operation and payload.
    """

    service: str
    operation: str
    identity: str
    payload: str
    key: str | None = None
    deduplicated: bool = False
    off_goal: bool = False


class Reloaded(Event, frozen=True, tag="reloaded"):
    """A new process read the store after the run: its state as JSON, or the error it met."""

    state: msgspec.Raw = NULL
    error: str = ""


class Measured(Event, frozen=True, tag="measured"):
    """Sizes at the end of the run: bytes that stay in the durable zone, files and databases together."""

    stored_bytes: int


class HostDid(Event, frozen=True, tag="host_did"):
    """What a strategy's half outside the sandbox says of itself: evidence of its work, never of its success."""

    what: str  # "snapshot", "restore", ...
    figures: dict[str, str | int | float | bool] = {}


class Ended(Event, frozen=True, tag="ended"):
    """The run is over: "finished", "gave up" (backoffLimit), or "deadline"."""

    how: str


AnyEvent = (
    Poisoned | LinkHit | Healed | ServerKilled | ServerBack |
    Started | Reached | Observed | Injecting | Signalled | Stopped | HeartbeatMissed | PresumedDead | Overlapped
    | MemoryClamped | DiskWiped | HostRenamed
    | StoreDamaged | StoreRolledBack | Audited | Exited | Asked | Effected | Reloaded | Measured | HostDid | Ended
    | ClockMoved | ClockRead | Released
    | PowerLost | DiskFilled | DiskFreed | Called | CallFailed | Spoiled
)  # fmt: skip

_decoder = msgspec.json.Decoder(AnyEvent)
_encoder = msgspec.json.Encoder()


class Journal:
    """An append-only JSONL file of events, safe to append to from several threads.

    Args:
        path: the file; its folder exists.
        clock: seconds, monotonic; handed in so that tests are exact.
    """

    def __init__(self, path: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self.path = path
        self.attempt = 0
        self.events: list[AnyEvent] = []
        self._acting = threading.local()
        self._clock = clock
        self._began = clock()
        self._lock = threading.Lock()
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)

    def now(self) -> float:
        """Return the seconds since the run began, to the microsecond."""
        return round(self._clock() - self._began, 6)

    @property
    def actor(self) -> int:
        """The attempt that this thread acts for: the current one, unless `acting` says another."""
        return getattr(self._acting, "attempt", 0) or self.attempt

    def add(self, kind: type[AnyEvent], **fields: Any) -> None:
        """Append an event of *kind* that happens now, in the current attempt or the one that this thread acts for."""
        with self._lock:
            event = kind(at=self.now(), attempt=self.actor, **fields)
            self.events.append(event)
            os.write(self._file, _encoder.encode(event) + b"\n")

    @contextmanager
    def acting(self, attempt: int) -> Iterator[None]:
        """Have what this thread adds belong to *attempt*, which need not be the current one; 0: the current one."""
        before = getattr(self._acting, "attempt", 0)
        self._acting.attempt = attempt
        try:
            yield
        finally:
            self._acting.attempt = before

    def close(self) -> None:
        """Close the file; the events stay readable."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


def read(path: Path) -> tuple[AnyEvent, ...]:
    """Return the events of the journal at *path*; a torn last line (the harness was killed) is left out."""
    lines = path.read_bytes().split(b"\n")
    return tuple(_decoder.decode(line) for line in lines[:-1])
