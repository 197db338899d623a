"""What the checks share: differences in words, and the reasons for which nothing can be compared."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from chaos.verdict import PASS, Verdict, fail, unknown

if TYPE_CHECKING:
    from chaos.events.seen import Observation
    from chaos.mask import Json
    from chaos.record import Record

MAX_DETAILS = 40
"""Lines below a finding: a screenful; whoever needs more has the journal."""

MAX_TEXT = 80
"""Characters of one value inside a sentence: it must stay a sentence."""

MAX_LINE = 160
"""Characters of one line of a diff: a message of the model may be pages long."""

DIFF_WINDOW = 400
"""Lines compared behind the first difference: a diff of whole conversations takes seconds and is cut anyway."""

DID_NOT_FINISH = unknown("the agent did not finish")


@dataclass(frozen=True)
class Difference:
    """One thing that is not as in the reference: a sentence, and lines that prove it."""

    finding: str
    details: tuple[str, ...] = ()


def verdict(differences: Sequence[Difference]) -> Verdict:
    """Return PASS for no difference, else a failure that tells the first and lists them all."""
    if not differences:
        return PASS
    first, more = differences[0], len(differences) - 1
    if not more:
        return fail(first.finding, limited(first.details))
    lines = [line for one in differences for line in (one.finding, *(f"  {detail}" for detail in one.details))]
    return fail(f"{first.finding} (and {more} more)", limited(lines))


def limited(lines: Iterable[str], limit: int = MAX_DETAILS) -> tuple[str, ...]:
    """Return at most *limit* of *lines* and, if some are left out, a line that says how many."""
    kept = [line if len(line) <= MAX_LINE else line[: MAX_LINE - 1] + "…" for line in lines]
    return tuple(kept) if len(kept) <= limit else (*kept[:limit], f"… {len(kept) - limit} more lines")


def short(text: str) -> str:
    """Return *text* fit for a sentence."""
    return text if len(text) <= MAX_TEXT else text[: MAX_TEXT - 1] + "…"


def times(count: int) -> str:
    """Return *count* in words: "not at all", "once", "3 times"."""
    return {0: "not at all", 1: "once"}.get(count, f"{count} times")


def counted(count: int, noun: str) -> str:
    """Return *count* with its *noun*: "1 step", "2 steps"."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def unfinished(run: Record) -> Verdict | None:
    """Return why the end of *run* cannot be compared; None if it can."""
    return None if run.finished or run.final_observation is not None else DID_NOT_FINISH


def final_observations(run: Record, reference: Record) -> tuple[Observation, Observation] | Verdict:
    """Return both runs' ends as seen from outside, or why they cannot be compared."""
    if reference.final_observation is None:
        return unknown("the reference was not observed at its end")
    if run.final_observation is None:
        return unfinished(run) or unknown("the run was not observed at its end")
    return run.final_observation, reference.final_observation


def living_observations(run: Record, reference: Record) -> tuple[Observation, Observation] | Verdict:
    """Return both runs' ends as seen while the agent stood there, or why they cannot be compared."""
    seen = final_observations(run, reference)
    if not isinstance(seen, Verdict) and not reference.came_to_end:
        return unknown("the agent announces no end: it had exited when it was looked at, with all of its processes")
    return seen


def canonical(value: Json) -> str:
    """Return the one text of a JSON value: 1, 1.0 and true are three, the order of keys is nothing."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def first_difference(value: Json, reference: Json, path: str = "") -> tuple[str, str] | None:
    """Return the path at which *value* first departs from *reference*, and how in words; None if they are equal."""
    if isinstance(value, dict) and isinstance(reference, dict):
        for key in sorted(value.keys() | reference.keys()):
            where = f"{path}.{key}" if path else key
            if key not in value or key not in reference:
                return where, "is extra" if key in value else "is missing"
            if found := first_difference(value[key], reference[key], where):
                return found
        return None
    if isinstance(value, list) and isinstance(reference, list):
        for index, (one, other) in enumerate(zip(value, reference, strict=False)):
            if found := first_difference(one, other, f"{path}[{index}]"):
                return found
        if len(value) == len(reference):
            return None
        shorter = min(len(value), len(reference))
        return f"{path}[{shorter}]", "is extra" if len(value) > shorter else "is missing"
    if isinstance(value, str) and value == reference:  # nearly all of them
        return None
    one, other = canonical(value), canonical(reference)
    return None if one == other else (path, f"is {short(one)} instead of {short(other)}")


def _lines(value: Json) -> list[str]:
    """Return the lines of a JSON value as people read it; json writes lines thirty times as slowly."""
    try:
        return msgspec.json.format(msgspec.json.encode(value, order="sorted"), indent=1).decode().splitlines()
    except UnicodeEncodeError:  # half of a surrogate pair
        return json.dumps(value, sort_keys=True, indent=1, ensure_ascii=False).splitlines()


def json_diff(value: Json, reference: Json) -> tuple[str, ...]:
    """Return a short diff from *reference* to *value*, as people read JSON, from their first difference on."""
    one, other = _lines(value), _lines(reference)
    same = next((n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
    begin = max(0, same - 1)  # a line of context
    right, wrong = (lines[begin : begin + DIFF_WINDOW] for lines in (other, one))
    lines = difflib.unified_diff(right, wrong, "reference", "run", n=1, lineterm="")
    return limited(line for line in lines if not line.startswith("@@"))  # its numbers are of the window
