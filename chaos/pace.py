"""How long a campaign will take: from the seconds of its own runs so far, and of those of earlier campaigns. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from chaos.history import Entry

MOST = 20.0
"""What a campaign takes at most, in units of what its runs take: more was a machine that did something else."""


class Pace:
    """Seconds of a run by strategy. *entries* are those of the history, oldest first: the newest one counts.

    Reference runs, servers and shrinking are told by what the campaign takes in units of what its runs take.
    """

    def __init__(self, entries: Sequence[Entry] = ()) -> None:
        self._earlier = {each.strategy: each.run_seconds for entry in entries for each in entry.strategies}
        self._factor = next((found for entry in reversed(entries) if (found := _factor(entry))), 1.0)
        self._own: dict[str, tuple[int, float]] = {}

    def add(self, strategy: str, seconds: float) -> None:
        """Take note of a run of *strategy* that took so many *seconds*."""
        runs, total = self._own.get(strategy, (0, 0.0))
        self._own[strategy] = runs + 1, total + seconds

    def left(self, runs: Mapping[str, int], processes: int = 1, elapsed: float = 0.0) -> float | None:
        """Return about how many seconds so many *runs* of each strategy take; None where nothing is known.

        Args:
            processes: that run cells at the same time.
            elapsed: seconds that this campaign has taken so far.
        """
        known = {**self._earlier, **{strategy: total / runs for strategy, (runs, total) in self._own.items()}}
        if not known:
            return None
        usual = sum(known.values()) / len(known)
        wanted = sum(number * known.get(strategy, usual) for strategy, number in runs.items())
        done = sum(total for _, total in self._own.values())
        factor = min(max(elapsed * processes / done, 1.0), MOST) if done else self._factor
        return wanted * factor / processes


def _factor(entry: Entry) -> float:
    """Return what the campaign of *entry* took in units of what its runs took; 0 where it does not say."""
    runs = sum(each.runs * each.run_seconds for each in entry.strategies)
    return min(max(entry.seconds * entry.processes / runs, 1.0), MOST) if runs and entry.seconds else 0.0
