"""Volatile fields of a state: what a path names is masked, and nothing else."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaos.mask import MASK, masked, parse

STATE: Any = {"session": {"started": 1, "cwd": "."}, "items": [{"id": 1, "n": 2}, {"id": 3}], "steps": 4}


@pytest.mark.parametrize(
    ("path", "changed"),
    [
        ("$.session.started", {"session": {"started": MASK, "cwd": "."}}),
        ("$.items[*].id", {"items": [{"id": MASK, "n": 2}, {"id": MASK}]}),
        ("$.items[1]", {"items": [{"id": 1, "n": 2}, MASK]}),
        ("$.*.cwd", {"session": {"started": 1, "cwd": MASK}}),
        ("$.steps", {"steps": MASK}),
        ("$.nothing.there", {}),
        ("$.steps.deeper", {}),
    ],
)
def test_what_a_path_names_is_masked(path: str, changed: dict[str, object]) -> None:
    assert masked(STATE, (path,)) == {**STATE, **changed}


def test_the_whole_state() -> None:
    assert masked(STATE, ("$",)) == MASK


@pytest.mark.parametrize("path", ["$x", "$.", "$..a", "$.a[", "$.a[b]", "$.a]"])
def test_what_is_no_path_says_what_would_be(path: str) -> None:
    with pytest.raises(ValueError, match="write one like"):
        parse(path)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(json_values)
def test_masking_is_idempotent_and_leaves_its_argument(value: Any) -> None:
    once = masked(value, ("$.a", "$[0]", "$.b[*].c"))
    assert masked(once, ("$.a", "$[0]", "$.b[*].c")) == once
    assert masked(value, ()) == value
