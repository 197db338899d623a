from __future__ import annotations

import msgspec
import pytest

from chaos.checks.files import Files
from chaos.events.seen import FileEntry, Observation, Repository
from chaos.verdict import PASS, Outcome, Verdict
from tests.journals import FACTS, SEEN, TERMS, Story, recovered, reference, refusing, seen


def judged(observed: Observation | None, against: Observation | None = SEEN) -> Verdict:
    run, other = (Story().start().steps(0).finish(seen=each).record for each in (observed, against))
    return Files().check(run, other, TERMS, FACTS)


def changed(path: str, **changes: object) -> Observation:
    return seen(files=tuple(msgspec.structs.replace(e, **changes) if e.path == path else e for e in SEEN.files))


def test_a_recovered_run_has_the_same_files() -> None:
    assert Files().check(recovered().record, reference().record, TERMS, FACTS) == PASS


@pytest.mark.parametrize(
    ("path", "change", "finding"),
    [
        ("data/q1.csv", {"digest": "x", "size": 3}, "has other content (3 bytes instead of 5)"),
        ("data/q1.csv", {"mode": 0o600}, "has mode 0600 instead of 0644"),
        ("data/q1.csv", {"kind": "dir"}, "is a folder instead of a file"),
        ("data/latest", {"target": "q0.csv"}, "points to q0.csv instead of q1.csv"),
    ],
)
def test_a_changed_entry_is_named(path: str, change: dict[str, object], finding: str) -> None:
    verdict = judged(changed(f"workspace/{path}", **change))
    assert verdict.outcome is Outcome.FAIL
    assert verdict.finding == f"workspace/{path} {finding}"


def test_size_alone_is_nothing() -> None:
    assert judged(changed("workspace/data/q1.csv", size=500)) == PASS


def test_a_missing_file_is_named_before_an_extra_one() -> None:
    extra = FileEntry(path="workspace/a.tmp", kind="file", mode=0o644)
    verdict = judged(seen(files=(extra, *SEEN.files[:2], *SEEN.files[3:])))
    assert verdict.finding == "workspace/data/q1.csv is missing (and 1 more)"
    assert verdict.details == ("workspace/data/q1.csv is missing", "workspace/a.tmp is extra")


@pytest.mark.parametrize(
    ("repository", "finding"),
    [
        ({"log": ("000 begin",), "head": "000"}, "the git repository workspace has 1 commit instead of 2"),
        ({"log": ("abd report", "000 begin")}, "the git repository workspace has another history"),
        ({"head": ""}, "the git repository workspace stands at no commit instead of abc"),
        ({"status": (" M x",)}, "git status differs in workspace"),
    ],
)
def test_git_is_compared(repository: dict[str, object], finding: str) -> None:
    one: Repository = msgspec.structs.replace(SEEN.repositories[0], **repository)
    assert judged(seen(repositories=(one,))).finding == finding


def test_a_missing_repository_is_named() -> None:
    assert judged(seen(repositories=())).finding == "the git repository workspace is missing"


def test_unknown_without_both_observations() -> None:
    assert judged(SEEN, None).finding == "the reference was not observed at its end"
    assert judged(None).finding == "the run was not observed at its end"
    verdict = Files().check(refusing().record, reference().record, TERMS, FACTS)
    assert (verdict.outcome, verdict.finding) == (Outcome.UNKNOWN, "the agent did not finish")


def test_thousands_of_differences_are_told_in_a_screenful() -> None:
    many = tuple(FileEntry(path=f"workspace/{n}", kind="file", mode=0o644) for n in range(3000))
    verdict = judged(seen(files=(*SEEN.files, *many)))
    assert verdict.finding == "workspace/0 is extra (and 2999 more)"
    assert len(verdict.details) < 50
