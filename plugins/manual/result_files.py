"""The page on the files of a campaign, from the structs that are written and the comments beside their fields."""

from __future__ import annotations

import inspect
import re
import tokenize
from collections.abc import Iterator
from io import StringIO

import msgspec

from chaos import causes, history, results, shards, verdict
from chaos.plugins.manual.markdown import code, document, prose, sentence, table

FILES: tuple[tuple[str, tuple[type[msgspec.Struct], ...]], ...] = (
    (
        f"`{results.RUNS}`: one for each run, appended as the run ends",
        (results.RunResult, results.Landed, verdict.Verdict, results.RecoveryTime, results.Tokens, results.Storage),
    ),
    (
        f"`{results.CELLS}`: one for each cell, or each part of one, when its runs are done",
        (results.CellResult, results.Minimal, results.Expects),
    ),
    (f"`{results.CAMPAIGN}`: one", (results.CampaignInfo, shards.Shard)),
    (f"`{results.PLANNED}`: one", (shards.Planned, shards.PlannedCell)),
    ("The history: one for each campaign, appended at its end", (history.Entry, history.StrategyFigures)),
)

MEANINGS = {
    "v": "version of the format, 1",
    "campaign": "name of the campaign",
    "scenario": "name of the scenario",
    "strategy": "label of the strategy",
    "fault": "label of the fault",
    "run": "number of the run in its cell, from 0",
    "RunResult.seed": "seed of the run, derived from the base seed and the names before it",
    "RunResult.how": "how the run was made: `killed` (from its start, broken for real), `derived` (from a captured "
    "crash state), `equal` (its crash state equals that of the plan in `like`, which was run)",
    "RunResult.plan": "the faults of the run in text form, as in `kill@17/after_act`",
    "RunResult.planned": "how many faults were to hit",
    "RunResult.landed": "the faults that hit, each with its proof",
    "RunResult.checks": "name of each check to what it concluded",
    "RunResult.verdict": "what the run amounts to",
    "RunResult.because": "why they may fail",
    "RunResult.attempts": "incarnations of the agent",
    "RunResult.steps": "steps that were done",
    "RunResult.rpo_steps": "steps that had to be done again",
    "RunResult.rto_seconds": "how long recovery took; none if nothing was lost",
    "RunResult.tokens": "counted as a quarter of the UTF-8 bytes",
    "RunResult.storage": "what was stored and written",
    "RunResult.seconds": "wall time of the run",
    "RunResult.error": "what went wrong in the harness",
    "RunResult.replay": "the command that runs it again",
    "useful": "tokens paid for once, as without a crash",
    "asked_again": "tokens of answers that were given before in the run",
    "retried": "tokens of requests that were refused",
    "stored": "bytes in the durable zone at the end",
    "written": "bytes that the agent's process wrote on the way",
    "Landed.at": "the point, as in `17/after_act`",
    "Landed.how": "what happened, in words",
    "outcome": "0 pass, 1 unknown, 2 fail",
    "finding": "what broke and where, in one sentence",
    "details": "lines that prove it",
    "detect": "until the supervisor saw that the agent had ended",
    "restart": "until the next incarnation announced itself",
    "load": "until it had read its store",
    "replay": "until it was where it had been",
    "Minimal.replay": "the command that runs it",
    "Minimal.verdict": "as that run's",
    "Minimal.check": "as it broke in that run",
    "Minimal.case": "the faults, and the number of the run whose randomness it uses",
    "CellResult.verdict": "the worst of its runs",
    "CellResult.runs": "how many were made",
    "CellResult.planned": "faults that were to hit, in all runs",
    "CellResult.landed": "of these, how many did",
    "parts": "how many parts the cell was divided into",
    "part": "which of them it is, from 1",
    "breaks": "checks that must fail in some run",
    "may_break": "checks that may fail",
    "because": "why",
    "seed": "base seed of the campaign",
    "began": "when it began: ISO 8601, UTC",
    "command": "the arguments of pytest",
    "host": "name of the machine",
    "shard": "which group of `--splits` it was",
    "Shard.cells": "how many it was to run",
    "cells": "the cells, or their parts",
    "Entry.cells": "how many were judged",
    "order": "place in the campaign",
    "StrategyFigures.runs": "in which a fault landed",
    "recovered": "runs of these that kept every promise",
    "rpo_p50": "steps that had to be done again",
    "rpo_p95": "the same, 95th percentile",
    "rto_p50": "seconds to recover",
    "rto_p95": "the same, 95th percentile",
    "strategies": "figures of each strategy",
}
"""What fields mean whose source has no comment: by `Struct.field`, or by the field where it is the same everywhere."""

