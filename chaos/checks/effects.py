"""Did every effect on the outside world happen exactly once?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from chaos.checks import Terms
from chaos.checks._diff import DID_NOT_FINISH, Difference, short, times, unfinished, verdict
from chaos.verdict import Verdict

if TYPE_CHECKING:
    from chaos.events.seen import Effected
    from chaos.record import Record
    from chaos.targets import Facts


@dataclass(frozen=True)
class Effects:
    """Every effect of the crash-free run happens as often as there, none else does, and in the same order.

    A call that the service recognised by its idempotency key is no effect. Effects too many are told even of a run
    that did not finish: no later step takes an e-mail back.
    """

    def check(self, run: Record, reference: Record, terms: Terms, facts: Facts) -> Verdict:
        if unfinished(run):
            too_many = list(commissions(run, reference, terms))
            return verdict(too_many) if too_many else DID_NOT_FINISH
        return verdict([*differences(run, reference, terms), *_never_done(run, reference, facts)])


def differences(run: Record, reference: Record, terms: Terms) -> list[Difference]:
    """Return the effects done too often, unexpectedly, too seldom, or in another order."""
    found = [*commissions(run, reference, terms), *omissions(run, reference)]
    return found or list(_order(run, reference))  # the order of incomplete lists tells nothing new


def commissions(run: Record, reference: Record, terms: Terms) -> Iterator[Difference]:
    """Yield the effects that happened more often than in *reference*."""
    done, expected = _ledger(run), _ledger(reference)
    for identity, occurrences in done.items():
        count, wanted = len(occurrences), len(expected.get(identity, ()))
        (effect, step), details = occurrences[-1], tuple(_line(*one) for one in occurrences)
        if wanted == 0:
            yield Difference(f"{_name(effect)} happened{_in(step)}, which the reference never did", details)
        elif count > wanted and terms.effects != "at-least-once":
            yield Difference(f"{_name(effect)} happened {times(count)} instead of {times(wanted)}{_in(step)}", details)


def omissions(run: Record, reference: Record) -> Iterator[Difference]:
    """Yield the effects that happened less often than in *reference*."""
    done = Counter(identity for identity, occurrences in _ledger(run).items() for _ in occurrences)
    for identity, occurrences in _ledger(reference).items():
        (effect, step), details = occurrences[-1], tuple(_line(*one) for one in occurrences)
        if not done[identity]:
            yield Difference(f"{_name(effect)} never happened{_in(step)}", details)
        elif done[identity] < len(occurrences):
            how_often = f"{times(done[identity])} instead of {times(len(occurrences))}"
            yield Difference(f"{_name(effect)} happened {how_often}{_in(step)}", details)


def _order(run: Record, reference: Record) -> Iterator[Difference]:
    done, expected = _ledger(run), _ledger(reference)
    for identity, right in zip(done, expected, strict=False):
        if identity != right:
            (effect, step), (other, _) = done[identity][0], expected[right][0]
            details = tuple(f"{_line(*done[one][0])}   reference: {_line(*expected[two][0])}"
                            for one, two in zip(done, expected, strict=False))  # fmt: skip
            yield Difference(f"{_name(effect)} came before {_name(other)}{_in(step)}", details)
            return


def _never_done(run: Record, reference: Record, facts: Facts) -> Iterator[Difference]:
    """Yield what the goal needs and neither run did: the reference does not excuse it."""
    known = _ledger(run).keys() | _ledger(reference).keys()
    yield from (
        Difference(f"{short(one)} never happened; the goal needs it") for one in facts.required if one not in known
    )


def _ledger(run: Record) -> dict[str, list[tuple[Effected, int | None]]]:
    """Return the effects that changed something, with their steps, by identity in order of the first of each."""
    ledger: dict[str, list[tuple[Effected, int | None]]] = {}
    for effect, step in zip(run.effects, run.effect_steps, strict=True):
        if not effect.deduplicated:
            ledger.setdefault(effect.identity, []).append((effect, step))
    return ledger


def _name(effect: Effected) -> str:
    return f"{effect.service}.{effect.operation}"


def _in(step: int | None) -> str:
    return "" if step is None else f" (step {step})"


def _line(effect: Effected, step: int | None) -> str:
    key = f", key {effect.key}" if effect.key else ", no idempotency key"
    return f"{_name(effect)} in attempt {effect.attempt}{_in(step)}{key}: {short(effect.payload)}"
