"""`pytest-chaos doctor`: what this machine can do, tried for real, and the remedy for what it cannot.

Exit codes: 0 the main job can run: every fault of `MAIN_FAULTS` lands through some back end on every strategy of
`MAIN_STRATEGIES`; 1 it cannot.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import shutil
import typing
from collections.abc import Collection, Iterator, Mapping

from chaos import registry
from chaos.faults import Fault
from chaos.pool import Pool
from chaos.sandbox import Able, Backend, backends
from chaos.targets import Strategy

OK, LACKING = 0, 1
VERSION = 1  # of the JSON format: readers ignore what they do not know
MAIN_FAULTS = ("kill", "oom_kill", "evict", "rate_limit", "corrupt_delta")
MAIN_STRATEGIES = ("chat_history", "full_snapshot", "delta", "cow")
"""What is run in CI without a server or a package beside our own."""

WORDS = {
    "sandbox": "sandbox",
    "process_tree": "own process tree",
    "memory_limit": "OOM kill",
    "hostname": "new hostname",
    "shared_disk": "two agents on one disk",
    "clock": "movable clock (libfaketime)",
    "disk_image": "disk of its own",
    "ptrace": "strace",
    "syscalls": "held system calls",
}
"""What a power of `Able` is called; one without an entry by its own name."""

FILE_SYSTEMS = ("ext4", "xfs")
NO_REASON = frozenset({"memory_controller"})  # says which, not whether
BY_DEFAULT = {
    "toxiproxy-server": "not on the PATH: the built-in proxy is used; put one there with `.ci/toxiproxy DIR`, or name"
    " a running one by --chaos-toxiproxy",
}

Reasons = Mapping[str, str]
"""Why something cannot be, by what it would be; "" where it can."""


@dataclasses.dataclass(frozen=True)
class Examination:
    """What was found.

    Args:
        powers: back end to its powers.
        programs: servers and tools.
        faults, strategies: name to back ends: why it does not land, or run, there.
        main: the main job's "STRATEGY x FAULT" that cannot run, and why.
    """

    powers: Mapping[str, Reasons]
    programs: Reasons
    faults: Mapping[str, Reasons]
    strategies: Mapping[str, Reasons]
    main: Reasons


def run(options: argparse.Namespace) -> int:
    """Carry out the command with its parsed *options*."""
    if options.clean:
        return _clean()
    found = examine()
    if options.format == "json":
        print(json.dumps({"v": VERSION, **dataclasses.asdict(found), "main_job": not found.main}, indent=2))
    else:
        print("\n".join(render(found)))
    return LACKING if found.main else OK


def examine() -> Examination:
    """Try everything, once."""
    pool = Pool()
    all_ = backends.candidates(backends.AUTO)
    able = {backend.name: backend.able() for backend in all_}
    faults = {name: _made("faults", name) for name in registry.names("faults")}
    strategies = dict(_strategies(pool))
    return Examination(
        powers={name: dict(_powers(can)) for name, can in able.items()},
        programs=dict(_programs(pool)),
        faults={
            name: {each: can.sandbox or fault.missing(can) for each, can in able.items()}
            for name, fault in faults.items()
        },
        strategies={
            name: {each.name: able[each.name].sandbox or _lacks(one, pool) or each.unsuited(one) for each in all_}
            for name, one in strategies.items()
        },
        main=dict(_main(all_, faults, pool)),
    )


def _made(kind: str, name: str) -> typing.Any:
    return registry.load(kind, name)()


def _powers(able: Able) -> Iterator[tuple[str, str]]:
    """Yield each power and why it is not there, whatever powers there are."""
    for field in dataclasses.fields(Able):
        value, name = getattr(able, field.name), WORDS.get(field.name, field.name.replace("_", " "))
        if callable(value):
            yield from ((f"{name}, {kind}", value(kind)) for kind in FILE_SYSTEMS)
        elif field.name not in NO_REASON:
            yield name, value


def _programs(pool: Pool) -> Iterator[tuple[str, str]]:
    from chaos.sandbox.docker import engine

    yield from ((name, pool.missing(name)) for name in registry.names("servers"))
    yield from ((name, "" if shutil.which(name) else reason) for name, reason in BY_DEFAULT.items())
    yield "criu", registry.load("strategies", "semantic")(processes="criu").missing()
    yield "docker", engine.unreachable()


def _strategies(pool: Pool) -> Iterator[tuple[str, Strategy]]:
    """Yield every strategy by its label, and those of its variants that need something else."""
    for name in registry.names("strategies"):
        kind = registry.load("strategies", name)
        plain: Strategy = kind()
        yield name, plain
        hints = typing.get_type_hints(kind)
        for field in dataclasses.fields(kind):
            for value in typing.get_args(hints[field.name]) if isinstance(field.default, str) else ():
                variant: Strategy = kind(**{field.name: value})
                needs = (variant.needs, _lacks(variant, pool), variant.outside)
                if needs != (plain.needs, _lacks(plain, pool), plain.outside):
                    yield f"{name}: {{{field.name}: {value}}}", variant


def _lacks(strategy: Strategy, pool: Pool) -> str:
    return strategy.missing() or next(filter(None, map(pool.missing, strategy.needs)), "")


def _main(all_: tuple[Backend, ...], faults: Mapping[str, Fault], pool: Pool) -> Iterator[tuple[str, str]]:
    """Yield what of the main job cannot run, and why."""
    for strategy in MAIN_STRATEGIES:
        one: Strategy = _made("strategies", strategy)
        for fault in MAIN_FAULTS:
            if reason := _lacks(one, pool) or backends.choose(all_, one, faults[fault].missing)[1]:
                yield f"{strategy} x {fault}", reason


def _clean() -> int:
    """Remove what we keep in Docker: the image, and what killed harnesses left."""
    from chaos.sandbox.docker import engine

    if reason := engine.unreachable():
        print(f"nothing removed: {reason}")
        return LACKING
    engine.sweep()
    print(f"Docker: images removed: {engine.remove_images()}; containers and volumes of dead campaigns are gone")
    return OK


# -- as text


def render(found: Examination) -> list[str]:
    """Return the lines that tell a person."""
    lines, down = [], {name for name, powers in found.powers.items() if powers[WORDS["sandbox"]]}
    for name, powers in found.powers.items():
        shown = {WORDS["sandbox"]: powers[WORDS["sandbox"]]} if name in down else powers
        lines += _section(f"back end {name}", {power: (why, "") for power, why in shown.items()})
    lines += _section("servers and tools", {name: (why, "") for name, why in found.programs.items()})
    lines += _section("faults", {name: _through(by, down) for name, by in found.faults.items()})
    lines += _section("strategies", {name: _through(by, down) for name, by in found.strategies.items()})
    if not found.main:
        return [*lines, f"the main job can run: {', '.join(MAIN_FAULTS)} on {', '.join(MAIN_STRATEGIES)}"]
    reasons: dict[str, list[str]] = {}
    for what, why in found.main.items():
        reasons.setdefault(why, []).append(what)
    return [*lines, "the main job cannot run:", *(f"  {', '.join(what)}: {why}" for why, what in reasons.items())]


def _through(by: Reasons, down: Collection[str]) -> tuple[str, str]:
    """Return why no back end will do, "" if one does; and which ones do. Nothing is said of those that are *down*."""
    good = [each for each, reason in by.items() if not reason]
    bad = {each: reason for each, reason in by.items() if reason and (each not in down or len(down) == len(by))}
    lacks = [f"not {each}: {reason}" for each, reason in bad.items()]
    if good:
        return "", "; ".join([", ".join(good), *lacks])
    return next(iter(bad.values())) if len(set(bad.values())) == 1 else "; ".join(lacks), ""


def _section(title: str, rows: Mapping[str, tuple[str, str]]) -> list[str]:
    """Return a headline and a line for each of *rows*: why it cannot be, or how it can."""
    width = max(map(len, rows))
    lines = [
        f"  {name.ljust(width)}  {'cannot' if why else 'can   '}  {why or how}".rstrip()
        for name, (why, how) in rows.items()
    ]
    return [title, *lines, ""]
