"""The log of JSON lines as a list of deltas."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from chaos.durable import Durable
from chaos.stores.jsonl import FRESH, LOG, Jsonl

lines = st.lists(st.binary(min_size=1, max_size=20).filter(lambda line: b"\n" not in line), min_size=1, max_size=8)


def log(folder: Path, content: list[bytes]) -> Path:
    (folder / LOG).write_bytes(b"".join(line + b"\n" for line in content))
    return folder


def test_no_log_has_no_deltas(tmp_path: Path) -> None:
    assert Jsonl().deltas(Durable(tmp_path)) == ()


def test_a_torn_last_line_is_no_delta(tmp_path: Path) -> None:
    (tmp_path / LOG).write_bytes(b'{"a": 1}\n{"b"')
    assert len(Jsonl().deltas(Durable(tmp_path))) == 1


@given(content=lines, data=st.data())
def test_each_operation_changes_one_line(content: list[bytes], data: st.DataObject, tmp_path_factory: object) -> None:
    folder = tmp_path_factory.mktemp("log")  # type: ignore[attr-defined]
    store = Jsonl()
    delta = data.draw(st.sampled_from(store.deltas(Durable(log(folder, content)))))
    at = delta.row

    assert store.read(Durable(folder), delta) == content[at]
    store.write(Durable(folder), delta, b"other")
    assert (folder / LOG).read_bytes().split(b"\n")[:-1] == [*content[:at], b"other", *content[at + 1 :]]
    store.delete(Durable(log(folder, content)), delta)
    assert (folder / LOG).read_bytes().split(b"\n")[:-1] == content[:at] + content[at + 1 :]
    other = data.draw(st.sampled_from(store.deltas(Durable(log(folder, content)))))
    store.swap(Durable(folder), delta, other)
    swapped = list(content)
    swapped[at], swapped[other.row] = swapped[other.row], swapped[at]
    assert (folder / LOG).read_bytes().split(b"\n")[:-1] == swapped
    store.duplicate(Durable(log(folder, content)), delta)
    assert (folder / LOG).read_bytes().split(b"\n")[:-1] == content[: at + 1] + content[at:]


@given(content=lines)
def test_the_tail_is_the_last_line(content: list[bytes], tmp_path_factory: object) -> None:
    folder = tmp_path_factory.mktemp("log")  # type: ignore[attr-defined]
    tail = Jsonl().tail(Durable(log(folder, content)))
    assert tail is not None and tail.path == folder / LOG
    assert tail.path.read_bytes()[tail.begin : tail.end] == content[-1] + b"\n"


def test_a_log_that_is_being_written_anew_is_the_last_write(tmp_path: Path) -> None:
    log(tmp_path, [b"one"])
    (tmp_path / FRESH).write_bytes(b"one\ntwo\n")
    tail = Jsonl().tail(Durable(tmp_path))
    assert tail is not None and (tail.path.name, tail.begin, tail.end) == (FRESH, 4, 8)
    assert Jsonl().tail(Durable(tmp_path / "none")) is None
