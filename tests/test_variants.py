"""Variants of faults in plans: what is printed is read back, and nothing else is."""

from __future__ import annotations

import dataclasses
from typing import Any, Literal, get_args, get_origin, get_type_hints

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaos import registry
from chaos.errors import ScenarioError, UnknownName
from chaos.faults import Fault
from chaos.faults.corrupt_delta import CorruptDelta
from chaos.faults.kill import Kill
from chaos.faults.network import Network
from chaos.faults.overloaded import Overloaded
from chaos.faults.rate_limit import RateLimit
from chaos.plan import parse_case, parse_plan
from chaos.scenario import options
from chaos.variants import Variants, name_of, varied

KNOWN = Variants({"kill": Kill(), "kill-late": Kill("SIGTERM"), "overloaded": Overloaded(), "rate_limit": RateLimit()})


def values(hint: Any) -> st.SearchStrategy[Any]:
    """Return values of a field with the type *hint*, as a scenario can say them."""
    if get_origin(hint) is Literal:
        return st.sampled_from(get_args(hint))
    if type(None) in get_args(hint):
        return st.none() | values(get_args(hint)[0])
    if hint is bool:
        return st.booleans()
    if hint is int:
        return st.integers(0, 10**9)
    if hint is float:
        return st.integers(0, 10**9).map(lambda thousandths: thousandths / 1000)
    raise AssertionError(f"no values for {hint!r}: add them here")


@st.composite
def variants(draw: st.DrawFn) -> tuple[Fault, Fault]:
    """Draw two faults of one kind that a scenario can say."""
    cls = registry.load("faults", draw(st.sampled_from(registry.names("faults"))))
    hints = get_type_hints(cls)
    pair = []
    for _ in range(2):
        given = {name: draw(values(hints[name])) for name in options.keys(cls) if draw(st.booleans())}
        try:
            pair.append(varied(cls(), given))
        except ScenarioError:
            pair.append(cls())
    return pair[0], pair[1]


@given(variants())
def test_every_variant_of_every_fault_is_read_back_from_a_plan(pair: tuple[Fault, Fault]) -> None:
    base, fault = pair
    known = Variants({"it": base})
    try:
        label = known.label("it", fault)
    except ScenarioError:
        assert _refused(fault), "a scenario can say it, so a plan can too"
        return
    assert known[label] == fault
    assert parse_case(f"{label}@17/after_act#3").plan.faults[0].fault == label
    assert (label == "it") == (fault == base)
    assert name_of(label) == "it"


def _refused(fault: Fault) -> bool:
    """Tell whether a scenario refuses *fault*, by the bounds of a field."""
    cls: Any = type(fault)
    model = options.model_of(cls)
    given = {name: getattr(fault, name) for name in options.keys(cls)}
    try:
        model.model_validate_json(model.model_construct(**{f"option_{k}": v for k, v in given.items()}).model_dump_json(
            by_alias=True
        ))  # fmt: skip
    except ValueError:
        return True
    return False


@pytest.mark.parametrize(
    ("label", "fault"),
    [
        ("kill", Kill()),
        ("kill:signal=SIGTERM,grace=1500ms", Kill("SIGTERM", 1.5)),
        ("kill-late:signal=SIGKILL", Kill()),
        ("overloaded:status=529,retry_after=250ms", Overloaded(status=529, retry_after=0.25)),
        ("rate_limit:requests=5", RateLimit(requests=5)),
    ],
)
def test_a_label_is_written_one_way(label: str, fault: Fault) -> None:
    assert KNOWN[label] == fault
    assert KNOWN.label(name_of(label), fault) == label
    assert label in KNOWN
    assert str(parse_plan(f"{label}@3/after_act+kill@recovery/after_load")).startswith(label)


def test_other_ways_of_writing_it_are_understood() -> None:
    assert KNOWN["kill:grace=1.5s,signal=SIGTERM"] == KNOWN["kill:signal=SIGTERM,grace=1500ms"]
    assert KNOWN["overloaded:retry_after=null"] == Overloaded()
    known = Variants({"net": Network()})
    assert known["net:toxic=bandwidth,rate=64KiB"] == Network(toxic="bandwidth", rate=65536)


@pytest.mark.parametrize(
    ("label", "says"),
    [
        ("kil", "no fault 'kil'; did you mean 'kill'?"),
        ("kill:", "'' gives no field a value"),
        ("kill:signal", "'signal' gives no field a value; write LABEL:field=value,field=value"),
        ("kill:sgnal=SIGTERM", "no field 'sgnal'; did you mean 'signal'?"),
        (
            "kill:signal=SIGTREM",
            "signal must be 'SIGKILL', 'SIGTERM' or 'SIGINT', not the text 'SIGTREM'; did you mean",
        ),
        ("kill:grace=5", "5 needs a unit: write '5s' or '5ms'"),
        ("kill:grace=1s,grace=2s", "'grace' is there twice"),
        ("overloaded:requests=1.5", "requests must be a whole number, not 1.5"),
        ("overloaded:requests=true", "requests must be a whole number, not true"),
        ("overloaded:requests=0", "requests must be at least 1 (got 0)"),
        ("overloaded:status=501", "status must be 503, 529 or 500, not 501"),
    ],
)
def test_what_is_wrong_is_told_with_what_would_be_right(label: str, says: str) -> None:
    with pytest.raises(ScenarioError, match=r".") as told:
        KNOWN.fault(label)
    assert says in str(told.value)
    assert label not in KNOWN
    with pytest.raises(KeyError):
        KNOWN[label]


def test_only_the_scenario_s_own_labels_are_counted() -> None:
    assert list(KNOWN) == ["kill", "kill-late", "overloaded", "rate_limit"]
    assert len(KNOWN) == 4
    assert KNOWN.get("kill:signal=SIGINT") == Kill("SIGINT")
    assert KNOWN.get("kill:signal=SIG") is None
    with pytest.raises(UnknownName):
        KNOWN.fault("nothing")


def test_another_fault_is_no_variant() -> None:
    with pytest.raises(ScenarioError, match="is no variant of 'kill'"):
        KNOWN.label("kill", CorruptDelta())


@dataclasses.dataclass(frozen=True)
class Worded:
    """A fault of somebody else, with a text in it."""

    text: str = "a"


def test_what_a_plan_cannot_say_is_refused() -> None:
    known = Variants({"it": Worded()})  # type: ignore[dict-item]
    assert known.label("it", Worded("b-2")) == "it:text=b-2"  # type: ignore[arg-type]
    assert known["it:text=7"] == Worded("7")
    for text in ("two words", "a+b", "a=b", "", "null and void"):
        with pytest.raises(ScenarioError, match="a plan cannot say text="):
            known.label("it", Worded(text))  # type: ignore[arg-type]
