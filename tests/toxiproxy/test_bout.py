"""What counts as a hit: what the toxic guarantees and only a proxy does, and nothing that others may have done."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from chaos.toxiproxy.bout import KILLED, Bout, Hit, Passage

DOWN = "downstream"


def bout(kind: str, stream: str = DOWN, since: float = 0.0, **attributes: int) -> Bout:
    return Bout(1, kind, stream, attributes, since)


def passed(made: Bout, size: int, seconds: float, stream: str = DOWN, at: float = 1.0) -> Hit | None:
    """*size* bytes went in at *at*, and came out *seconds* later."""
    passage = Passage(1)
    passage.enters(stream, size, at)
    found = passage.leaves(stream, size, at + seconds, made)
    passage.left_behind(stream, size)
    return found


@pytest.mark.parametrize(
    ("kind", "attributes", "size", "least"),
    [
        ("latency", {"latency": 100, "jitter": 0}, 10, 0.1),
        ("latency", {"latency": 100, "jitter": 40}, 10, 0.06),
        ("bandwidth", {"rate": 10}, 1000, 0.1),
        ("slicer", {"average_size": 80, "size_variation": 20, "delay": 20_000}, 401, 0.08),
    ],
)
def test_bytes_are_held_back_as_long_as_the_toxic_guarantees(
    kind: str, attributes: Mapping[str, int], size: int, least: float
) -> None:
    made = bout(kind, **attributes)
    assert passed(made, size, least) == Hit("held back", size, pytest.approx(least))
    assert passed(made, size, least * 0.9) is None, "so long a machine may take by itself"
    assert passed(made, size, least, stream="upstream") is None, "the other direction is not poisoned"
    assert passed(bout(kind, since=2.0, **attributes), size, least) is None, "they went in before it was"


def test_a_slicer_has_nothing_to_do_with_less_than_a_slice() -> None:
    assert passed(bout("slicer", average_size=80, size_variation=20, delay=20_000), 100, 1.0) is None


def test_bytes_that_come_out_in_parts_are_held_back_until_the_last() -> None:
    passage, made = Passage(1), bout("latency", latency=100, jitter=0)
    passage.enters(DOWN, 10, 1.0)
    assert passage.leaves(DOWN, 9, 1.2, made) is None
    passage.left_behind(DOWN, 9)
    assert passage.leaves(DOWN, 1, 1.3, made) == Hit("held back", 10, pytest.approx(0.3))


@pytest.mark.parametrize("kind", ["reset_peer", "limit_data", "timeout", "down"])
def test_an_end_that_neither_side_made_is_the_proxy_s(kind: str) -> None:
    made = bout(kind, bytes=5)
    passage = Passage(1)
    passage.enters(DOWN, 10, 1.0)
    passage.left_behind(DOWN, 4)
    assert passage.ends("to agent", "closed", 1.0, made) == Hit("cut", 6)
    assert passage.ends("to world", "reset", 1.0, made) == Hit("reset", 6)
    for who in ("agent", "world"):
        other = Passage(2)
        other.ended[who] = 0.9
        assert other.ends("to agent", "closed", 1.0, made) is None, "it only passed that on"


def test_a_refusal_is_a_hit() -> None:
    assert Passage(1).ends("to agent", "refused", 1.0, bout("down")) == Hit("refused")


def test_what_was_swallowed_counts_when_the_agent_gives_up_first() -> None:
    passage, made = Passage(1), bout("timeout", timeout=0)
    assert passage.ends("agent", "closed", 1.0, made) is None
    passage.enters(DOWN, 10, 1.0)
    assert passage.ends("agent", "closed", 1.0, made) == Hit("swallowed", 10)
    assert passage.ends("agent", "closed", 1.0, bout("reset_peer")) is None


@pytest.mark.parametrize(
    ("stream", "source", "towards"), [(DOWN, "world", "to agent"), ("upstream", "agent", "to world")]
)
def test_a_close_comes_late(stream: str, source: str, towards: str) -> None:
    made = bout("slow_close", stream, delay=100)
    passage = Passage(1)
    passage.ended[source] = 1.0
    assert passage.ends(towards, "closed", 1.1, made) == Hit("closed late", 0, pytest.approx(0.1))
    assert passage.ends(towards, "closed", 1.05, made) is None
    assert Passage(2).ends(towards, "closed", 5.0, made) is None, "nobody had closed"


def test_only_the_dead_side_ends_what_a_kill_ends() -> None:
    made, passage = bout(KILLED, ""), Passage(1)
    assert passage.ends("to agent", "closed", 1.0, made) is None
    assert passage.ends("world", "reset", 1.0, made) == Hit("reset by the dead")
    passage.ended["agent"] = 0.5
    assert passage.ends("world", "closed", 1.0, made) is None, "the agent had said goodbye"
