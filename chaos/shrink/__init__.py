"""Shrinking: from a plan that fails to a smaller one that fails in the same way, and can be made no simpler.

The search is a pure function over a predicate; what is simpler than what says `simpler.py`, what a predicate does for
real is in `attempts.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T", bound=Hashable)

Simpler = Callable[[T], Iterable[T]]
"""Yields what is simpler than its argument by one simplification, the most promising first. It must be a pure function,
and every yield must come before its argument in one well-founded order, the same for all: else a search has no end."""


class Spent(Exception):
    """There are no more runs, or there is no more time: the search ends with what it has."""


@dataclass(frozen=True)
class Shrunk(Generic[T]):
    """What a search came to.

    *proven*: each single simplification of *smallest* was tried, and none of them fails in the same way. Otherwise the
    runs or the time were over before.
    """

    smallest: T
    calls: int
    proven: bool


def shrink(start: T, passes: Sequence[Simpler[T]], fails: Callable[[T], bool], most: int) -> Shrunk[T]:
    """Return the smallest that was found on the way down from *start*, which fails.

    Greedy: each pass is followed as long as it finds something, and all of them begin anew until a whole round finds
    nothing. No candidate is tried twice. The result of a proven search, shrunk again, is itself.

    Args:
        passes: the last one yields every single simplification; those before it yield some of them, in the order in
            which they make the search fast.
        fails: whether a candidate fails in the same way; it may raise `Spent`.
        most: calls of *fails* at most.
    """
    tried = {start: True}

    def works(candidate: T) -> bool:
        if candidate not in tried:
            if len(tried) > most:  # one of them is the start, which was not tried
                raise Spent
            tried[candidate] = fails(candidate)
        return tried[candidate]

    smallest, again = start, True
    try:
        while again:
            again = False
            for simpler in passes:
                while (found := next(filter(works, simpler(smallest)), None)) is not None:
                    smallest, again = found, True
    except Spent:
        return Shrunk(smallest, len(tried) - 1, proven=False)
    return Shrunk(smallest, len(tried) - 1, proven=True)


def descent(number: int, least: int) -> Iterator[int]:
    """Yield smaller numbers to try for *number*: *least*, then halfway up from there, and so on to the next smaller.

    For a failure that needs *k* or more this is a bisection.
    """
    gap = number - least
    while gap > 0:
        yield number - gap
        gap //= 2
