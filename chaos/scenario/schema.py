"""The form of a scenario: one model for each part of the file.

Parts are validated one by one, so that an error in one does not hide those in another. What plug-ins add
(options of faults, strategies and targets) comes from their dataclasses (`chaos.scenario.options`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, JsonValue, PlainValidator, WithJsonSchema

from chaos import mask
from chaos.checks import Terms
from chaos.errors import did_you_mean
from chaos.plan import PHASES
from chaos.scenario import Limits
from chaos.scenario.messages import named
from chaos.scenario.units import Bytes, Seconds

STRICT = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False, use_attribute_docstrings=True)

MAX_RUNS = 10_000  # of one cell; a day of real kills, so more is a slip of the keyboard
NUMBER_WORDS = ("random", "every", "until_none")
MAX_FAULTS = 9  # of one plan; a supervisor gives up long before
MIN_RATE = 0.001  # a run without a fault is drawn anew
MAX_RATE = 10.0  # arrivals per step; a step has fewer points
MAX_TIMES = 100  # of one plan
MAX_STEP = 1_000_000  # far beyond any agent; keeps `before` and `step` readable in errors

NAME = r"^[a-z0-9][a-z0-9-]*$"
LABEL = r"^[A-Za-z0-9][A-Za-z0-9_.-]*$"  # what `chaos.plan.parse_plan` can read back, without `=`, `:` and `,`

_T = TypeVar("_T")


class Part(BaseModel):
    """A part of a scenario: unknown keys are errors, and nothing is converted."""

    model_config = STRICT


def _matching(pattern: str, form: str) -> Callable[[str], str]:
    def check(text: str) -> str:
        if not re.fullmatch(pattern, text):
            raise ValueError(f"{text!r} must be {form}")
        return text

    return check


def _one_line(text: str) -> str:
    if not text.strip():
        raise ValueError("is empty; say something or remove the key")
    return text


def _volatile(text: str) -> str:
    if mask.is_path(text):
        mask.parse(text)
    return text


ScenarioName = Annotated[
    str,
    AfterValidator(_matching(NAME, "lower case letters, digits and hyphens, as in 'kill-at-random-steps'")),
    WithJsonSchema({"type": "string", "pattern": NAME}),
]
Label = Annotated[
    str,
    AfterValidator(_matching(LABEL, "letters, digits, '_', '-' and '.', as in 'kill-late'")),
    WithJsonSchema({"type": "string", "pattern": LABEL}),
]
Text = Annotated[str, AfterValidator(_one_line), WithJsonSchema({"type": "string", "minLength": 1})]
Volatile = Annotated[
    str,
    AfterValidator(_one_line),
    AfterValidator(_volatile),
    WithJsonSchema({"type": "string", "minLength": 1}),
]
Count = Annotated[int, Field(ge=0)]


@dataclass(frozen=True)
class Named:
    """A plug-in by name, with the options given to it."""

    name: str
    options: dict[str, JsonValue]


def parse_named(value: object) -> Named:
    """Return what `name` or `{name: {option: value}}` says; raise ValueError with the form that is right."""
    if isinstance(value, str) and value:
        return Named(value, {})
    if isinstance(value, dict) and len(value) == 1:
        [(name, options)] = value.items()
        if isinstance(options, dict):
            return Named(name, options)
        raise ValueError(
            f"the options of {name!r} are a mapping, as in {{{name}: {{option: value}}}}, or leave them out"
        )
    raise ValueError("write one name, or one name with its options indented below it, as in {name: {option: value}}")


def _parse_step(value: object) -> str | tuple[int, ...]:
    if value in ("random", "every"):
        return str(value)
    if isinstance(value, str):
        close = did_you_mean(value, ("random", "every"))
        raise ValueError(f"write a step number, a list of them, 'random' or 'every', not {value!r}; {close}")
    steps = value if isinstance(value, list) else [value]
    for step in steps:
        if isinstance(step, bool) or not isinstance(step, int) or not 0 <= step <= MAX_STEP:
            raise ValueError(f"a step is a whole number from 0, not {named(step)}")
    return _distinct(steps, "step")


def _parse_number(value: object) -> str | tuple[int, ...]:
    if value in NUMBER_WORDS:
        return str(value)
    numbers = value if isinstance(value, list) else [value]
    words = f"{', '.join(map(repr, NUMBER_WORDS[:-1]))} or {NUMBER_WORDS[-1]!r}"
    for number in numbers:
        if isinstance(number, bool) or not isinstance(number, int) or not 1 <= number <= MAX_STEP:
            raise ValueError(f"'n' is a whole number from 1, a list of them, {words}, not {named(number)}")
    return _distinct(numbers, "call")


def _parse_phase(value: object) -> str | tuple[str, ...]:
    if value in ("random", "every"):
        return str(value)
    names = value if isinstance(value, list) else [value]
    for name in names:
        if not isinstance(name, str):
            raise ValueError(f"a phase is a name, not {named(name)}")
        if name not in PHASES:
            raise ValueError(f"no phase {name!r}; {did_you_mean(name, (*PHASES, 'random', 'every'))}")
    return _distinct(names, "phase")


def _distinct(found: Sequence[_T], what: str) -> tuple[_T, ...]:
    if not found:
        raise ValueError(f"an empty list names no {what}; give at least one")
    if len(set(found)) < len(found):
        raise ValueError(f"names a {what} twice")
    return tuple(found)


_STEP_SCHEMA = {
    "anyOf": [
        {"enum": ["random", "every"]},
        {"type": "integer", "minimum": 0},
        {"type": "array", "items": {"type": "integer", "minimum": 0}, "minItems": 1, "uniqueItems": True},
    ]
}
_NUMBER_SCHEMA = {
    "anyOf": [
        {"enum": list(NUMBER_WORDS)},
        {"type": "integer", "minimum": 1},
        {"type": "array", "items": {"type": "integer", "minimum": 1}, "minItems": 1, "uniqueItems": True},
    ]
}
_PHASE_SCHEMA = {
    "anyOf": [
        {"enum": ["random", "every", *PHASES]},
        {"type": "array", "items": {"enum": list(PHASES)}, "minItems": 1, "uniqueItems": True},
    ]
}


class At(Part):
    """Where a fault hits. Without it: a random step and phase, drawn from the seed."""

    step: Annotated[str | tuple[int, ...] | None, PlainValidator(_parse_step), WithJsonSchema(_STEP_SCHEMA)] = None
    """A number (from 0), a list of them, `random` (drawn from the seed) or `every`."""

    phase: Annotated[str | tuple[str, ...] | None, PlainValidator(_parse_phase), WithJsonSchema(_PHASE_SCHEMA)] = None
    """Where within the step. After `after_act` the effect has happened and nothing has recorded it yet."""

    after: Annotated[int, Field(ge=0, le=MAX_STEP)] = 0
    """First step that `random` and `every` may hit."""

    before: Annotated[int, Field(ge=0, le=MAX_STEP)] | None = None
    """Last step that `random` and `every` may hit."""

    syscall: Literal["write", "fsync", "rename"] | None = None
    """Hit before a system call on a file of the durable zone: for agents that announce no steps, in any language."""

    operation: (
        Literal[
            "model_call", "model_reply", "service_call", "effect", "checkpoint_write", "write", "fsync", "rename"
        ] | None
    ) = None  # fmt: skip
    """Hit while an operation is held: what the agent asks of the world or of its durable zone needs no announcement."""

    n: Annotated[str | tuple[int, ...] | None, PlainValidator(_parse_number), WithJsonSchema(_NUMBER_SCHEMA)] = None
    """Which: a number (from 1, in each incarnation), a list of them, `random` (default), `every` or `until_none`.

    With `until_none` the 1st is hit, then the 2nd, …, until a run ends without an n-th. `every` does the same where the
    reference cannot know how many there are: during recovery, and after another fault.
    """

    during: Literal["recovery"] | None = None
    """Hit a later incarnation of the agent, while it recovers from the fault before."""

    explore: Literal["search", "pairs", "bernoulli", "poisson"] | None = None
    """Whole plans: `search` until something breaks, `pairs` of faults, or faults that come at a `rate`.

    `search` and `pairs` make their plans of this fault and all under `then`, in any order, each where its `at` says.
    """

    faults: Annotated[int, Field(ge=1, le=MAX_FAULTS)] = 3
    """How many faults a plan of `search`, `bernoulli` or `poisson` has at most."""

    strength: Annotated[int, Field(ge=2, le=5)] = 2
    """How many of five things meet in all their values in `pairs`: two faults, their phases, the third of the run."""

    rate: Annotated[float, Field(ge=MIN_RATE, le=MAX_RATE)] | None = None
    """Faults per step on average, for `bernoulli` (a probability) and `poisson`."""

    repeat: Annotated[int, Field(ge=2, le=MAX_TIMES)] | None = None
    """Run each plan so many times with the same random choices; all of them must go the same way."""


class Expect(Part):
    """What must hold after every recovery."""

    checks: Annotated[list[str], Field(min_length=1)] | None = None
    """Names of checks; every check by default."""

    effects: Literal["exactly-once", "at-least-once"] = "exactly-once"
    """How often each external effect must happen."""

    max_lost_steps: Count | None = Terms().max_lost_steps
    """Steps of work that a crash may cost."""

    max_tokens_asked_again: Count | None = Terms().max_tokens_asked_again
    """Tokens that may be asked for a second time."""

    max_recovery: Seconds | None = Terms().max_recovery_seconds
    """Time from the fault until the agent is where it was."""

    volatile: list[Volatile] = Field(default=[])
    """Globs of files ("workspace/*.log") and paths into the state ("$.session.started") that may differ."""


class Expected(Part):
    """A promise that a strategy is known to break. If it is suddenly kept, that is reported too."""

    strategy: str
    """Name or label of a strategy of this scenario."""

    fault: str = ""
    """Kind or label of a fault of this scenario; all of them if left out."""

    breaks: list[str] = Field(default=[])
    """Checks that must fail in at least one run."""

    may_break: list[str] = Field(default=[])
    """Checks that may fail or not."""

    because: Text
    """Why, in a sentence for those who read the report."""

    issue: str = ""
    """Address of the issue that tracks it."""


class LimitsPart(Part):
    """Where a run is stopped and reported."""

    backoff_limit: Count = Limits().backoff_limit
    """Restarts before the supervisor gives up."""

    backoff: Seconds = Limits().backoff_seconds
    """Wait before the first restart, doubled each time."""

    deadline: Annotated[Seconds, Field(gt=0)] = Limits().deadline_seconds
    """A run that takes longer is stopped."""

    memory: Annotated[Bytes, Field(gt=0)] = Limits().memory_bytes
    """Memory of the sandbox."""

    heartbeat: Annotated[Seconds, Field(gt=0)] = Limits().heartbeat_seconds
    """An agent that gives no sign of life (a point, a request) for so long is killed and started again."""


class FaultPart(Part):
    """A fault and where it hits; its own fields stand beside these keys."""

    kind: str
    """What breaks."""

    name: Label | None = None
    """Label of the fault in reports and plans; the kind by default."""

    at: JsonValue = Field(default={})
    """Where it hits; a random step and phase by default."""

    then: list[JsonValue] = Field(default=[])
    """Further faults of the same run, in order, mostly `during: recovery`."""

    vary: dict[str, JsonValue] = Field(default={})
    """For a search: fields of the fault, each with a list of values, or a range of them as in `{from: 0s, to: 1s}`."""


class Document(Part):
    """A scenario of pytest-chaos: break the target, let it recover, compare with a run without faults."""

    version: Literal[1]
    """Version of this format."""

    scenario: ScenarioName
    """Name of the scenario."""

    description: str = ""
    """One sentence for the report."""

    tags: list[Text] = Field(default=[])
    """Words to select scenarios by."""

    vars: dict[str, JsonValue] = Field(default={})
    """Values for `${{ vars.name }}`; each may use those above it, and `${{ fake... }}` for made-up data."""

    target: JsonValue
    """What is broken: a name, or a name with its options."""

    strategies: Annotated[list[JsonValue], Field(min_length=1)]
    """Recovery strategies to compare, each a name or a name with its options."""

    runs: Annotated[int, Field(ge=1, le=MAX_RUNS)] = 3
    """Runs of each cell (strategy x fault) where points are drawn at random."""

    seed: Annotated[int, Field(ge=0)] | None = None
    """Source of all randomness; drawn and printed if left out."""

    faults: Annotated[list[JsonValue], Field(min_length=1)]
    """What breaks, and where."""

    expect: JsonValue = Field(default={})
    """What must hold after every recovery."""

    expected_failures: list[JsonValue] = Field(default=[])
    """Promises that are known to be broken, and why."""

    limits: JsonValue = Field(default={})
    """Where a run is stopped and reported."""
