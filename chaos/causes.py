"""Which failures are the same one: by strategy, by the promise that broke first, and by what differs first.

From a result alone, no journal is read; so a cause of one campaign can be looked for in another one's.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from chaos.results import RunResult
from chaos.verdict import CellVerdict

ORDER = (
    "corruption",  # nobody noticed: the worst answer
    "streams",
    "fencing",
    "files",
    "processes",
    "environment",
    "goal",
    "recovery",
    "effects",
    "budget",
    "state",
    "retries",
)
"""Of several broken checks the first of these is told: it is the cause of the others, or the worst of them."""

FINISHES = "finishes"
"""Comes first where the agent stopped: what was not done by then is no news, but for damage that was passed on."""

MAX_PLACE = 64
"""Characters of a place: enough for a path; findings cut long values, and where depends on the machine's paths."""

_WORDS = {
    "corruption": "takes damaged data for good",
    "streams": "believes half a reply",
    "fencing": "lets two workers work at once",
    "files": "comes back with other files",
    "processes": "comes back without its processes",
    "environment": "comes back in another environment",
    "goal": "loses its goal",
    "recovery": "does work again",
    "effects": "does not do its effects exactly once",
    "budget": "loses count of its budget",
    "state": "comes back in another state",
    "retries": "pesters the model",
    FINISHES: "does not come to its end",
}

_STOPPED = (CellVerdict.REFUSED, CellVerdict.STUCK)
_PROVES_NOTHING = (CellVerdict.NOT_EXERCISED, CellVerdict.HARNESS_ERROR)

_MORE = re.compile(r" \(and \d+ more\)$")
_DAMAGE = re.compile(r"^silent damage: [^;]*; ")
_VARIES = re.compile(
    r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b"  # a UUID
    r"|\b0x[0-9a-f]+\b|\b(?=[a-f]*\d)[0-9a-f]{8,}\b|\d+(?:\.\d+)*",
    re.IGNORECASE,
)

_EFFECT = r"(?P<name>[\w-]+\.[\w-]+)"
_RULES: tuple[tuple[str, str], ...] = (
    (r"the state at the end differs: (?:it (?:is|differs)|(?P<name>\S+) )", "state $.{name}"),
    (r"the state read back by another process differs: (?:it (?:is|differs)|(?P<name>\S+) )", "stored state $.{name}"),
    (r"the store cannot be read", "stored state"),
    (r"attempt \d+ resumed at step", "state on resume"),
    (r"the prompt of turn \d+ \(attempt \d+\) carries", "goal in the prompt"),
    (r"the prompt of turn", "prompt"),
    (r"the model was never asked for turn", "turns left out"),
    (r"the model was asked for turn", "turns added"),
    (r"the agent left a damaged thread", "stored thread"),
    (r"the git repository (?P<name>\S+) ", "repository {name}"),
    (r"git status differs in (?P<name>\S+)", "repository {name}"),
    (r"process `(?P<name>[^`]*)`?", "process {name}"),
    (r"the shell `(?P<name>[^`]*)`", "shell {name}"),
    (r"`(?P<name>[^`]*)` is in ", "directory of {name}"),
    (r"package (?P<name>\S+) is ", "package {name}"),
    (r"(?P<name>\w+) is (?:not set|set|.* instead of .*) in `", "variable {name}"),
    (rf"{_EFFECT} came before ", "order of effects"),
    (rf"{_EFFECT} (?:happened|never happened|is off the goal|was done)", "effect {name}"),
    (r"(?P<name>.+?) never happened; the goal needs it", "effect {name}"),
    (
        r"(?P<name>.+?) (?:is missing|is extra|was to be delivered|points to|is a (?:folder|link|file) instead)",
        "file {name}",
    ),
    (r"(?P<name>.+?) has (?:wrong content|other content|mode)", "file {name}"),
    (r"\d+ steps? lost", "steps lost"),
    (r"\d+ tokens were paid for again", "tokens asked again"),
    (r"recovery took", "time to recover"),
    (r"the budget was reset", "steps counted"),
    (r"the agent reports no budget", "steps counted"),
    (r"tokens were forgotten", "tokens counted"),
    (r"\d+ model requests were answered; the cap is", "requests beyond the cap"),
    (r"a reply that was (?P<name>[\w ]+?) was taken for", "{name} reply"),
    (r"\d+ steps? committed by two workers", "steps of two workers"),
    (r"asked again \d[\d.]* s after a", "time between retries"),
    (r"retry storm", "time between retries"),
    (r"\d+ requests? of attempt \d+ were refused because (?P<name>[\w ]+)", "retries though {name}"),
    (r"refused to resume: (?:\w+\.)*(?P<name>[A-Za-z_]\w*(?:Error|Exception|Store|Exit|Interrupt))\b", "error {name}"),
    (r"refused to resume", "refused to resume"),
    (r"gave up after", "gave up"),
    (r"did not finish", "did not finish"),
    (r"exited with status 0 and was not done", "ended before it was done"),
)
"""How findings begin, and what is said of each; the first that fits. What none fits is its own place."""
_COMPILED = tuple((re.compile(pattern), words) for pattern, words in _RULES)


@dataclass(frozen=True)
class Cause:
    """What failures have in common. *place*: what differs first, without what varies between runs; "" if unknown."""

    strategy: str
    check: str
    place: str

    @property
    def sentence(self) -> str:
        """The cause in words, the same for the same cause in every campaign."""
        said = f"{self.strategy} {_WORDS.get(self.check, f'breaks {self.check}')}"
        return f"{said}: {self.place}" if self.place else said


def cause(run: RunResult) -> Cause | None:
    """Return why *run* failed; None if it broke no promise, or proves nothing.

    What the scenario allows to break is told only where nothing else broke.
    """
    if run.verdict in _PROVES_NOTHING:
        return None
    check = first_broken([name for name in run.broke if name not in run.expected] or run.broke, run.verdict)
    if not check:
        return None
    verdict = run.checks.get(check)
    return Cause(run.strategy, check, place(verdict.finding) if verdict else "")


def first_broken(broke: Sequence[str], verdict: CellVerdict) -> str:
    """Return which of the checks *broke* stands for all of them; "" for none."""
    if verdict in _STOPPED and "corruption" not in broke:
        return FINISHES
    return next((name for name in ORDER if name in broke), next(iter(broke), ""))


def place(finding: str) -> str:
    """Return what *finding* says to be different, with numbers and what is random or the machine's own as "*"."""
    finding = _DAMAGE.sub("", _MORE.sub("", finding.strip()))
    for pattern, words in _COMPILED:
        if found := pattern.match(finding):
            name = found.groupdict().get("name") or ""
            return normal(words.format(name=name)).removesuffix("$.").rstrip()
    return normal(finding.split(" (attempt ")[0].split("; ")[0])


def normal(text: str) -> str:
    """Return *text* without what differs between machines and runs, cut to MAX_PLACE characters at a word."""
    words = [PurePosixPath(word).name or word if word.startswith("/") else word for word in text.split()]
    said = _VARIES.sub("*", " ".join(words)).rstrip("…")
    return said if len(said) <= MAX_PLACE else said[:MAX_PLACE].rsplit(" ", 1)[0]
