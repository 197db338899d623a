"""`pytest-chaos record`: an agent runs once with its real model, and a cassette keeps what the model said."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from chaos.plugins.commands import BROKEN, OK

HELP = "run an agent once with its real model, and keep what the model said for campaigns"
EPILOG = """The agent must find its model by OPENAI_BASE_URL, ANTHROPIC_BASE_URL or GOOGLE_GEMINI_BASE_URL, as the
providers' SDKs do. Keys go to the provider and are masked in FILE. With --scenario its agent runs, in folders of its
own, and its services answer: a campaign will show the model the same results. In the scenario, `cassette: FILE` stands
for `turns`.
exit codes: 0 recorded; 1 the agent failed, or its model said nothing; 2 wrong input"""

PROVIDERS: Mapping[str, str] = {
    "openai": "https://api.openai.com/v1",
    "anthropic": "https://api.anthropic.com",
    "gemini": "https://generativelanguage.googleapis.com",
}
VARIABLES: Mapping[str, str] = {
    "openai": "OPENAI_BASE_URL", "anthropic": "ANTHROPIC_BASE_URL", "gemini": "GOOGLE_GEMINI_BASE_URL",
}  # fmt: skip
KEYS = ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY")
SECRET_ENDINGS = ("_KEY", "_TOKEN", "_SECRET", "_PASSWORD")  # of variables whose values are masked everywhere


class Run(NamedTuple):
    """The agent: its command, its whole environment and the folder in which it starts."""

    words: tuple[str, ...]
    env: dict[str, str]
    folder: Path


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("--to", type=Path, required=True, metavar="FILE", help="the cassette to write")
    parser.add_argument(
        "--provider", metavar="NAME|URL", default="",
        help="openai, anthropic, gemini or a URL; default: by the path, where the agent's environment says so itself",
    )  # fmt: skip
    parser.add_argument("--scenario", type=Path, metavar="FILE", help="record the agent of a scenario")
    parser.add_argument("--force", action="store_true", help="replace the cassette if there is one")
    parser.add_argument("words", nargs="*", metavar="-- COMMAND", help="the agent and its arguments")


def run(options: argparse.Namespace) -> int:
    """Record, and say what was recorded."""
    import subprocess

    from chaos.errors import ChaosError, HarnessError
    from chaos.world.recorder import Recorder

    to: Path = options.to
    if bool(options.words) == bool(options.scenario):
        raise HarnessError("name the agent: `record --to FILE -- COMMAND`, or --scenario FILE for that of a scenario")
    if to.exists() and to.stat().st_size and not options.force:
        raise HarnessError(f"{to}: there is a cassette; --force replaces it")
    _begin(to)
    secrets = [text for name, text in os.environ.items() if name.endswith(SECRET_ENDINGS)]
    try:
        with (
            _agent(options) as agent,
            Recorder(to, lambda path: _provider(options.provider, path), secrets) as recorder,
        ):
            try:
                code = subprocess.run(
                    agent.words, env=agent.env | recorder.env(), cwd=agent.folder, check=False
                ).returncode
            except OSError as error:
                raise HarnessError(f"{agent.words[0]}: cannot be started: {error.strerror}") from None
    except ChaosError:
        if not to.stat().st_size:
            to.unlink()
        raise
    return _told(to, code)


def _begin(to: Path) -> None:
    """Make an empty cassette, which a scenario that names it can be read with."""
    from chaos.errors import HarnessError

    try:
        to.write_bytes(b"")
    except OSError as error:
        raise HarnessError(f"{to}: cannot be written: {error.strerror}") from None


def _provider(given: str, path: str) -> str:
    """Return the URL of the provider for *path*: the one that is *given*, or that of the endpoint."""
    from chaos.world.dialects import errors_of

    if given:
        return PROVIDERS.get(given, given)
    style = errors_of(path).STYLE
    return os.environ.get(VARIABLES[style]) or PROVIDERS[style]


@contextmanager
def _agent(options: argparse.Namespace) -> Iterator[Run]:
    """Yield the agent: the command as it is, or that of a scenario as a campaign starts it, but with the real keys."""
    if options.words:
        yield Run(tuple(options.words), dict(os.environ), Path())
        return
    from chaos import leftovers
    from chaos.errors import HarnessError
    from chaos.journal import Journal
    from chaos.ports import claimed
    from chaos.rig import agent_environment
    from chaos.sandbox import Watch
    from chaos.scenario.loader import load
    from chaos.targets.command import PLACES, Command
    from chaos.targets.command.script import Script
    from chaos.world.server import World

    scenario = load(options.scenario)
    target = scenario.target
    if not isinstance(target, Command):
        raise HarnessError(f"{options.scenario}: its target is no command, so its model is no real one")
    root = leftovers.folder("record-")
    try:
        for place in PLACES:
            (root / place).mkdir()
        journal = Journal(root / "journal.jsonl")
        with claimed(target.ports) as ports, World(Script((), target.services, target.goal), journal) as world:
            launch = target.launch(scenario.strategies[0].strategy, scenario.seed or 0, root)
            keys = {name: os.environ[name] for name in KEYS if name in os.environ}
            env = agent_environment(root, launch, world, Watch(ports=ports))
            yield Run(launch.command, env | keys, root / "workspace")
    finally:
        leftovers.surely(lambda: leftovers.remove(root))


def _told(to: Path, code: int) -> int:
    """Print what *to* holds now, and return the exit code where the agent ended with *code*."""
    from chaos.world.cassette import Cassette, exchanges

    found = exchanges(to)
    cassette = Cassette(found, to.name)
    answered = sum(exchange.said() is not None and exchange.prompt() is not None for exchange in found)
    print(f"{to}: {len(found)} exchanges, {len(cassette)} prompts with an answer")
    if left := len(found) - answered:
        print(f"{left} exchanges hold none, and will not be answered: refusals, other endpoints, prompts with images")
    if cassette.ambiguous:
        print(f"{cassette.ambiguous} prompts were answered in several ways: the last answer is the one that is given")
    if not len(cassette):
        print(f"the model said nothing: does the agent find it by {', '.join(VARIABLES.values())}?")
    if code:
        print(f"the agent ended with {code}")
    if code or not len(cassette):
        return BROKEN
    print(f"in a scenario: target: {{command: {{run: [...], cassette: {to}}}}}")
    return OK
