"""What was seen of the agent, from outside and by what it announced."""

from __future__ import annotations

import msgspec

from chaos.events import NULL, Event


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
    text: str = ""  # the content of a small text file, masked alike: for people, the digest says it all


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

    def without_texts(self) -> Observation:
        """Return it without the content of its files: what differs at the end is shown, and in between nobody asks."""
        files = tuple(msgspec.structs.replace(entry, text="") if entry.text else entry for entry in self.files)
        return msgspec.structs.replace(self, files=files)


class Observed(Event, frozen=True, tag="observed"):
    """The harness looked at the sandbox while the agent stood at *phase* of *step*."""

    step: int
    phase: str
    seen: Observation


class Called(Event, frozen=True, tag="called"):
    """The agent's *number*-th *phase* ("write", "fsync", "rename") below the durable zone, from 1 in each incarnation.

    The kernel held the call *name* of the thread *pid* until the harness let it go.
    """

    phase: str
    number: int
    name: str  # "fdatasync"
    path: str  # "durable/checkpoints.sqlite-wal"
    pid: int
    checkpoint_write: int = 0  # its number among those that make durable (`plan.CHECKPOINT_WRITE`), 0 if not counted


class Operated(Event, frozen=True, tag="operated"):
    """The agent's *number*-th *phase* ("model_call", "effect", ...; `plan.OPERATIONS`), from 1 in each incarnation.

    The world held it until the harness let it go.
    """

    phase: str
    number: int
    path: str  # what was asked: "/v1/chat/completions", "payments.charge"
    digest: str = ""  # of the prompt, or of the payload


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

    *turn* is the number of model turns already in the conversation. *prompt* digests the conversation. Of its messages
    the first *kept* were asked in this run before; they are digested by *onto*. The others are *messages*, and *added*
    digests the conversation up to each of them: `Record.conversation` puts them together.
    """

    turn: int
    status: int
    prompt: str
    messages: msgspec.Raw
    goal: str  # the goal as it stands in the prompt
    kept: int = 0
    onto: str = ""
    added: tuple[str, ...] = ()
    opening: str = ""  # digest of the first message
    prefixes: tuple[str, ...] = ()  # up to each message of all: so in the first journals, which have no *added*
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

    @property
    def beginning(self) -> str:
        """The digest of the first message, "" if there is none."""
        return self.opening or (self.prefixes[0] if self.prefixes else "")


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
    """A new process read the store after the run: its state as JSON, or the error it met.

    *live* is the state that the agent itself held when it ended, where it leaves that: what is stored must be the same.
    """

    state: msgspec.Raw = NULL
    error: str = ""
    live: msgspec.Raw = NULL


class Measured(Event, frozen=True, tag="measured"):
    """Sizes at the end of the run: bytes that stay in the durable zone, files and databases together."""

    stored_bytes: int


class HostDid(Event, frozen=True, tag="host_did"):
    """What a strategy's half outside the sandbox says of itself: evidence of its work, never of its success."""

    what: str  # "snapshot", "restore", ...
    figures: dict[str, str | int | float | bool] = msgspec.field(default_factory=dict)


class Ended(Event, frozen=True, tag="ended"):
    """The run is over: "finished", "gave up" (backoffLimit), or "deadline"."""

    how: str


Seen = (
    Started | Reached | Observed | Called | Operated | Exited | Asked | Spoiled | Effected | Reloaded | Measured
    | HostDid | Ended
)  # fmt: skip
