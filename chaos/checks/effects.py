"""Did every effect on the outside world happen exactly once?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Set
from dataclasses import dataclass
from typing import TYPE_CHECKING

from chaos.checks import Terms
from chaos.checks._diff import DID_NOT_FINISH, Difference, short, times, unfinished, verdict
from chaos.events.seen import Effected
from chaos.verdict import Verdict

if TYPE_CHECKING:
    from chaos.record import Record
    from chaos.targets import Facts


@dataclass(frozen=True)
class Effects:
    """Every effect of the crash-free run happens as often as there, none else does, and in the same order.

    A call that the service recognised by its idempotency key is no effect. Effects too many are told even of a run
    that did not finish: no later step takes an e-mail back. Where the target says how often one may happen at most, the
    crash-free run may not do it more often either.
    """

    def check(self, run: Record, reference: Record, terms: Terms, facts: Facts) -> Verdict:
        too_often = list(_too_often(run, facts))
        if unfinished(run):
            too_many = [*commissions(run, reference, terms), *too_often]
            return verdict(too_many) if too_many else DID_NOT_FINISH
        return verdict([*differences(run, reference, terms), *too_often, *_never_done(run, reference, facts)])


def differences(run: Record, reference: Record, terms: Terms) -> list[Difference]:
    """Return the effects done too often, unexpectedly, too seldom, or in another order."""
    found = [*commissions(run, reference, terms), *omissions(run, reference)]
    return found or list(_order(run, reference))  # the order of incomplete lists tells nothing new


def commissions(run: Record, reference: Record, terms: Terms) -> Iterator[Difference]:
    """Yield the effects that happened more often than in *reference*."""
    for identity in _first_first([one for one, more in _surplus(run, reference).items() if more > 0], run):
        occurrences, wanted = _occurrences(run, identity), len(_occurrences(reference, identity))
        (effect, step), details = occurrences[-1], tuple(_line(*one) for one in occurrences)
        if wanted == 0:
            yield Difference(f"{_name(effect)} happened{_in(step)}, which the reference never did", details)
        elif terms.effects != "at-least-once":
            often = f"{times(len(occurrences))} instead of {times(wanted)}"
            yield Difference(f"{_name(effect)} happened {often}{_in(step)}", details)


def omissions(run: Record, reference: Record) -> Iterator[Difference]:
    """Yield the effects that happened less often than in *reference*."""
    for identity in _first_first([one for one, more in _surplus(run, reference).items() if more < 0], reference):
        occurrences, count = _occurrences(reference, identity), len(_occurrences(run, identity))
        (effect, step), details = occurrences[-1], tuple(_line(*one) for one in occurrences)
        if not count:
            yield Difference(f"{_name(effect)} never happened{_in(step)}", details)
        else:
            how_often = f"{times(count)} instead of {times(len(occurrences))}"
            yield Difference(f"{_name(effect)} happened {how_often}{_in(step)}", details)


def _order(run: Record, reference: Record) -> Iterator[Difference]:
    place, there, here = run.index.instead(Effected, reference.index)
    known = reference.index.groups(Effected, "done", done)
    before = {one for one in _identities([*there, *here]) if one in known and known[one][0] < place}
    if _firsts(here, before) == _firsts(there, before):
        return
    ledger, expected = ([*dict.fromkeys(_identities(each.effects))] for each in (run, reference))
    for identity, right in zip(ledger, expected, strict=False):
        if identity != right:
            (effect, step), (other, _) = _occurrences(run, identity)[0], _occurrences(reference, right)[0]
            details = tuple(
                f"{_line(*_occurrences(run, one)[0])}   reference: {_line(*_occurrences(reference, two)[0])}"
                for one, two in zip(ledger, expected, strict=False)
            )
            yield Difference(f"{_name(effect)} came before {_name(other)}{_in(step)}", details)
            return


def _too_often(run: Record, facts: Facts) -> Iterator[Difference]:
    """Yield the effects that happened more often than they may in any run, whatever the reference did."""
    most = dict(facts.most)
    ledger = run.index.groups(Effected, "done", done) if most else {}
    for identity in [one for one in ledger if isinstance(one, str)]:
        occurrences = _occurrences(run, identity)
        (effect, step) = occurrences[-1]
        if len(occurrences) > most.get(_name(effect), len(occurrences)):
            often = f"{times(len(occurrences))}; {times(most[_name(effect)])} is right"
            yield Difference(f"{_name(effect)} happened {often}{_in(step)}", tuple(_line(*one) for one in occurrences))


def _never_done(run: Record, reference: Record, facts: Facts) -> Iterator[Difference]:
    """Yield what the goal needs and neither run did: the reference does not excuse it."""
    known = reference.index.groups(Effected, "done", done)
    missing = [one for one in facts.required if one not in known and not _occurrences(run, one)]
    yield from (Difference(f"{short(one)} never happened; the goal needs it") for one in missing)


def done(effect: Effected) -> str | None:
    """Return the identity of *effect*; None if the service recognised it and did nothing."""
    return None if effect.deduplicated else effect.identity


def _identities(effects: Iterable[Effected]) -> Iterator[str]:
    """Return the identities of the effects that changed something."""
    return (effect.identity for effect in effects if not effect.deduplicated)


def _surplus(run: Record, reference: Record) -> Counter[str]:
    """Return how often more than in *reference* effects happened, by identity; where they did as often there is 0."""
    _, there, here = run.index.instead(Effected, reference.index)
    surplus = Counter(_identities(here))
    surplus.subtract(_identities(there))
    return surplus


def _occurrences(run: Record, identity: str) -> list[tuple[Effected, int | None]]:
    """Return the effects of that identity that changed something, with their steps."""
    found = run.index.having(Effected, "done", done, identity)
    return [(effect, run.index.step_at(place)) for place, effect in found]


def _first_first(identities: Iterable[str], run: Record) -> list[str]:
    """Return *identities* in the order in which they first happened in *run*."""
    return sorted(identities, key=lambda one: run.index.having(Effected, "done", done, one)[0][0])


def _firsts(effects: Iterable[Effected], before: Set[str]) -> list[str]:
    """Return the identities in the order in which they first happen, without those that did *before*."""
    return [one for one in dict.fromkeys(_identities(effects)) if one not in before]


def _name(effect: Effected) -> str:
    return f"{effect.service}.{effect.operation}"


def _in(step: int | None) -> str:
    return "" if step is None else f" (step {step})"


def _line(effect: Effected, step: int | None) -> str:
    key = f", key {effect.key}" if effect.key else ", no idempotency key"
    return f"{_name(effect)} in attempt {effect.attempt}{_in(step)}{key}: {short(effect.payload)}"