INTRODUCTION = """\
A campaign leaves these files, `report.html` and a journal for each run in `.chaos`, or where `--chaos-results` says.
Each object of a `.jsonl` file is one line of JSON, written at once: an interrupted campaign keeps what it has. The
format is version 1. Readers ignore fields that they do not know; a field is never given a new meaning."""


def page() -> str:
    """Return the page."""
    sections = [section for title, structs in FILES for section in (f"## {title}", *map(_struct, structs))]
    return document("Results", INTRODUCTION, *sections, "## Verdicts", _verdicts())


def _struct(struct: type[msgspec.Struct]) -> str:
    rows = [
        (code(each.name), code(_type(struct, each.name)), _default(each), sentence(prose(meaning(struct, each.name))))
        for each in msgspec.structs.fields(struct)
    ]
    shown = table(("field", "type", "default", "meaning"), rows)
    return f"### {struct.__name__}\n\n{prose(struct.__doc__ or '')}\n\n{shown}"


def meaning(struct: type[msgspec.Struct], name: str) -> str:
    """Return what the field *name* of *struct* means; what its docstring says of it, if nothing else does."""
    own = f"{struct.__name__}.{name}"
    if own in MEANINGS:
        return MEANINGS[own]
    if said := comments(struct).get(name):
        return said
    told = [part for part in re.split(r"[;.:]\s", prose(struct.__doc__ or "")) if f"`{name}`" in part]
    return MEANINGS.get(name) or (" ".join(told[0].split()) if told else "")


def _type(struct: type[msgspec.Struct], name: str) -> str:
    return str(struct.__annotations__[name])


def _default(field: msgspec.structs.FieldInfo) -> str:
    if isinstance(field.default, msgspec.Struct):
        return ""  # whose fields have their own defaults
    if field.default is not msgspec.NODEFAULT:
        return code(repr(field.default) if not isinstance(field.default, str) else f'"{field.default}"')
    return code(repr(field.default_factory())) if field.default_factory is not msgspec.NODEFAULT else ""


def comments(struct: type) -> dict[str, str]:
    """Return what the source of *struct* says of its fields: behind each, or in whole lines of comment before it."""
    found: dict[str, str] = {}
    before: list[str] = []
    for line, remark in _lines(inspect.getsource(struct)):
        name = re.match(r" {4}(\w+):", line)
        if name and (said := remark or " ".join(before)):
            found[name[1]] = said
        before = [*before, remark] if remark and not line.strip() else []
    return found


def _lines(source: str) -> Iterator[tuple[str, str]]:
    """Yield each line of *source* without its comment, and the comment."""
    remarks = {
        token.start[0]: (token.start[1], token.string.lstrip("# "))
        for token in tokenize.generate_tokens(StringIO(source).readline)
        if token.type == tokenize.COMMENT
    }
    for number, line in enumerate(source.splitlines(), 1):
        column, remark = remarks.get(number, (len(line), ""))
        yield line[:column], remark


def _verdicts() -> str:
    said = dict(re.findall(r'= "([^"]+)"  # (.+)', inspect.getsource(verdict.CellVerdict)))
    rows = [(code(each), sentence(said.get(each, ""))) for each in verdict.CellVerdict]
    return f"From best to worst; the worst run is its cell's.\n\n{table(('verdict', 'meaning'), rows)}\n\n{_cause()}"


def _cause() -> str:
    return f"## Cause\n\n{prose(causes.Cause.__doc__ or '')}"
