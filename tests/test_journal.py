"""Journals on disk: those of whole runs, and those that name what another one holds of theirs."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from chaos.events.seen import Ended, Measured
from chaos.journal import AnyEvent, Journal, delay, moved, read, size

COUNT = 6


class Ticks:
    """A clock that moves a quarter of a second each time it is read."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        self.now += 0.25
        return self.now


def recorded(folder: Path) -> Journal:
    folder.mkdir()
    journal = Journal(folder / "journal.jsonl", Ticks())
    journal.attempt = 1
    for number in range(COUNT):
        journal.add(Measured, stored_bytes=number)
    journal.close()
    return journal


def derived(folder: Path, first: Journal, prefix: int, own: int, rest: int | None) -> Journal:
    folder.mkdir()
    journal = Journal(folder / "journal.jsonl", Ticks(), begun=(first.path, first.own[:prefix]))
    journal.attempt = 2
    for number in range(own):
        journal.add(Measured, stored_bytes=100 + number)
    if rest is not None:
        journal.go_on(rest)
    journal.close()
    return journal


@pytest.mark.parametrize("rest", [None, 0, 4, COUNT])
@pytest.mark.parametrize("own", [0, 3])
@pytest.mark.parametrize("prefix", [0, 2, COUNT])
def test_a_derived_run_reads_as_a_whole_one(tmp_path: Path, prefix: int, own: int, rest: int | None) -> None:
    first = recorded(tmp_path / "a")
    journal = derived(tmp_path / "b", first, prefix, own, rest)
    run = read(journal.path)
    begun = (*first.own[:prefix], *journal.own)
    assert run[: len(begun)] == begun == tuple(journal.events)
    after = [] if rest is None else first.own[rest:]
    assert [event.attempt for event in run[len(begun) :]] == [2] * len(after)
    bytes_ = [event.stored_bytes for event in run[len(begun) :] if isinstance(event, Measured)]
    assert bytes_ == list(range(COUNT))[COUNT if rest is None else rest :]
    times = [event.at for event in run]
    assert times == sorted(times)
    if begun and after and rest:
        assert after[0].at - first.own[rest - 1].at == run[len(begun)].at - begun[-1].at


def test_what_is_named_is_not_written_again(tmp_path: Path) -> None:
    first = recorded(tmp_path / "a")
    journal = derived(tmp_path / "b", first, 4, 1, 5)
    assert len(journal.path.read_bytes().splitlines()) == 3
    assert (tmp_path / "a/journal.jsonl").name in journal.path.read_text()
    assert str(tmp_path) not in journal.path.read_text(), "a results folder can be moved"
    assert size(journal.path) == sum(path.stat().st_size for path in (journal.path, first.path))
    assert size(first.path) == first.path.stat().st_size
    (tmp_path / "moved").mkdir()
    for name in "ab":
        (tmp_path / name).rename(tmp_path / "moved" / name)
    assert len(read(tmp_path / "moved/b/journal.jsonl")) == 6


def test_the_clock_goes_on_from_what_the_run_has_begun_with(tmp_path: Path) -> None:
    first = recorded(tmp_path / "a")
    journal = derived(tmp_path / "b", first, 4, 2, None)
    assert first.own[3].at < journal.own[0].at < journal.own[1].at < first.own[3].at + 1


def test_the_events_go_on_growing_and_nothing_is_copied(tmp_path: Path) -> None:
    first = recorded(tmp_path / "a")
    journal = Journal(tmp_path / "journal", begun=(first.path, first.own[:2]))
    seen = journal.events
    assert (len(seen), journal.last(Ended)) == (2, None)
    journal.add(Ended, how="deadline")
    assert len(seen) == 3
    assert journal.last(Ended) is seen[-1] is journal.own[0]
    assert journal.last(Measured) is first.own[1]
    journal.close()


def test_a_torn_last_line_is_left_out(tmp_path: Path) -> None:
    first = recorded(tmp_path / "a")
    journal = derived(tmp_path / "b", first, 2, 2, 3)
    whole = journal.path.read_bytes()
    lines = whole.splitlines(keepends=True)
    journal.path.write_bytes(whole[:-1])
    assert len(read(journal.path)) == 4
    journal.path.write_bytes(lines[0][:-1])
    assert read(journal.path) == ()
    assert size(journal.path) == len(lines[0]) - 1


def test_a_journal_that_names_what_is_not_there_is_none(tmp_path: Path) -> None:
    first = recorded(tmp_path / "a")
    journal = derived(tmp_path / "b", first, 5, 1, 4)
    first.path.write_bytes(b"".join(first.path.read_bytes().splitlines(keepends=True)[:3]))
    with pytest.raises(msgspec.ValidationError, match="has 3 events, not 5"):
        read(journal.path)
    first.path.unlink()
    with pytest.raises(FileNotFoundError):
        read(journal.path)


def test_only_a_recorded_run_can_be_named(tmp_path: Path) -> None:
    journal = derived(tmp_path / "b", recorded(tmp_path / "a"), 2, 1, None)
    other = derived(tmp_path / "c", journal, 1, 1, None)
    with pytest.raises(msgspec.ValidationError, match="only a recorded one"):
        read(other.path)


def test_moved_events_keep_their_distance() -> None:
    events: list[AnyEvent] = [Measured(at=at, attempt=1, stored_bytes=1) for at in (0.1, 0.2, 0.5)]
    late = delay(events, 2, Measured(at=1.3, attempt=4, stored_bytes=1))
    assert moved(events[2], 4, late) == Measured(at=1.6, attempt=4, stored_bytes=1)
    assert delay(events, 0, None) == 0.0
