"""What is said about the bytes that strategies store: the arithmetic of their schemes, and what was published.

Neither is a measurement, and a report tells the three apart. N steps add s bytes each to the conversation; every
fourth writes its text to a file as well.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

from chaos.targets.reference.workloads.long_notes import FILE_EVERY

PHASES = 3
"""Phases of `segmented`; its module is not imported for this number, for it brings a runtime along."""


UPDATES = 2
"""Times that a turn of a Deep Agent updates its messages: the model's, and the tools' results."""


@dataclass(frozen=True)
class Model:
    """The bytes by arithmetic alone: *stored* at rest, and *written* until then, with the agent's own files."""

    formula: str
    stored: int
    written: int


@dataclass(frozen=True)
class Published:
    """A figure that somebody published.

    Args:
        strategy: name of the strategy that it is about, with those of its *options* that it is about.
        kind: what sort of source it is: "article", "vendor blog" or "paper".
        source: where it stands.
        given: N to bytes.
        workload: what it was measured on; "" where it is for steps of 50 kB, as here.
        remark: what one has to know of it.
    """

    strategy: str
    kind: str
    source: str
    options: tuple[tuple[str, object], ...] = ()
    given: tuple[tuple[int, int], ...] = ()
    workload: str = ""
    remark: str = ""

    @property
    def label(self) -> str:
        """The strategy and options that it is about, as reports write them."""
        options = ",".join(f"{key}={value}" for key, value in self.options)
        return f"{self.strategy}:{options}" if options else self.strategy

    def about(self, name: str, options: Mapping[str, object]) -> bool:
        """Tell whether it is about the strategy *name* with *options*."""
        return name == self.strategy and all(options.get(key) == value for key, value in self.options)


def model(name: str, options: Mapping[str, object], s: int, n: int, steps: int) -> Model | None:
    """Return what arithmetic says of the strategy *name* with *options*, *n* of *steps* steps of *s* bytes on.

    None for a strategy whose scheme is not known here.
    """
    every, log, files = options.get("every"), s * n, s * (n // FILE_EVERY)
    formula, stored, rewritten = "", 0, 0
    if name in ("restart", "in_memory"):
        formula = "nothing"
    elif name == "full_snapshot" and options.get("durability") == "sync":
        formula, stored = "s·N(N+1)/2 + s·N", s * _multiples(1, n) + log
    elif name == "selective" and isinstance(every, int) and options.get("channels") == "full":
        formula, stored = f"s·({_series(every)}) + s·N/{every}", s * _multiples(every, n) + s * (n // every)
    elif name == "segmented":
        lengths = _phases(n, steps)
        formula = f"s·M(M+1)/2 for each phase of M = N/{PHASES} steps, + s·N"
        stored = s * sum(_multiples(1, length) for length in lengths) + log
    elif name == "delta" and isinstance(every, int):
        formula, stored = f"s·N + s·({_series(every)})", log + s * _multiples(every, n)
    elif name == "deep_agents" and isinstance(every, int):
        turns = max(1, every // UPDATES)  # of a turn's two updates of the messages; the files have one in four turns
        formula = f"s·N + s·({_series(turns)}) + s·N/{FILE_EVERY} + s·({every} + {2 * every} + … ≤ N/{FILE_EVERY})"
        stored = log + s * _multiples(turns, n) + files + s * _multiples(every, n // FILE_EVERY)
    elif name == "layered" and isinstance(every, int):
        formula = f"2·s·N + s·({_series(every)}) + s·N/{FILE_EVERY}"
        stored = 2 * log + s * _multiples(every, n) + files
    elif name == "chat_history" and options.get("write") == "rewrite":
        formula, stored, rewritten = "s·N; written s·N(N+1)/2", log, s * _multiples(1, n) - log
    elif name in ("chat_history", "events"):
        formula, stored = "s·N", log
    elif name in ("cow", "semantic"):
        formula, stored = f"s·N + s·N/{FILE_EVERY}", log + files
    return Model(formula, stored, stored + rewritten + files) if formula else None


def _multiples(every: int, n: int) -> int:
    """Return every + 2·every + … up to *n*."""
    count = n // every
    return every * count * (count + 1) // 2


def _series(every: int) -> str:
    return f"{every} + {2 * every} + … ≤ N"


def _phases(n: int, steps: int) -> list[int]:
    """Return how many steps of each phase are done after *n* of *steps*."""
    ends = [-(-steps * phase // PHASES) for phase in range(PHASES + 1)]
    return [max(0, min(n, end) - start) for start, end in pairwise(ends)]


PUBLISHED_BYTES = 50_000
"""Bytes in a step that the article calculates with."""

_MB = 1_000_000
_ARTICLE = ("article", "“storage tax” article on six strategies, s = 50 kB")
_BLOG = ("vendor blog", "langchain.com/blog/delta-channels-evolving-agent-runtime, 12 May 2026")
_AGENT = "a coding agent of 200 turns, about 264 kB each"


def _curve(*values: int) -> tuple[tuple[int, int], ...]:
    return tuple(zip((50, 100, 150, 200, 300, 400), (value * _MB for value in values), strict=True))


PUBLISHED = (
    Published(
        "full_snapshot",
        *_ARTICLE,
        given=_curve(62, 250, 562, 1000, 999, 999),
        remark="from N = 300 on it is the end of the article's axis",
    ),
    Published(
        "delta",
        *_ARTICLE,
        options=(("every", 20),),
        given=_curve(25, 50, 75, 100, 150, 200),
        remark="called O(N) there; with a fixed K it is s·N + s·N²/2K",
    ),
    Published("chat_history", *_ARTICLE, given=((200, 10 * _MB),)),
    Published("cow", *_ARTICLE, given=_curve(50, 100, 150, 200, 300, 400), remark="1 MB for a step that changes 50 kB"),
    Published("semantic", *_ARTICLE, given=_curve(10, 20, 30, 40, 60, 80), remark="not derived there from anything"),
    Published("events", *_ARTICLE, given=_curve(8, 15, 22, 30, 45, 60)),
    Published("full_snapshot", *_BLOG, given=((200, 5300 * _MB),), workload=_AGENT),
    Published("delta", *_BLOG, options=(("every", 50),), given=((200, 129 * _MB),), workload=_AGENT),
    Published(
        "semantic",
        "paper",
        "Crab, arxiv.org/abs/2604.28138",
        workload="Claude Code, iFlow and SWE-agent on Terminal-Bench and SWE-bench",
        remark="no bytes; 70 to 87 % of the turns need no checkpoint, up to 87 % less checkpoint traffic",
    ),
)
"""What was published, in the order of the table."""
