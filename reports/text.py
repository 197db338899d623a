"""Numbers, lists and evidence in words, and the mask that keeps secrets out of reports."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterable, Mapping, Sequence
from statistics import median

from chaos.results import Landed
from chaos.shards import Shard

SHOWN_CHARACTERS = 400  # of one line; longer ones are blobs that nobody reads in a report
MASK = "•••"

_SECRET = r"(?:token|secret|password|authorization|api[_-]?key)"
_KEY = re.compile(_SECRET, re.IGNORECASE)
# {0,40}: names of variables are short, and an unbounded prefix would be quadratic in a long hex line.
_NAME = rf"[\w.-]{{0,40}}{_SECRET}[\w.-]{{0,40}}"
# A closing quote is optional: a line may have been cut in the middle of the value.
_VALUE = r"""\\?"[^"\n]*"?|'[^'\n]*'?|(?:Bearer|Basic)\s+[^\s"']+|[^\s,;&}\])"']+"""
_ASSIGNED = re.compile(
    rf"""(?P<name>{_NAME})(?P<between>\\?["']?\s*[:=]\s*)(?P<value>{_VALUE})""",
    re.IGNORECASE,
)
_OPTION = re.compile(rf"(?P<name>--?{_NAME})\s+(?P<value>[^\s-]\S*)", re.IGNORECASE)
_BARE = re.compile(r"(?P<start>\b(?:Bearer|Basic)\s+|\bsk-|://[^\s/:@]{1,80}:)(?P<value>[\w.+/=-]{6,})", re.IGNORECASE)


def mask(text: str) -> str:
    """Return *text* with the value of everything that is named like a secret replaced."""
    if _KEY.search(text):
        text = _ASSIGNED.sub(_masked, text)
        text = _OPTION.sub(rf"\g<name> {MASK}", text)
    return _BARE.sub(rf"\g<start>{MASK}", text)


def _masked(found: re.Match[str]) -> str:
    if "tokens" in found["name"].lower() and found["value"].isdigit():
        return found[0]  # "tokens: 1300" counts what the model was paid for
    return f"{found['name']}{found['between']}{MASK}"


def mask_value(name: str, value: str) -> str:
    """Return *value*, or the mask if *name* is that of a secret."""
    if _KEY.search(name) and not ("tokens" in name.lower() and value.isdigit()):
        return MASK
    return mask(value)


def made(shards: Sequence[Shard]) -> str:
    """Return what a campaign was merged from: how many shards, of how many machines, and their seeds if they differ."""
    seeds = sorted({shard.seed for shard in shards})
    told = f"{plural(len(shards), 'shard')} ({plural(len({shard.host for shard in shards}), 'machine')})"
    return f"{told} with the seeds {', '.join(map(str, seeds))}" if len(seeds) > 1 else told


def clip(text: str, characters: int = SHOWN_CHARACTERS) -> str:
    """Return *text* cut to *characters*, saying how much was cut."""
    cut = len(text) - characters
    return text if cut <= 0 else f"{text[:characters]}… (+{cut} characters)"


def seconds(value: float | None) -> str:
    """Return a duration with two digits that mean something; a dash for none."""
    if value is None:
        return "–"
    if value < 0.1:
        return f"{value * 1000:.0f} ms"
    return f"{value:.2f} s" if value < 1 else f"{value:.1f} s" if value < 10 else f"{value:.0f} s"


def number(value: float | None) -> str:
    """Return a count with thousands apart, and the half of a median where it matters; a dash for none."""
    if value is None:
        return "–"
    return f"{value:.1f}" if value != int(value) and value < 100 else f"{value:,.0f}".replace(",", " ")


def size(value: float | None) -> str:
    """Return bytes in decimal units; a dash for none."""
    if value is None:
        return "–"
    units = ["B", "kB", "MB", "GB", "TB"]
    while value >= 1000 and len(units) > 1:
        value /= 1000
        units.pop(0)
    unit = units[0]
    return f"{value:.0f} {unit}" if unit == "B" or value >= 100 else f"{value:.1f} {unit}"


def megabytes(value: float | None) -> str:
    """Return bytes in megabytes where that is at least one, so that large ones can be compared; a dash for none."""
    if value is None or value < 1e6:
        return size(value)
    return f"{value / 1e6:,.1f} MB".replace(",", "\u202f")


def middle(values: Iterable[float]) -> float | None:
    """Return the median of *values*, None without any."""
    known = list(values)
    return float(median(known)) if known else None


def moment(began: str) -> str:
    """Return a time in ISO 8601 as people read it, to the minute."""
    found = _MOMENT.match(began)
    return f"{found[1]} {found[2]} UTC" if found else began


_MOMENT = re.compile(r"(\d{4}-\d\d-\d\d)T(\d\d:\d\d)(?::\d\d(?:\.\d+)?)?(?:Z|\+00:00)$")


def plural(count: int, one: str, many: str = "") -> str:
    """Return "1 loss", "2 losses"."""
    return f"{number(count)} {one if count == 1 else many or one + 's'}"


def listing(words: Sequence[str], most: int = 3) -> str:
    """Return "a, b and c", or "a, b, c and 4 more"."""
    if len(words) > most + 1:  # "and 1 more" would be longer than the word itself
        return f"{', '.join(words[:most])} and {len(words) - most} more"
    return " and ".join([", ".join(words[:-1]), words[-1]]) if len(words) > 1 else "".join(words)


def ranges(numbers: Iterable[int], most: int = 6) -> str:
    """Return whole *numbers* as "0–4, 7 and 9", and of more stretches than *most* how many; a dash for none."""
    found: list[list[int]] = []
    for number in sorted(set(numbers)):
        if found and number == found[-1][1] + 1:
            found[-1][1] = number
        else:
            found.append([number, number])
    return listing([str(first) if first == last else f"{first}–{last}" for first, last in found], most) or "–"


def slug(text: str) -> str:
    """Return *text* as a part of an anchor."""
    return re.sub(r"[^A-Za-z0-9_]+", "-", text).strip("-") or "x"


def anchor(wanted: str, taken: set[str]) -> str:
    """Return the id of a section, *wanted* or with a number behind it, that is not among those *taken*; it is then."""
    free, count = wanted, 1
    while free in taken:
        count += 1
        free = f"{wanted}-{count}"
    taken.add(free)
    return free


def wait_status(status: int) -> str:
    """Return a wait status in words: "-9 (SIGKILL)" or "1"."""
    try:
        return f"{status} ({signal.Signals(-status).name})" if status < 0 else str(status)
    except ValueError:
        return str(status)


def evidence(found: Mapping[str, str | int | float]) -> str:
    """Return the proof of a landed fault in words: "status -9 (SIGKILL), oom_kill 0 → 1, 429 × 3"."""
    parts: list[str] = []
    for name, value in found.items():
        stem = name.removesuffix("_before").removesuffix("_after")
        before, after = f"{stem}_before", f"{stem}_after"
        if before in found and after in found:
            if name == before:
                parts.append(f"{_spoken(stem)} {_shown(stem, value)} → {_shown(stem, found[after])}")
        elif name == "status" and isinstance(value, int):
            parts.append(f"status {wait_status(value)}")
        elif served := _SERVED.fullmatch(name):
            parts.append(f"{served['status']} × {value}")
        else:
            parts.append(f"{_spoken(name)} {_shown(name, value)}")
    return ", ".join(parts)


def proved(landed: Landed) -> str:
    """Return how a fault landed and what proves it."""
    return ": ".join(part for part in (landed.how, evidence(landed.evidence)) if part)


_SERVED = re.compile(r"(?:\w+_)?(?P<status>[1-5]\d\d)")  # "refused_429": an HTTP status and how often it was served
_LONG_DIGEST = re.compile(r"\b([0-9a-f]{12})[0-9a-f]{4,}\b")


def _spoken(name: str) -> str:
    """Return a key as words; `oom_kill` is the name of the kernel's counter."""
    return name if name == "oom_kill" else name.removesuffix("_bytes").removesuffix("_seconds").replace("_", " ")


def _shown(name: str, value: str | int | float) -> str:
    if isinstance(value, str):
        return clip(_LONG_DIGEST.sub(r"\1…", mask_value(name, value)).replace(" -> ", " → "), 120)
    if name.endswith("_bytes"):
        return size(value)
    if name.endswith("_seconds"):
        return seconds(value)
    return str(value) if isinstance(value, int) else f"{value:.3g}"
