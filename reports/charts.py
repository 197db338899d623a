"""The four charts of costs, each with its numbers: recovery time, lost steps, tokens, bytes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from chaos.growth import Fit
from chaos.history import percentile
from chaos.reports import curves
from chaos.reports.curves import Bar
from chaos.reports.numbers import Costs
from chaos.reports.picture import Chart, Table
from chaos.reports.text import number, plural, seconds, size

_MILLION = 1e6


def charts(found: Sequence[Costs], exponents: Mapping[str, Fit | None], price: float) -> tuple[Chart, ...]:
    """Return the charts of what was *found*.

    Args:
        exponents: how stored bytes grow, by strategy, as far as that is known.
        price: USD for a million tokens; 0: nothing is said of money.
    """
    return (*_recovery(found), _lost(found), _tokens(found, price), _bytes(found, exponents))


def money(tokens: float, price: float) -> str:
    """Return what so many *tokens* cost at *price* USD for a million, with two digits that mean something."""
    usd = tokens * price / _MILLION
    return f"${usd:,.2f}" if usd >= 1 or not usd else f"${usd:.2g}" if usd >= 0.0001 else "under $0.0001"


def _recovery(found: Sequence[Costs]) -> tuple[Chart, ...]:
    timed = [each for each in found if each.rto or each.away]
    if not timed:
        return ()
    rows = []
    for each in timed:
        split = each.split
        parts = (split.detect, split.restart, split.load, split.replay) if split else (None,) * 4
        quantiles = (percentile(each.rto, 0.5), percentile(each.rto, 0.95), each.rto[-1] if each.rto else None)
        back = f"{len(each.rto)} of {len(each.rto) + each.away}"
        rows.append((each.strategy, back, *map(seconds, quantiles), *map(seconds, parts)))
    chart = Chart(
        name="Time to recover",
        about="RTO: share of crashes after which the agent was where it had been, within so long",
        pictures=curves.recovery(found),
        key=(),
        table=Table(
            name="Time to recover, by strategy",
            head=(
                "strategy",
                "came back",
                "half within",
                "95 % within",
                "longest",
                "detect",
                "restart",
                "load",
                "replay",
            ),
            rows=tuple(rows),
            note="Detect, restart, load and replay are the parts of the run with the median time.",
        ),
        notes=("A curve that ends below 100 % is of a strategy that sometimes never came back.",)
        if any(each.away for each in timed)
        else (),
    )
    return (chart,)


def _lost(found: Sequence[Costs]) -> Chart:
    rows = tuple(
        (each.strategy, str(each.runs), str(each.rpo.count(0)), number(percentile(each.rpo, 0.5)),
         number(percentile(each.rpo, 0.95)), str(each.rpo[-1]))
        for each in found
    )  # fmt: skip
    return Chart(
        name="Steps lost",
        about="RPO: a dot for each number of steps that runs had to do again, as large as there are runs",
        pictures=(curves.lost_steps(found),),
        key=(("swatch-median", "median"),),
        table=Table(
            "Steps lost, by strategy",
            ("strategy", "runs", "lost none", "half lost at most", "95 % at most", "worst"),
            rows,
        ),
    )


def _tokens(found: Sequence[Costs], price: float) -> Chart:
    bars, rows = [], []
    for each in found:
        share = each.wasted / each.tokens if each.tokens else 0.0
        said = f"{number(round(each.wasted))} wasted, {share:.1%}"
        parts = (("full", each.useful), ("striped", each.asked_again), ("hollow", each.retried))
        bars.append(Bar(each.strategy, f"{said}, {money(each.wasted, price)}" if price else said, parts))
        counts = (each.useful, each.asked_again, each.retried)
        paid = (money(each.tokens, price), money(each.wasted, price), money(each.wasted * each.runs, price))
        rows.append(
            (each.strategy, *(number(round(count)) for count in counts), f"{share:.1%}", *(paid if price else ()))
        )
    head = ("strategy", "useful", "asked again", "retried", "wasted")
    priced = ("a run costs", "of it wasted", "wasted in all runs")
    return Chart(
        name="Tokens",
        about="of a run in the mean: useful once, asked again for an answer already given, retried in refused requests",
        pictures=(curves.bars("tokens", "Tokens of a run, by strategy", bars),),
        key=(("swatch-full", "useful"), ("swatch-striped", "asked again"), ("swatch-hollow", "retried")),
        table=Table("Tokens of a run in the mean, by strategy", (*head, *(priced if price else ())), tuple(rows)),
        notes=(f"In money at {price:g} USD per million tokens.",)
        if price
        else ("In money with pytest-chaos report --price USD, the price of a million tokens.",),
    )


def _bytes(found: Sequence[Costs], exponents: Mapping[str, Fit | None]) -> Chart:
    bars, rows = [], []
    for each in found:
        fit = exponents.get(each.strategy)
        grown = f"N^{fit.exponent:.2f}" if fit else "–"
        said = f"{size(each.stored)} stored, {size(each.written)} written"
        stored = min(each.stored or 0.0, each.written or 0.0)
        bars.append(Bar(each.strategy, said, (("full", stored), ("hollow", (each.written or 0.0) - stored))))
        rows.append((each.strategy, size(each.stored), size(each.written), grown))
    return Chart(
        name="Bytes per step",
        about="stored at the end, and written on the way, by the steps that were done; medians of all runs",
        pictures=(curves.bars("bytes", "Bytes per step, by strategy", bars),),
        key=(("swatch-full", "stored at the end"), ("swatch-hollow", "written besides")),
        table=Table(
            "Bytes per step, by strategy", ("strategy", "stored", "written", "stored grows with"), tuple(rows),
            note=f"N is the number of steps; {plural(len(exponents), 'strategy', 'strategies')} could be fitted.",
        ),
    )  # fmt: skip
