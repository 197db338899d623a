"""Search: Hypothesis over whole plans, until one of them breaks what the scenario does not expect to be broken."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import pairwise

from hypothesis import HealthCheck, Phase, Verbosity, given, reject, seed, settings, target
from hypothesis import strategies as st
from hypothesis.errors import Unsatisfiable

from chaos.errors import ScenarioError
from chaos.explorers import Attempt, Covered, Tried, _pool
from chaos.explorers._pool import ASKING, Member
from chaos.faults.kill import Kill
from chaos.plan import STEP_PHASES, Plan, PlannedFault, Point
from chaos.scenario import FaultSpec
from chaos.seeds import SEED_BITS
from chaos.variants import Variants, name_of, varied

COIN = st.booleans()
SPARE_TOSSES = 3  # beyond those that a number needs: one comes up an eighth more often than another at most
EXAMPLES = 100  # of one round of Hypothesis, however many runs are wanted: fewer runs are the first of more


@dataclass(frozen=True)
class Search:
    """Draw plans of up to *faults* faults from the fault and all under its `then`, and stop at the first that breaks.

    A plan is in an order that can happen: what follows a fault hits the recovery from it, or a point that comes later,
    or the same one, where the agent stands again. Fields under `vary` are drawn too. Plans of many faults come more
    often than those of few. While there are any, only plans are tried in which at least half of the faults are at
    points where they were not yet, then those with one such fault, then those in which two follow one another that did
    not yet. No plan is run twice. A plan in which a fault did not hit is judged by those that did, or left out.

    Args:
        faults: how many faults a plan has at most.
        phases: names of phases, of recoveries too; those of coming up come on top.
        after: first step that may be hit.
        before: last step that may be hit; None is the last of the run.
    """

    faults: int = 3
    phases: tuple[str, ...] = STEP_PHASES
    after: int = 0
    before: int | None = None

    def plans(self, points: Sequence[Point], fault: str, runs: int, rng: random.Random) -> tuple[Plan, ...]:
        """Return what is tried of a *fault* that ends the agent, alone, as long as nothing breaks."""
        drawn: list[Plan] = []

        def attempt(plan: Plan) -> Tried:
            drawn.append(plan)
            return Tried(landed=True, broke=frozenset())

        self.seek(points, FaultSpec(fault, "kill", Kill(), self), runs, rng, attempt)
        return tuple(drawn)

    def seek(
        self, points: Sequence[Point], fault: FaultSpec, runs: int, rng: random.Random, attempt: Attempt
    ) -> Covered:
        """Try up to *runs* plans, and say what became of them."""
        members = _pool.members(points, fault, self.phases, self.after, self.before)
        search = _Searching(runs, attempt)
        if not any(member.first for member in members):
            return Covered("")
        plans = _plans(_Space(members, points, self.faults))
        while search.found is None and len(search.tried) < runs:
            tried = len(search.tried)
            _explore(plans, rng.getrandbits(SEED_BITS), search)
            if len(search.tried) == tried:
                if not search.asked:
                    break
                search.asked.pop(0)
        return search.covered()


class _Broke(Exception):
    """A plan broke what it should not."""


class _Enough(Exception):
    """There were as many runs as are wanted."""


@dataclass
class _Searching:
    """What was *tried* so far, and what was *found*; the first of *asked* tells in what a plan has to be new."""

    runs: int
    attempt: Attempt
    tried: dict[Plan, Tried] = field(default_factory=dict)
    seen: set[object] = field(default_factory=set)
    asked: list[Callable[[Plan, set[object]], bool]] = field(default_factory=lambda: [_half_new, _one_new, _two_new])
    found: Plan | None = None
    error: BaseException | None = None

    def __call__(self, plan: Plan | None) -> None:
        """Try *plan*, unless it has been tried or has nothing new: what Hypothesis calls."""
        if plan is None:
            reject()
        if plan not in self.tried and len(self.tried) >= self.runs:
            raise _Enough
        if plan not in self.tried and not self._is_new(plan):
            return
        tried = self._tried(plan)
        if tried.broke and not tried.landed and not tried.unreached:
            tried = self._what_hit(plan)
        if tried.broke:
            self.found = self.found or plan
            raise _Broke
        if not tried.landed:
            reject()
        target(float(len(plan.faults)), label="faults that hit")

    def _is_new(self, plan: Plan) -> bool:
        return not self.asked or self.asked[0](plan, self.seen)

    def _tried(self, plan: Plan) -> Tried:
        if plan not in self.tried:
            self.seen |= _ones(plan) | _twos(plan)
            try:
                self.tried[plan] = self.attempt(plan)
            except BaseException as error:  # Hypothesis would try again, and tell a story of its own
                self.error = error
                raise
        return self.tried[plan]

    def _what_hit(self, plan: Plan) -> Tried:
        """Return what becomes of *plan* without one of its faults: one that missed must not hide what another broke."""
        for left_out in range(len(plan.faults)):
            rest = Plan(plan.faults[:left_out] + plan.faults[left_out + 1 :])
            if rest.faults and (tried := self._tried(rest)).landed and tried.broke:
                return tried
        return Tried(landed=False, broke=frozenset())

    def covered(self) -> Covered:
        """Return how many plans were tried, and of how many of them a fault did not hit."""
        missed = sum(not tried.landed for tried in self.tried.values())
        told = f"searched {len(self.tried)} plans"
        return Covered(f"{told}, {missed} of which did not come about as a whole" if missed else told)


def _explore(plans: st.SearchStrategy[Plan | None], number: int, search: _Searching) -> None:
    """Have Hypothesis try some of *plans*, seeded by *number*, whatever the user's profile or CI says.

    It keeps nothing and shrinks nothing: what is found is kept, and made small, by us.
    """
    quiet = settings(
        max_examples=EXAMPLES,
        phases=[Phase.generate, Phase.target],
        database=None,
        derandomize=False,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        report_multiple_bugs=False,
        verbosity=Verbosity.quiet,
        print_blob=False,
        backend="hypothesis",
    )

    def one(plan: Plan | None) -> None:
        search(plan)

    with _quietly(search):
        seed(number)(quiet(given(plans)(one)))()


@contextmanager
def _quietly(search: _Searching) -> Iterator[None]:
    """Let pass what ends a search; what went wrong in a run comes out as it was."""
    try:
        yield
    except (_Broke, _Enough, Unsatisfiable):
        pass
    except BaseException:
        if search.error is None:
            raise
    if search.error is not None:
        raise search.error


class _Space:
    """The plans of up to *most* faults."""

    def __init__(self, members: Sequence[Member], points: Sequence[Point], most: int) -> None:
        self.members = members
        self.labels = Variants({member.label: member.fault for member in members})
        self.counts = [count for count in range(1, most + 1) for _ in range(count)]
        self._places = {point: place for place, point in enumerate(dict.fromkeys(points))}

    def groups(self, member: Member, so_far: Sequence[tuple[Member, Point]]) -> list[Sequence[Point]]:
        """Return where *member* may hit next: later, at the same point again, while the agent recovers.

        What is likelier is there twice: faults that are far apart seldom have to do with each other.
        """
        if not so_far:
            return [member.first] if member.first else []
        last_member, last = so_far[-1]
        certain = max((self._places[point] for _, point in so_far if point in self._places), default=-1)
        later = [point for point in member.first if self._places.get(point, -1) > certain]
        stands_again = last_member.ends or last.phase == ASKING
        again = [last] if stands_again and last in (member.recovering if last.recovery else member.first) else []
        recovering = member.recovering if any(before.ends for before, _ in so_far) else ()
        return [group for group in (later, again, again, recovering, recovering) if group]


@st.composite
def _plans(draw: st.DrawFn, space: _Space) -> Plan | None:
    """Draw a plan of *space*; None stands for one that makes no sense."""
    so_far: tuple[tuple[Member, Point], ...] = ()
    planned: tuple[PlannedFault, ...] = ()
    for _ in range(space.counts[_below(draw, len(space.counts))]):
        drawn = draw(_faults(space, so_far))
        if drawn is None:
            return None
        so_far, planned = (*so_far, drawn[:2]), (*planned, drawn[2])
    return Plan(planned)


@st.composite
def _faults(
    draw: st.DrawFn, space: _Space, so_far: Sequence[tuple[Member, Point]]
) -> tuple[Member, Point, PlannedFault] | None:
    """Draw what follows *so_far*; None where nothing can, or the values of its fields do not go together."""
    member = space.members[_below(draw, len(space.members))]
    if not (groups := space.groups(member, so_far)):
        return None
    group = groups[_below(draw, len(groups))]
    point = group[_below(draw, len(group))]
    chosen = {name: values[_below(draw, len(values))] for name, values in member.vary}
    try:
        label = space.labels.label(member.label, varied(member.fault, chosen))
    except ScenarioError:
        return None
    return member, point, PlannedFault(label, point)


def _ones(plan: Plan) -> set[object]:
    """Return each fault of *plan* at its point."""
    return {(name_of(planned.fault), planned.point) for planned in plan.faults}


def _twos(plan: Plan) -> set[object]:
    """Return each two faults of *plan* that follow one another, with the phases of their points."""
    return {
        (
            name_of(one.fault),
            one.point.phase,
            name_of(other.fault),
            replace(other.point, step=None),
            one.point == other.point,
        )
        for one, other in pairwise(plan.faults)
    }


def _half_new(plan: Plan, seen: set[object]) -> bool:
    return 2 * len(_ones(plan) - seen) >= len(_ones(plan))


def _one_new(plan: Plan, seen: set[object]) -> bool:
    return not _ones(plan) <= seen


def _two_new(plan: Plan, seen: set[object]) -> bool:
    return not _twos(plan) <= seen


def _below(draw: st.DrawFn, count: int) -> int:
    """Draw a number below *count* by tosses of a coin, all about equally often.

    Among the integers that Hypothesis draws itself are constants from the modules that happen to be imported: equal
    seeds would give other plans in another process, and a folder with those constants would be left behind.
    """
    tosses = (count - 1).bit_length()
    if count & (count - 1):
        tosses += SPARE_TOSSES
    number = 0
    for _ in range(tosses):
        number = 2 * number + draw(COIN)
    return number * count >> tosses
