"""What campaigns amounted to, one line each: for the trend over CI runs, for thresholds, and for estimates.

The file only grows, by one line for each campaign that judged something. The format is version 1: readers ignore fields
that they do not know, and a field is never given a new meaning.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import msgspec

from chaos import seeds
from chaos.errors import HarnessError
from chaos.results import Campaign, RunResult
from chaos.verdict import CellVerdict

_NEVER_BACK = (CellVerdict.REFUSED, CellVerdict.STUCK)  # until they gave up is no time to recover

VERSION = 1
FILE = "history.jsonl"
_DIGITS = 4  # of seconds and of means: finer than anything that is measured


class StrategyFigures(msgspec.Struct, frozen=True, kw_only=True):
    """What one strategy amounted to in one campaign, over the *runs* in which a fault landed.

    Seconds, steps, tokens and bytes as in `RunResult`; `_p50` and `_p95` are percentiles of the runs, None without any.
    Equal *shape*: it met the same faults in the same scenarios as often, so that the figures can be compared.
    """

    strategy: str
    shape: str
    runs: int
    recovered: int
    rpo_p50: float | None = None
    rpo_p95: float | None = None
    rto_p50: float | None = None
    rto_p95: float | None = None
    asked_again_tokens: float | None = None  # mean of a run: tokens add up
    useful_tokens: float | None = None  # mean of a run
    duplicates: int | None = None  # effects that happened more often than without a crash, in all runs; None: not read
    bytes_per_step: float | None = None  # median of what is stored at the end, by the steps that were done
    run_seconds: float = 0.0  # mean of all runs


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """What one campaign amounted to.

    *broken* are the causes of what broke and was not expected, *over* the thresholds that were not kept: figures of
    such a campaign are nothing to compare with. *seconds* and *processes* say how long it took, for estimates.
    """

    v: int = VERSION
    campaign: str
    began: str  # ISO 8601, UTC
    seed: int
    commit: str = ""  # of the project; "" if that is not known
    host: str = ""
    cells: int  # that were judged
    as_promised: int  # of these
    strategies: tuple[StrategyFigures, ...] = ()
    broken: tuple[str, ...] = ()
    over: tuple[str, ...] = ()
    seconds: float = 0.0
    processes: int = 1

    def of(self, strategy: str) -> StrategyFigures | None:
        """Return the figures of the strategy of that label; None if it did not run."""
        return next((each for each in self.strategies if each.strategy == strategy), None)


def entry(
    campaign: Campaign,
    *,
    commit: str = "",
    duplicates: Mapping[str, int] | None = None,
    broken: Iterable[str] = (),
    over: Iterable[str] = (),
    seconds: float = 0.0,
    processes: int = 1,
) -> Entry:
    """Return what *campaign* amounts to.

    Args:
        commit: of the project that was tested.
        duplicates: by strategy, of all its runs; who does not read journals does not know them.
        broken: the causes of what was not expected.
        over: the thresholds that were not kept.
        seconds: from the first cell to the end.
        processes: that ran cells at the same time.
    """
    judged = [cell for cell in campaign.cells if not cell.skipped and not cell.missing]
    return Entry(
        campaign=campaign.info.campaign,
        began=campaign.info.began,
        seed=campaign.info.seed,
        commit=commit,
        host=campaign.info.host,
        cells=len(judged),
        as_promised=sum(cell.passed for cell in judged),
        strategies=figures(campaign, duplicates),
        broken=tuple(dict.fromkeys(broken)),
        over=tuple(over),
        seconds=round(seconds, _DIGITS),
        processes=processes,
    )


def figures(campaign: Campaign, duplicates: Mapping[str, int] | None = None) -> tuple[StrategyFigures, ...]:
    """Return the figures of each strategy of *campaign* that ran, in order of first appearance."""
    order = dict.fromkeys(cell.strategy for cell in campaign.cells)
    found = {each.strategy: each for each in of_runs(campaign.runs, campaign.scenarios, duplicates)}
    return tuple(found[strategy] for strategy in dict.fromkeys([*order, *found]) if strategy in found)


def of_runs(
    runs: Iterable[RunResult],
    scenarios: Mapping[str, str] | None = None,
    duplicates: Mapping[str, int] | None = None,
) -> tuple[StrategyFigures, ...]:
    """Return the figures of each strategy of *runs*, in order of first appearance.

    Args:
        scenarios: names, with the digest of each one's file.
        duplicates: by strategy, of all its runs.
    """
    own: dict[str, list[RunResult]] = {}
    for run in runs:
        own.setdefault(run.strategy, []).append(run)
    return tuple(
        _figures(strategy, some, scenarios or {}, (duplicates or {}).get(strategy)) for strategy, some in own.items()
    )


def recovered(run: RunResult) -> bool:
    """Tell whether *run* came back as it should, if need be with more work redone than allowed where none is named."""
    return run.verdict is CellVerdict.RECOVERED or (run.verdict is CellVerdict.RECOVERED_WITH_LOSS and not run.broke)


def percentile(values: Iterable[float], share: float) -> float | None:
    """Return the value below which a *share*, from 0 to 1, of *values* lies; None without values.

    Linear between neighbours (type 7 of Hyndman and Fan 1996, as NumPy does it): for 0.5 that is the median.
    """
    known = sorted(values)
    if not known:
        return None
    place = share * (len(known) - 1)
    low = int(place)
    high = min(low + 1, len(known) - 1)
    return known[low] + (known[high] - known[low]) * (place - low)


def append(path: Path, line: Entry) -> None:
    """Append *line* to the file *path*, as one write; HarnessError if that is not possible."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        try:
            os.write(file, (b"\n" if _torn(file) else b"") + msgspec.json.encode(line) + b"\n")
        finally:
            os.close(file)
    except OSError as error:
        raise HarnessError(f"{path}: the history cannot be written ({error.strerror}); name another file") from None


