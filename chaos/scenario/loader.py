"""Read a `*.chaos.yaml` file: all of it is understood, or every problem is told with its place and nothing starts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

from pydantic import JsonValue

from chaos import registry
from chaos.checks import Terms
from chaos.errors import Kind, Problem, ScenarioError, did_you_mean
from chaos.scenario import ExpectedFailure, FaultSpec, Limits, Scenario, StrategySpec
from chaos.scenario.parse import parse
from chaos.scenario.positions import LINE_BREAKS, Loc, Mark, Problems
from chaos.scenario.reader import Reader
from chaos.scenario.schema import Document, Expect, Expected, LimitsPart
from chaos.scenario.template import Renderer
from chaos.targets import Target

_T = TypeVar("_T")

NO_MAPPING = "a scenario is a mapping that begins with 'version: 1'"
MAX_BYTES = 1 << 20  # a scenario is some kilobytes; more is another file given by mistake


def load(path: Path, seed: int | None = None, default_seed: int | None = None) -> Scenario:
    """Return the scenario in the file *path*; raise ScenarioError with a block `file:line:col: …` for each problem.

    Args:
        path: of the file; messages show it as it is given.
        seed: to use instead of the one in the file.
        default_seed: to use if the file has none.
    """
    return understand(path, _read(path), seed, default_seed)


def understand(path: Path, text: str, seed: int | None = None, default_seed: int | None = None) -> Scenario:
    """Return the scenario that *text* says, which is that of *path* for all messages; as `load` does."""
    problems = Problems(path, text)
    tree = parse(text, problems)
    if not isinstance(tree, dict):
        if tree is not None:
            problems.add((), NO_MAPPING, Kind.TYPE)
        problems.raise_if_any()
        raise ScenarioError((Problem(str(path), 1, 1, NO_MAPPING, Kind.TYPE),))
    return understand_values(tree, problems, seed, default_seed)


def understand_values(
    tree: dict[str, JsonValue], problems: Problems, seed: int | None = None, default_seed: int | None = None
) -> Scenario:
    """Return the scenario that the plain values *tree* say, as `load` does; *problems* knows their file and places."""
    renderer, rendered = _rendered(tree, problems, seed, default_seed)
    return _Sections(problems.path, rendered, Reader(problems)).scenario(renderer.seed)


def target_of(
    tree: dict[str, JsonValue], problems: Problems, seed: int | None = None, default_seed: int | None = None
) -> tuple[Target, int | None]:
    """Return the target of *tree*, which need say nothing else, and the seed; raise ScenarioError as `load` does."""
    renderer, rendered = _rendered(tree, problems, seed, default_seed)
    reader = Reader(problems)
    reader.read_target(rendered.get("target"), ("target",))
    problems.raise_if_any()
    if reader.target is None:
        raise AssertionError(f"{problems.path}: the target was refused without a problem")
    return reader.target, renderer.seed


def _rendered(
    tree: dict[str, JsonValue], problems: Problems, seed: int | None, default_seed: int | None
) -> tuple[Renderer, dict[str, JsonValue]]:
    given = tree.get("seed")
    own = given if isinstance(given, int) and not isinstance(given, bool) else None
    chosen = next((each for each in (seed, own, default_seed) if each is not None), None)
    renderer = Renderer(str(tree.get("scenario", "")), chosen, problems.path.parent)
    return renderer, renderer.document(tree, problems)


def _read(path: Path) -> str:
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise _unreadable(path, f"cannot be read: {reason}") from error
    return decoded(path, data)


def decoded(path: Path, data: bytes) -> str:
    """Return the text that *data* are, those of the file *path*; raise ScenarioError if they are none."""
    if len(data) > MAX_BYTES:
        raise _unreadable(path, f"larger than {MAX_BYTES >> 20} MiB; this is no scenario")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = LINE_BREAKS.split(data[: error.start].decode("utf-8-sig", "replace"))
        problems = Problems(path)
        mark, message = Mark(len(before) - 1, len(before[-1])), "not UTF-8 text; a scenario is a YAML file in UTF-8"
        problems.add_at(mark, message, Kind.UNREADABLE)
        problems.raise_if_any()
        raise


def _unreadable(path: Path, message: str) -> ScenarioError:
    return ScenarioError((Problem(str(path), 0, 0, message, Kind.UNREADABLE),))


class _Sections:
    """The sections of one document, read in the order in which they need each other."""

    def __init__(self, path: Path, tree: dict[str, JsonValue], reader: Reader) -> None:
        self.path = path
        self.tree = tree
        self.reader = reader
        self.problems = reader.problems
        self.checks = tuple(registry.names("checks"))

    def scenario(self, seed: int | None) -> Scenario:
        """Return the scenario, or raise ScenarioError with all problems."""
        document = self.reader.part(Document, self.tree, ())
        if "target" in self.tree:
            self.reader.read_target(self.tree["target"], ("target",))
        strategies = [self.reader.strategy(raw, loc) for raw, loc in self._items("strategies")]
        faults = [self.reader.fault(raw, loc) for raw, loc in self._items("faults")]
        self._labels(strategies, faults)
        expect = self.reader.part(Expect, self.tree.get("expect", {}), ("expect",))
        self._checks()
        expected = [self._expected(raw, loc, strategies, faults) for raw, loc in self._items("expected_failures")]
        limits = self.reader.part(LimitsPart, self.tree.get("limits", {}), ("limits",))
        self.problems.raise_if_any()
        target = self.reader.target
        if document is None or target is None or expect is None or limits is None:
            raise AssertionError(f"{self.path}: a part was refused without a problem")
        return Scenario(
            path=self.path,
            name=document.scenario,
            description=document.description,
            tags=tuple(document.tags),
            target=target,
            strategies=_some(strategies),
            faults=_some(faults),
            checks=self.checks,
            terms=_terms(expect),
            volatile=tuple(expect.volatile),
            expected=_some(expected),
            limits=Limits(limits.backoff_limit, limits.backoff, limits.deadline, limits.memory, limits.heartbeat),
            runs=document.runs,
            seed=seed,
        )

    def _items(self, key: str) -> Iterator[tuple[JsonValue, Loc]]:
        section = self.tree.get(key)
        for index, raw in enumerate(section if isinstance(section, list) else []):
            yield raw, (key, index)

    def _labels(self, strategies: Sequence[StrategySpec | None], faults: Sequence[FaultSpec | None]) -> None:
        """Report labels that would name two things: results and plans know a cell by its labels alone."""
        seen: dict[str, object] = {}
        for index, strategy in enumerate(strategies):
            if strategy and seen.setdefault(strategy.label, index) != index:
                self.problems.add(("strategies", index), f"{strategy.label!r} is there twice", Kind.DUPLICATE)
        seen = {}
        for index, fault in enumerate(faults):
            if fault and seen.setdefault(fault.label, fault.fault) is not fault.fault:
                message = f"two faults are called {fault.label!r}; give this one a `name:` of its own"
                self.problems.add(("faults", index, "name"), message, Kind.DUPLICATE)
        for index, fault in enumerate(faults):
            for each in _following(fault) if fault else ():
                if seen.setdefault(each.label, each.fault) != each.fault:
                    message = f"{each.label!r} is another fault elsewhere; give this one a `name:` of its own"
                    self.problems.add(("faults", index, "then"), message, Kind.DUPLICATE)

    def _checks(self) -> None:
        expect = self.tree.get("expect")
        wanted = expect.get("checks") if isinstance(expect, dict) else None
        self.reader.names(wanted, ("expect", "checks"), self.checks, "check")
        if isinstance(wanted, list) and wanted and set(map(str, wanted)) <= set(self.checks):
            self.checks = tuple(map(str, wanted))

    def _expected(
        self,
        raw: JsonValue,
        loc: Loc,
        strategies: Sequence[StrategySpec | None],
        faults: Sequence[FaultSpec | None],
    ) -> ExpectedFailure | None:
        for key in ("breaks", "may_break"):
            if isinstance(raw, dict):
                self.reader.names(raw.get(key), (*loc, key), self.checks, "check of this scenario is called")
        part = self.reader.part(Expected, raw, loc)
        if part is None:
            return None
        if not part.breaks and not part.may_break:
            message = "says nothing; name the checks that fail under `breaks:` or `may_break:`"
            self.problems.add(loc, message, Kind.EXPECTATION)
        for check in set(part.breaks) & set(part.may_break):
            message = f"{check!r} cannot both have to break and be allowed to"
            self.problems.add((*loc, "may_break"), message, Kind.EXPECTATION)
        if self.reader.target is not None:  # else nobody knows its strategies
            self._cell((*loc, "strategy"), part.strategy, strategies, "strategy", "strategies")
        if part.fault:
            self._cell((*loc, "fault"), part.fault, faults, "fault", "faults")
        return ExpectedFailure(
            part.strategy, part.fault, tuple(part.breaks), tuple(part.may_break), part.because, part.issue
        )

    def _cell(
        self, loc: Loc, name: str, specs: Sequence[StrategySpec | FaultSpec | None], what: str, plural: str
    ) -> None:
        """Report *name* if it is the label or kind of none of *specs*, unless one that was refused may be meant."""
        if not specs:
            return  # told already
        known: set[str] = set()
        for spec in specs:
            if spec is not None:
                known |= {spec.label, spec.kind if isinstance(spec, FaultSpec) else spec.name}
        if name in known or (None in specs and name in registry.names(plural)):
            return
        if None not in specs:
            message = f"no {what} of this scenario is called {name!r}; {did_you_mean(name, known)}"
            self.problems.add(loc, message, Kind.UNKNOWN_NAME)
        elif name.split(":")[0] not in registry.names(plural) and name not in self._names_given():
            message = f"unknown {what} {name!r}; {did_you_mean(name, registry.names(plural))}"
            self.problems.add(loc, message, Kind.UNKNOWN_NAME)

    def _names_given(self) -> set[str]:
        faults = [raw for raw, _ in self._items("faults") if isinstance(raw, dict)]
        return {str(raw.get(key)) for raw in faults for key in ("name", "kind")}


def _some(found: Iterable[_T | None]) -> tuple[_T, ...]:
    return tuple(each for each in found if each is not None)


def _following(fault: FaultSpec) -> Iterator[FaultSpec]:
    for each in fault.then:
        yield each
        yield from _following(each)


def _terms(expect: Expect) -> Terms:
    return Terms(expect.max_lost_steps, expect.max_tokens_asked_again, expect.max_recovery, expect.effects)
