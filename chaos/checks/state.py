"""Is the agent's state what it would have been?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from chaos.checks import Terms
from chaos.checks._diff import Difference, canonical, first_difference, json_diff, short, unfinished, verdict
from chaos.events.seen import Asked, Reached
from chaos.index import is_answered
from chaos.mask import masked
from chaos.verdict import Verdict, unknown

if TYPE_CHECKING:
    from chaos.journal import AnyEvent
    from chaos.mask import Json
    from chaos.record import Record
    from chaos.targets import Facts

_BEFORE_COMMIT = ("after_load", "before_think", "before_act", "after_act")


@dataclass(frozen=True)
class State:
    """After recovery the agent's state equals the crash-free one: when it resumes, in every prompt, at the end.

    At the end twice: as the living agent announces it, and as another process reads it from the store. Where the agent
    leaves what it held when it ended, that is what must be stored, in the crash-free run too. What another release of
    the agent changes by itself is left out: its system message, and what the target names of the state.
    """

    def check(self, run: Record, reference: Record, terms: Terms, facts: Facts) -> Verdict:
        if cannot := unfinished(run):
            return cannot
        if reference.final_snapshot is None and not reference.answered and not reference.is_read_back:
            return unknown("the reference announced no state, asked the model nothing, and stored nothing that is read")
        found = [
            *resume_differences(run, reference),
            *prompt_differences(run, reference),
            *turns_left_out(run, reference),
            *final_differences(run, reference),
            *stored_differences(run, reference),
        ]
        if not found and (lacks := _lacks(run, reference)):
            return unknown(lacks)
        return verdict(found)


def resume_differences(run: Record, reference: Record) -> Iterator[Difference]:
    """Yield the resumptions at a step with a state that the reference did not have between the commits around it.

    A store that commits inside of a step resumes inside of it, so the states of its first phases are right too. An
    agent's digest covers volatile fields as well: where some are declared, it says nothing.
    """
    if run.volatile:
        return
    for point in run.where(Reached, "loaded", lambda one: one.phase == "after_load" and one.state is not None):
        if point.attempt == 1 or (run.changes and run.is_released(point)):
            continue
        there = [(point.step - 1, "after_commit"), *((point.step, phase) for phase in _BEFORE_COMMIT)]
        right = {state for place in there for state in reference.states.get(place, ())}
        if right and point.state not in right:
            yield Difference(
                f"attempt {point.attempt} resumed at step {point.step} with a state that the reference had not there",
                (f"resumed with {point.state}", *(f"reference: {state}" for state in sorted(right))),
            )


def prompt_differences(run: Record, reference: Record, after: AnyEvent | None = None) -> list[Difference]:
    """Return the first answered request that shows the model something else than the reference did at that turn.

    Every request counts, those of a turn asked again too: each shows what the agent believed at that time.

    Args:
        after: only requests that came after this event.
    """
    there = reference.first_by_turn

    def is_other(request: Asked) -> bool:
        right = there.get(request.turn)
        return is_answered(request) and (right is None or right.prompt != request.prompt)

    others = run.where(Asked, "another prompt", is_other, against=reference, after=after)
    wrong = [request for request in others if not shows_the_same(request, there.get(request.turn), run, reference)]
    if not wrong:
        return []
    first, turns = wrong[0], sorted({request.turn for request in wrong})
    where = f"the prompt of turn {first.turn} (attempt {first.attempt})"
    more = (f"turns with another prompt: {', '.join(map(str, turns))}",) if len(turns) > 1 else ()
    expected = there.get(first.turn)
    if expected is None:
        return [Difference(f"the model was asked for turn {first.turn}, which the reference never had", more)]
    shown, wanted = run.prefixes(first), reference.prefixes(expected)
    index = shown.parts(wanted)
    if index is not None:
        message, right = run.message(shown[index]), reference.message(wanted[index])
        return [Difference(f"{where} differs from message {index} on", (*json_diff(message, right), *more))]
    if len(shown) == len(wanted):
        return [Difference(f"{where} differs, its messages do not", more)]
    return [Difference(f"{where} has {len(shown)} messages instead of {len(wanted)}", more)]


def shows_the_same(request: Asked, other: Asked | None, run: Record, reference: Record) -> bool:
    """Tell whether *request* of *run* shows the model what *other* of *reference* did.

    Once a prompt was refused as too long for the model, it may leave messages out; it may not change any.
    """
    if other is None or request.prompt == other.prompt:
        return other is not None
    if run.is_released(request) and run.bare(request) == reference.bare(other):
        return True  # a release has a system message of its own
    too_long = run.where(Asked, "too long", lambda earlier: earlier.refused == "context_length")
    if not any(earlier.at < request.at for earlier in too_long):
        return False
    there = map(reference.message, reference.prefixes(other))
    shown = map(run.message, run.prefixes(request))
    return all(message is not None and any(message == one for one in there) for message in shown)


def turns_left_out(run: Record, reference: Record) -> list[Difference]:
    """Return the turns of the reference for which the model was never asked."""
    missing = sorted(run.lacking_turns(reference))
    return [Difference(f"the model was never asked for turn {', '.join(map(str, missing))}")] if missing else []


def final_differences(run: Record, reference: Record) -> Iterator[Difference]:
    """Yield how the state at the end differs, live and after a cold reload, where both runs have one."""
    changes = run.changes
    if not run.ends_alike(reference):
        yield from _compare("the state at the end", run.final_state, reference.final_state, changes)
    if reference.reloaded is None or run.reloaded is None:
        return
    if run.reloaded.error and not reference.reloaded.error:
        yield Difference(f"the store cannot be read by another process: {_last_line(run.reloaded.error)}")
    if not run.reloads_alike(reference):
        what = "the state read back by another process"
        yield from _compare(what, run.reloaded_state, reference.reloaded_state, changes)


def stored_differences(run: Record, reference: Record) -> Iterator[Difference]:
    """Yield how what another process reads departs from what the agent itself held when it ended."""
    if run.reloaded is None or run.reloaded.error:
        return
    live, stored = run.live_state, run.reloaded_state
    if live is None:
        if reference.live_state is not None:
            yield Difference("the agent left no state of its own at its end, as the crash-free one did")
        return
    if canonical(live) != canonical(stored):
        path, how = first_difference(stored, live) or ("", "differs")
        finding = f"what another process reads is not what the agent held when it ended: {path or 'it'} {how}"
        yield Difference(finding, json_diff(stored, live))


def _compare(what: str, state: Json, reference: Json, changes: Sequence[str]) -> Iterator[Difference]:
    state, reference = masked(state, changes), masked(reference, changes)
    if state is None or reference is None or canonical(state) == canonical(reference):
        return
    path, how = first_difference(state, reference) or ("", "differs")
    yield Difference(f"{what} differs: {path or 'it'} {how}", json_diff(state, reference))


def _lacks(run: Record, reference: Record) -> str:
    """Return what the reference has and *run* does not, so that equality was not shown; "" if nothing."""
    if reference.final_snapshot is not None and run.final_snapshot is None:
        return "the run announced no state at its end"
    if reference.reloaded is not None and reference.reloaded.error:
        return f"the reference's own store could not be read: {_last_line(reference.reloaded.error)}"
    if reference.is_read_back and not run.is_read_back:
        return "no other process read the run's store"
    return ""


def _last_line(error: str) -> str:
    return short((error.strip().splitlines() or ["no message"])[-1])