def read(path: Path) -> tuple[Entry, ...]:
    """Return the campaigns in the file *path*, oldest first; none if there is no such file.

    A torn line (the job was killed while it wrote) is left out; HarnessError for anything else that is no entry.
    """
    try:
        lines = path.read_bytes().split(b"\n")
    except FileNotFoundError:
        return ()
    except OSError as error:
        raise HarnessError(f"{path}: the history cannot be read ({error.strerror}); name another file") from None
    return tuple(found for number, line in enumerate(lines[:-1], 1) if (found := _entry(path, number, line)))


def last(entries: Sequence[Entry], figures: StrategyFigures) -> tuple[Entry, StrategyFigures] | None:
    """Return the last of *entries* to compare *figures* with, and its own ones; None if there is none.

    That is one of the same shape which kept its thresholds: else a regression would pass when it is seen twice.
    """
    for each in reversed(entries):
        known = each.of(figures.strategy)
        if known and known.shape == figures.shape and not each.over:
            return each, known
    return None


def _entry(path: Path, number: int, line: bytes) -> Entry | None:
    try:
        return msgspec.json.decode(line, type=Entry)
    except msgspec.ValidationError as error:
        raise HarnessError(
            f"{path}:{number}: no line of a history ({error}); name another file, or remove it"
        ) from None
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None  # torn


def _torn(file: int) -> bool:
    """Tell whether the last line of *file* has no end."""
    size = os.fstat(file).st_size
    return size > 0 and os.pread(file, 1, size - 1) != b"\n"


def _figures(
    strategy: str, runs: Sequence[RunResult], scenarios: Mapping[str, str], duplicates: int | None
) -> StrategyFigures:
    exercised = [run for run in runs if run.landed and run.verdict is not CellVerdict.HARNESS_ERROR]
    rto = [run.rto_seconds.total for run in exercised if run.rto_seconds and run.verdict not in _NEVER_BACK]
    rpo = [run.rpo_steps for run in exercised]
    return StrategyFigures(
        strategy=strategy,
        shape=_shape(runs, scenarios),
        runs=len(exercised),
        recovered=sum(map(recovered, exercised)),
        rpo_p50=_rounded(percentile(rpo, 0.5)),
        rpo_p95=_rounded(percentile(rpo, 0.95)),
        rto_p50=_rounded(percentile(rto, 0.5)),
        rto_p95=_rounded(percentile(rto, 0.95)),
        asked_again_tokens=_rounded(_mean([run.tokens.asked_again for run in exercised])),
        useful_tokens=_rounded(_mean([run.tokens.useful for run in exercised])),
        duplicates=duplicates,
        bytes_per_step=_rounded(
            percentile((run.storage.stored / run.steps for run in exercised if run.steps and run.storage.stored), 0.5)
        ),
        run_seconds=_rounded(_mean([run.seconds for run in runs])) or 0.0,
    )


def _shape(runs: Iterable[RunResult], scenarios: Mapping[str, str]) -> str:
    """Return what two campaigns of a strategy have in common if its figures can be compared."""
    cells = Counter((run.scenario, scenarios.get(run.scenario, ""), run.fault) for run in runs)
    return f"{seeds.derive(0, *sorted(cells.items())):08x}"


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, _DIGITS)
