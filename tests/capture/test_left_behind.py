"""Where runs are derived, nothing is left: when it is closed, after an interrupt, after an error."""

from __future__ import annotations

import os
import random
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from chaos.capture.chain import Chain
from chaos.capture.convergence import Convergence
from chaos.capture.moments import Recorder
from chaos.capture.shelf import Shelf
from chaos.errors import HarnessError
from chaos.leftovers import PREFIX
from chaos.plan import parse_plan
from chaos.world.server import World
from tests import toy
from tests.bench import remains
from tests.capture.recorded import Toy, recorded, setup_of

STEPS = 6  # enough for the toy to be equal twice in a row after most deaths


def here() -> list[str]:
    """Return everything of ours on this machine that is there for a run, or a recorded one."""
    folders = Path(tempfile.gettempdir()).glob(f"{PREFIX}{os.getpid()}-*")
    descriptors = [f"/proc/self/fd/{name}" for name in os.listdir("/proc/self/fd")]
    opened = [os.readlink(name) for name in descriptors if os.path.islink(name)]
    files = [name for name in opened if "captures-" in name or name.endswith("journal.jsonl")]
    sockets = {name.removeprefix("socket:[").removesuffix("]") for name in opened}
    claims = [line.split() for line in Path("/proc/net/unix").read_text().splitlines() if "@chaos-port-" in line]
    claimed = [words[-1] for words in claims if words[-2] in sockets]
    return sorted([*remains.of_a_run(os.getpid()), *map(str, folders), *claimed, *files])


def breaking(monkeypatch: pytest.MonkeyPatch, of: Any, method: str, number: int, error: type[BaseException]) -> None:
    """Have the call of that *number* (from 1) of a *method* raise *error*, and no other."""
    calls, real = iter(range(1, 10**6)), getattr(of, method)

    def broken(*given: Any, **named: Any) -> Any:
        if next(calls) == number:
            raise error("broken by the test")
        return real(*given, **named)

    monkeypatch.setattr(of, method, broken)


MOMENTS = {
    "at the first capture": (Recorder, "taken_before", 1),
    "while recording": (Recorder, "standing", 7),
    "in a capture": (Shelf, "take", 7),
    "while it is put back": (World, "recall", 1),
    "in the middle of a derived run": (Convergence, "standing", 2),
    "in a real one": (Chain, "standing", 9),
}


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("error", [KeyboardInterrupt, HarnessError, ZeroDivisionError])
def test_nothing_is_left_after_an_interrupt_or_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str, error: type[BaseException]
) -> None:
    before = here()
    breaking(monkeypatch, *MOMENTS[moment], error)
    plans = [parse_plan("kill@1/after_act"), parse_plan("kill@4/after_act")]
    with (
        pytest.raises(error, match="broken by the test"),
        recorded(tmp_path, setup_of(Toy(steps=STEPS), "keeps"), toy.CHECKS) as made,
    ):
        made.derive(plans[0])
        list(made.deriver.kill(plans, random.Random(1), tmp_path / "real"))
    assert here() == before


def test_nothing_is_left_when_it_is_closed(tmp_path: Path) -> None:
    before = here()
    with recorded(tmp_path, setup_of(Toy(steps=STEPS), "keeps")) as made:
        made.derive("kill@1/after_act")
        there = os.listdir(tempfile.gettempdir())
        assert any(name.startswith(f"{PREFIX}{os.getpid()}-captures-") for name in there), "so this test shows nothing"
        made.deriver.close()
    assert here() == before


def test_a_run_that_failed_spoils_none_of_those_that_follow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = "kill@2/after_act"
    with recorded(tmp_path, setup_of(Toy(steps=STEPS), "keeps"), toy.CHECKS) as made:
        right = made.told(made.derive(plan).record, plan)
        for of, method in ((Convergence, "standing"), (World, "recall"), (Shelf, "current"), (Shelf, "put_back")):
            with monkeypatch.context() as patched:
                breaking(patched, of, method, 1, ZeroDivisionError)
                with suppress(ZeroDivisionError):
                    made.derive("kill@4/after_act")
                    pytest.fail("nothing was broken, so this test shows nothing")
            assert made.told(made.derive(plan).record, plan) == right
