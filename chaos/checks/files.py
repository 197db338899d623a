"""Are the files what they would have been?"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from chaos.checks import Terms
from chaos.checks._diff import Difference, counted, final_observations, verdict
from chaos.verdict import Verdict

if TYPE_CHECKING:
    from chaos.events.seen import FileEntry, Observation, Repository
    from chaos.record import Record
    from chaos.targets import Facts

_COMMIT = 10  # digits of a commit in a sentence: git itself shows no more
_KINDS = {"dir": "a folder", "link": "a link", "file": "a file"}


@dataclass(frozen=True)
class Files:
    """At the end every file, folder, link, mode and git repository is as in the crash-free run, and none is extra."""

    def check(self, run: Record, reference: Record, terms: Terms, facts: Facts) -> Verdict:
        seen = final_observations(run, reference)
        return seen if isinstance(seen, Verdict) else verdict(differences(*seen))


def differences(seen: Observation, reference: Observation) -> list[Difference]:
    """Return what is missing, changed and extra, in this order: what was lost explains the rest."""
    if seen.files == reference.files and seen.repositories == reference.repositories:
        return []
    files, expected = ({entry.path: entry for entry in each.files} for each in (seen, reference))
    both = sorted(files.keys() & expected.keys())
    return [
        *(Difference(f"{path} is missing") for path in sorted(expected.keys() - files.keys())),
        *(Difference(f"{path} {how}") for path in both if (how := _changed(files[path], expected[path]))),
        *(Difference(f"{path} is extra") for path in sorted(files.keys() - expected.keys())),
        *_repositories(seen, reference),
    ]


def _changed(entry: FileEntry, expected: FileEntry) -> str:
    """Say how *entry* differs, "" if not. Sizes are not compared: the sandbox's own path is masked in digests only."""
    if entry.kind != expected.kind:
        return f"is {_KINDS.get(entry.kind, entry.kind)} instead of {_KINDS.get(expected.kind, expected.kind)}"
    if entry.target != expected.target:
        return f"points to {entry.target} instead of {expected.target}"
    if entry.digest != expected.digest:
        return f"has other content ({entry.size} bytes instead of {expected.size})"
    return f"has mode {entry.mode:04o} instead of {expected.mode:04o}" if entry.mode != expected.mode else ""


def _repositories(seen: Observation, reference: Observation) -> Iterator[Difference]:
    here, expected = ({one.path: one for one in each.repositories} for each in (seen, reference))
    for path in sorted(here.keys() | expected.keys()):
        if path not in here or path not in expected:
            yield Difference(f"the git repository {path} is {'extra' if path in here else 'missing'}")
        else:
            yield from _repository(here[path], expected[path])


def _repository(here: Repository, expected: Repository) -> Iterator[Difference]:
    if here.log != expected.log:
        count, wanted = len(here.log), len(expected.log)
        what = f"has {counted(count, 'commit')} instead of {wanted}" if count != wanted else "has another history"
        yield Difference(f"the git repository {here.path} {what}", _lines(here.log, expected.log))
    elif here.head != expected.head:
        heads = (head[:_COMMIT] or "no commit" for head in (here.head, expected.head))
        yield Difference(f"the git repository {here.path} stands at {' instead of '.join(heads)}")
    if here.status != expected.status:
        yield Difference(f"git status differs in {here.path}", _lines(here.status, expected.status))


def _lines(here: tuple[str, ...], expected: tuple[str, ...]) -> tuple[str, ...]:
    return (
        *(f"- {line}" for line in expected if line not in here),
        *(f"+ {line}" for line in here if line not in expected),
    )
