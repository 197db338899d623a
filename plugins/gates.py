"""What decides beside the verdicts whether a campaign passes: known failures, thresholds, a budget of time.

All of it is judged once, by the process that the user started, when all cells are done; then the campaign's line is
added to the history.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from chaos import baseline, causes, history, judge, thresholds
from chaos.budget import UNLIMITED, Budget
from chaos.errors import HarnessError, ScenarioError
from chaos.plugins.settings import Settings
from chaos.reports.evidence import Journals
from chaos.reports.text import listing, plural
from chaos.results import Campaign
from chaos.thresholds import Threshold

READ_JOURNALS = 1000  # for counting duplicate effects: a few milliseconds each
COMMITS = ("GITHUB_SHA", "CI_COMMIT_SHA", "GIT_COMMIT")
"""Where CI systems (GitHub, GitLab, Jenkins) say which commit they test."""
MOST = 10  # known failures that are named if they did not happen


@dataclass(frozen=True)
class Closing:
    """What the gates say at the end. *failed*: the campaign does not pass; *lines* say why, and what proved nothing."""

    failed: bool = False
    lines: tuple[str, ...] = ()
    over: tuple[str, ...] = ()


@dataclass
class _Said:
    """What is collected on the way."""

    failed: bool = False
    lines: list[str] = field(default_factory=list)
    over: list[str] = field(default_factory=list)


def read(settings: Settings) -> tuple[Budget, baseline.Baseline | None]:
    """Return budget and baseline of this campaign; ScenarioError for a file that is none."""
    known = baseline.read(Path(settings.baseline), learns=settings.learn) if settings.baseline else None
    return (Budget(settings.budget, settings.ends) if settings.budget else UNLIMITED), known


def close(campaign: Campaign, settings: Settings, *, seconds: float, processes: int, ended: bool) -> Closing:
    """Judge *campaign*, write the baseline if that is wanted, and add its line to the history.

    Args:
        seconds: that its cells took.
        processes: that ran them at the same time.
        ended: it was not interrupted; else nothing is written.
    """
    folder = Path(settings.folder)
    said, wanted = _Said(), [thresholds.parse(text) for text in settings.fail_on]
    duplicates = _duplicates(campaign, folder) if ended or any(each.metric == "duplicates" for each in wanted) else {}
    figures = history.figures(campaign, duplicates)
    _thresholds(said, wanted, figures, campaign, settings)
    _baseline(said, campaign, settings, ended)
    _budget(said, campaign, settings)
    if ended and settings.history and any(not cell.skipped for cell in campaign.cells):
        line = history.entry(
            campaign,
            commit=_commit(Path.cwd()),
            duplicates=duplicates,
            broken=_broken(campaign),
            over=said.over,
            seconds=seconds,
            processes=processes,
        )
        try:
            history.append(Path(settings.history), line)
        except HarnessError as error:
            said.lines.append(str(error))
    return Closing(said.failed, tuple(said.lines), tuple(said.over))


def _thresholds(
    said: _Said,
    wanted: Sequence[Threshold],
    figures: Sequence[history.StrategyFigures],
    campaign: Campaign,
    settings: Settings,
) -> None:
    try:
        entries = history.read(Path(settings.history)) if wanted and settings.history else ()
    except HarnessError as error:
        said.failed = True
        said.lines.append(str(error))
        return
    found = thresholds.judge(wanted, figures, entries)
    over, kept = [each for each in found if each.over], [each for each in found if each.kept]
    said.failed = said.failed or bool(over)
    said.over += [str(each.threshold) for each in over]
    said.lines += [f"over the threshold: {each.sentence}" for each in over]
    if kept:
        said.lines.append(f"{plural(len(kept), 'threshold')} kept")
    void: dict[tuple[str, str], list[str]] = {}
    for each in found:
        if not each.over and not each.kept:
            void.setdefault((str(each.threshold), each.sentence), []).append(each.strategy)
    said.lines += [f"{threshold} proves nothing for {listing(who)}: {why}" for (threshold, why), who in void.items()]


def _baseline(said: _Said, campaign: Campaign, settings: Settings, ended: bool) -> None:
    if not settings.baseline:
        return
    known = baseline.read(Path(settings.baseline), learns=settings.learn)
    if settings.learn and ended:
        learned = known.learned(campaign.cells, campaign.runs)
        known.path.parent.mkdir(parents=True, exist_ok=True)
        known.path.write_text(learned.text(), encoding="utf-8")
        said.lines.append(f"baseline: {plural(len(learned.known), 'known failure')} written to {settings.baseline}")
        return
    accepted = sum(bool(cell.known) for cell in campaign.cells)
    said.lines.append(f"baseline: {plural(accepted, 'cell')} failed only as {settings.baseline} says")
    if gone := known.gone(campaign.cells, campaign.runs):
        what = "they are" if gone[1:] else "it is"
        names = "; ".join(map(str, gone[:MOST])) + (f"; and {len(gone) - MOST} more" if gone[MOST:] else "")
        said.lines.append(f"baseline: did not happen any more: {names}. If {what} fixed, remove it from the baseline")
        said.failed = said.failed or known.strict


def _budget(said: _Said, campaign: Campaign, settings: Settings) -> None:
    budget = Budget(settings.budget, settings.ends)
    if settings.budget and budget.spent and campaign.unjudged:
        judged = {cell.key for cell in campaign.cells if not cell.missing}
        names = [f"{cell.strategy} x {cell.fault}" for cell in campaign.plan if cell.here and cell.key not in judged]
        said.failed = True
        said.lines.append(
            f"{budget}: {campaign.unjudged} of {campaign.planned} cells were not judged"
            + (f": {listing(list(dict.fromkeys(names)))}" if names else "")
        )


def _broken(campaign: Campaign) -> Iterable[str]:
    """Return the causes of what broke and was neither expected nor known."""
    known = {cell.key for cell in campaign.cells if cell.known}
    for run in campaign.runs:
        if run.key not in known and judge.unexpected(run) and (cause := causes.cause(run)):
            yield cause.sentence


def _duplicates(campaign: Campaign, folder: Path) -> dict[str, int]:
    """Return the duplicate effects of each strategy, of those all of whose journals can be read."""
    journals, found, unknown = Journals(folder), dict[str, int](), set[str]()
    for number, run in enumerate(campaign.runs):
        count = journals.duplicates(run) if number < READ_JOURNALS else None
        if count is None and run.landed:
            unknown.add(run.strategy)
        found[run.strategy] = found.get(run.strategy, 0) + (count or 0)
    return {strategy: count for strategy, count in found.items() if strategy not in unknown}


def _commit(folder: Path) -> str:
    """Return the commit of the project in *folder*; "" if there is none."""
    if given := next((os.environ[name] for name in COMMITS if os.environ.get(name)), ""):
        return given
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        done = subprocess.run(
            ("git", "rev-parse", "HEAD"), cwd=folder, capture_output=True, text=True, timeout=5, check=True
        )
        return done.stdout.strip()
    return ""


def usage(settings: Settings) -> None:
    """Raise UsageError for an expression, or a file, that makes no sense."""
    try:
        for text in settings.fail_on:
            thresholds.parse(text)
    except ScenarioError as error:
        raise pytest.UsageError(f"--chaos-fail-on: {error}") from None
    if settings.learn and not settings.baseline:
        raise pytest.UsageError("--chaos-write-baseline: name the file with --chaos-baseline FILE")
    try:
        read(settings)
    except ScenarioError as error:
        raise pytest.UsageError(f"--chaos-baseline: {error}") from None
