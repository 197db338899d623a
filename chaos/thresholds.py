"""`--chaos-fail-on "rto_p95>+20%"`: figures of a strategy that must not get worse than that.

An expression is METRIC OP AMOUNT, for all strategies, or METRIC[STRATEGY] OP AMOUNT for one: its label, or a name for
all of its variants. An amount with a sign is measured from the last campaign in the history that did the same work and
kept its thresholds. Pure.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

from chaos import history
from chaos.errors import ScenarioError, did_you_mean
from chaos.history import Entry, StrategyFigures
from chaos.scenario.units import BYTES, SECONDS

PERCENT = "%"
_PLAIN = {"": Decimal(1)}
_SHARE = {PERCENT: Decimal("0.01")}


@dataclass(frozen=True)
class Metric:
    """What can be asked for: *units* of an absolute amount with their factors, *of* the figures; None: not known."""

    units: Mapping[str, Decimal]
    of: Callable[[StrategyFigures], float | None]
    about: str


METRICS: Mapping[str, Metric] = {
    "rto_p50": Metric(SECONDS, lambda figures: figures.rto_p50, "median seconds from a fault to the step it broke"),
    "rto_p95": Metric(SECONDS, lambda figures: figures.rto_p95, "the same, of the slowest 5 % of runs"),
    "rpo_p50": Metric(_PLAIN, lambda figures: figures.rpo_p50, "median steps that were lost"),
    "rpo_p95": Metric(_PLAIN, lambda figures: figures.rpo_p95, "the same, of the worst 5 % of runs"),
    "recovered": Metric(_SHARE, lambda figures: figures.recovered / figures.runs if figures.runs else None,
                        "share of the runs that recovered"),
    "asked_again_tokens": Metric(_PLAIN, lambda figures: figures.asked_again_tokens, "mean tokens of a run paid twice"),
    "duplicates": Metric(_PLAIN, lambda figures: figures.duplicates, "effects that happened too often, in all runs"),
    "bytes_per_step": Metric(BYTES, lambda figures: figures.bytes_per_step, "median bytes stored for a step"),
    "run_seconds": Metric(SECONDS, lambda figures: figures.run_seconds, "mean seconds that a run takes"),
}  # fmt: skip

OPERATORS: Mapping[str, Callable[[float, float], bool]] = {
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
}

_DIGITS = 12  # before and after the point: what a float holds
_LEFT = re.compile(r"\s*(?P<metric>[^\s\[<>=]*)\s*(?:\[(?P<strategy>[^\]]*)\])?\s*")
_AMOUNT = re.compile(rf"(?P<sign>[+-]?)(?P<number>\d{{1,{_DIGITS}}}(?:\.\d{{1,{_DIGITS}}})?)\s*(?P<unit>%|[A-Za-z]*)")


@dataclass(frozen=True)
class Threshold:
    """The figures that are too bad: *metric* of *strategy* ("" for each) compared by *op* with *amount* and *unit*.

    *relative*: the amount, which may be negative, is the distance from the earlier figure.
    """

    metric: str
    op: str
    amount: Decimal
    unit: str = ""
    relative: bool = False
    strategy: str = ""

    def __str__(self) -> str:
        sign = "+" if self.relative and not self.amount.is_signed() else ""
        whose = f"[{self.strategy}]" if self.strategy else ""
        return f"{self.metric}{whose}{self.op}{sign}{self.amount:f}{self.unit}"

    def limit(self, earlier: float | None) -> float | None:
        """Return the figure that is compared with; None if it depends on an *earlier* one that is not there."""
        if not self.relative:
            return float(self.amount * METRICS[self.metric].units[self.unit])
        if earlier is None:
            return None
        if self.unit == PERCENT:
            return float(Decimal(repr(float(earlier))) * (1 + self.amount / 100))
        return earlier + float(self.amount * METRICS[self.metric].units[self.unit])

    def means(self, label: str, labels: Iterable[str]) -> bool:
        """Tell whether the strategy of that *label* is asked about; *labels* are those of all that there are."""
        return self.strategy in ("", label) or (self.strategy not in labels and label.split(":")[0] == self.strategy)


@dataclass(frozen=True)
class Finding:
    """What became of *threshold* for one *strategy*; neither *over* nor *kept*: it proved nothing, and why."""

    threshold: Threshold
    strategy: str
    over: bool
    kept: bool
    sentence: str


def parse(text: str) -> Threshold:
    """Return the threshold that *text* says; ScenarioError tells what is wrong with it, where, and what is right."""
    left = _LEFT.match(text)
    assert left is not None  # it matches nothing, too
    metric, strategy, at = left["metric"], (left["strategy"] or "").strip(), left.start("metric")
    if metric not in METRICS:
        raise _wrong(
            text, at, f"no metric {metric!r}; {did_you_mean(metric, METRICS)}" if metric else _form("a metric")
        )
    if left["strategy"] is not None and not strategy:
        raise _wrong(text, left.start("strategy"), "no strategy in the brackets; leave them out, or name one")
    op = next((each for each in OPERATORS if text.startswith(each, left.end())), "")
    if not op:
        raise _wrong(text, left.end(), _form("one of > >= < <="))
    start = left.end() + len(op)
    start += len(text[start:]) - len(text[start:].lstrip())
    found = _AMOUNT.match(text, start)
    if found is None:
        raise _wrong(text, start, _form(f"an amount such as {_examples(metric)}"))
    if text[found.end() :].strip():
        raise _wrong(
            text, found.end(), f"nothing may follow {text[: found.end()].strip()!r}; one option for each expression"
        )
    return _checked(text, found, Threshold(metric, op, Decimal(found["sign"] + found["number"]), found["unit"],
                                           bool(found["sign"]), strategy))  # fmt: skip


def _checked(text: str, amount: re.Match[str], threshold: Threshold) -> Threshold:
    """Return *threshold* if its unit is one of its metric."""
    units = METRICS[threshold.metric].units
    if threshold.unit in units or (threshold.relative and threshold.unit == PERCENT):
        return threshold
    known = [
        f"{amount['sign']}{amount['number']}{unit}"
        for unit in dict.fromkeys([*units, PERCENT][: len(units) + threshold.relative])
    ]
    what = f"the unit {threshold.unit!r}" if threshold.unit else "no unit"
    raise _wrong(text, amount.start("unit"), f"{threshold.metric} takes {' or '.join(known)}, not {what}")


def _wrong(text: str, at: int, message: str) -> ScenarioError:
    return ScenarioError(f"{text!r}, at character {at + 1}: {message}")


def _form(wanted: str) -> str:
    return f"{wanted} belongs here, as in 'rto_p95>+20%' or 'recovered[cow]<90%'"


def _examples(metric: str) -> str:
    units = METRICS[metric].units
    unit = "s" if "s" in units else "kB" if "kB" in units else next(iter(units))
    return f"'5{unit}', or '+20%' of the last campaign's"


def judge(
    thresholds: Sequence[Threshold], figures: Sequence[StrategyFigures], entries: Sequence[Entry]
) -> tuple[Finding, ...]:
    """Return what became of each of *thresholds* for each strategy that it is about.

    Args:
        figures: of this campaign.
        entries: of the history, oldest first.
    """
    labels = {each.strategy for each in figures}
    found: list[Finding] = []
    for threshold in thresholds:
        asked = [each for each in figures if threshold.means(each.strategy, labels)]
        found += [_judged(threshold, each, history.last(entries, each)) for each in asked]
        if not asked:
            found.append(Finding(threshold, threshold.strategy, False, False, "no such strategy ran"))
    return tuple(found)


def _judged(threshold: Threshold, figures: StrategyFigures, earlier: tuple[Entry, StrategyFigures] | None) -> Finding:
    metric = METRICS[threshold.metric]
    value, before = metric.of(figures), metric.of(earlier[1]) if earlier else None
    limit = threshold.limit(before)
    if value is None:
        why = f"no run had a {threshold.metric}"
    elif limit is None:
        what = "" if earlier is None else f" and had a {threshold.metric}"
        why = f"no earlier campaign in the history did the same work and kept its thresholds{what}"
    else:
        over = OPERATORS[threshold.op](value, limit)
        told = f"{figures.strategy} has {shown(threshold.metric, value)}"
        than = f" (limit {shown(threshold.metric, limit)})" if threshold.relative else ""
        since = (
            f", in {earlier[0].campaign} {shown(threshold.metric, before)}"
            if threshold.relative and earlier and before is not None
            else ""
        )
        return Finding(threshold, figures.strategy, over, not over, f"{threshold}: {told}{since}{than}")
    return Finding(threshold, figures.strategy, False, False, why)


def shown(metric: str, value: float) -> str:
    """Return *value* of *metric* with its unit."""
    units = METRICS[metric].units
    if units is _SHARE:
        return f"{100 * value:.4g} %"
    if units is SECONDS:
        return f"{value:.3f} s"
    return f"{value:.0f} B" if units is BYTES else f"{value:g}"
