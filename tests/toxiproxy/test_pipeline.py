"""The embedded server's pipeline: whatever is done to its toxics, bytes stay whole and in order; chance is seeded."""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from chaos.toxiproxy.pipeline import Flow, Poison
from chaos.toxiproxy.toxics import Bandwidth, Latency, LimitData, Noop, Slicer, SlowClose, Toxic

PASSING: tuple[Toxic, ...] = (
    Noop(), Latency(1, 1), Latency(), Bandwidth(2000), Slicer(100, 20, 0), SlowClose(1), LimitData(1 << 30),
)  # fmt: skip
"""Toxics that lose nothing."""


class Source:
    """Gives *data* in pieces of the sizes of *rng*."""

    def __init__(self, data: bytes, rng: Random) -> None:
        self._data, self._rng = data, rng

    async def receive(self) -> bytes:
        size = self._rng.choice([1, 100, 4096])
        piece, self._data = self._data[:size], self._data[size:]
        await asyncio.sleep(0)
        return piece

    def reset_on_close(self) -> None:
        pass


class Sink:
    """Takes its time."""

    def __init__(self, rng: Random) -> None:
        self.got, self.sizes, self.closed, self._rng = b"", list[int](), False, rng

    async def send(self, data: bytes) -> bool:
        for _ in range(self._rng.randrange(3)):
            await asyncio.sleep(0)
        self.got += data
        self.sizes.append(len(data))
        return True

    def reset_on_close(self) -> None:
        pass

    def close(self) -> None:
        self.closed = True


def flow(data: bytes, rng: Random, *toxics: Toxic) -> tuple[Flow, Sink]:
    sink: Any = Sink(rng)
    source: Any = Source(data, rng)
    poisons = [Poison(f"first{n}", "", "", 1.0, toxic) for n, toxic in enumerate(toxics)]
    return Flow(source, sink, poisons, lambda name: Random(name)), sink


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 1 << 32),
    changes=st.lists(
        st.tuples(st.sampled_from(PASSING), st.sampled_from(["add", "remove", "change"]), st.integers(0, 3)),
        max_size=25,
    ),
)
def test_nothing_is_lost_doubled_or_moved(seed: int, changes: list[tuple[Toxic, str, int]]) -> None:
    async def run() -> None:
        rng = Random(seed)
        data = rng.randbytes(40_000)
        through, sink = flow(data, rng)
        done = asyncio.create_task(through.run())
        there: list[str] = []
        for number, (toxic, what, pauses) in enumerate(changes):
            if what == "add" or not there:
                there.append(f"t{number}")
                through.add(Poison(there[-1], "", "", 1.0, toxic))
            elif what == "remove":
                await through.remove(there.pop(rng.randrange(len(there))))
            else:
                await through.update(Poison(rng.choice(there), "", "", 1.0, toxic))
            for _ in range(pauses):
                await asyncio.sleep(0.0005 * (pauses - 1))
        await asyncio.wait_for(done, 30)
        assert sink.got == data and sink.closed
        through.cancel()

    asyncio.run(run())


def sizes(seed: str, toxicity: float = 1.0) -> list[int]:
    """Return the pieces that a slicer of *seed* makes of the same bytes."""

    async def run() -> list[int]:
        sink: Any = Sink(Random(0))
        source: Any = Source(bytes(20_000), Random(0))
        poison = Poison("t", "slicer", "downstream", toxicity, Slicer(200, 100, 0))
        through = Flow(source, sink, [poison], lambda name: Random(seed + name))
        await through.run()
        through.cancel()
        return list(sink.sizes)

    return asyncio.run(run())


def test_chance_comes_from_the_seed() -> None:
    assert sizes("one") == sizes("one") != sizes("two")


@given(size=st.integers(1, 5000), average=st.integers(0, 300), variation=st.integers(0, 400), seed=st.integers())
def test_a_slicer_cuts_into_pieces_that_make_up_the_whole(size: int, average: int, variation: int, seed: int) -> None:
    """With sizes too for which the real server never ends: an average of 0, a variation above the average."""
    pieces = Slicer(average, variation).pieces(size, Random(seed))
    assert sum(pieces) == size and all(piece > 0 for piece in pieces)


@given(size=st.integers(1, 5000), average=st.integers(20, 300), seed=st.integers())
def test_no_slice_is_larger_than_it_may_be(size: int, average: int, seed: int) -> None:
    assert max(Slicer(average, average // 3).pieces(size, Random(seed))) <= average + average // 3
