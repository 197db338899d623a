"""Any program as the agent, in any language, unchanged: how it is started, what its model says, what it may call.

It finds the model endpoint by the variables that the providers' SDKs read (OPENAI_BASE_URL, ANTHROPIC_BASE_URL,
GOOGLE_GEMINI_BASE_URL), the services below CHAOS_SERVICES_URL, and its folders by CHAOS_WORKSPACE, where it starts, and
CHAOS_DURABLE, which outlives its container. Faults hit at what it does: `at: {operation: model_call, n: every}`,
`at: {syscall: fsync, n: 3}`.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from chaos.errors import HarnessError, ScenarioError, UnknownName, did_you_mean
from chaos.sandbox import Watch
from chaos.targets import Facts, InProcess, Launch, Strategy
from chaos.targets.command.recorded import Recorded, cassette
from chaos.targets.command.script import Route, Script, Turn, endpoints
from chaos.world.routes import mistakes
from chaos.world.volatile import Volatile

if TYPE_CHECKING:
    from chaos.world import Brain

STRATEGY = "own"
PLACES = ("durable", "workspace", "tmp")
REQUESTS_FACTOR, REQUESTS_EXTRA = 2, 20  # each turn asked twice, and a few rounds more for several faults
_PLACEHOLDER = re.compile(r"\{(\w+)\}")


@dataclass(frozen=True)
class Own(InProcess):
    """Whatever the program does itself to come back; nothing is claimed for it."""

    claims: ClassVar[frozenset[str]] = frozenset()
    store: ClassVar[str] = ""
    _durable: bool = False

    @property
    def durable(self) -> bool:
        return self._durable


@dataclass(frozen=True)
class Command:
    """A program as the agent; its strategy is called `own`.

    In `run`, `resume`, `state` and the values of `env`, {durable}, {workspace} and {tmp} stand for its folders and
    {python} for the interpreter that runs the tests. In the values of `env`, {services} stands for CHAOS_SERVICES_URL:
    {services}/shop is the base URL of the service `shop`, {services}/mcp the MCP server's. `${{ here }}` is the folder
    of the scenario.

    Args:
        run: the program and its arguments.
        resume: the same for every incarnation after the first; `run` if not given.
        state: a program that prints what is stored as one JSON object: another process must read the right state.
        live: path of a file ("workspace/state.json") in which the program leaves the state that it holds when it
            ends, as JSON: what `state` prints must be the same, in the crash-free run too.
        env: variables that it needs besides those of the harness.
        ports: names of variables, each with a free TCP port that the program may listen on.
        goal: a text that every prompt must carry; "": none is looked for.
        deliverable: path of a file that must be there in the end ("workspace/report.md").
        turns: what the model answers, one after the other; a turn is found by the last call that a prompt shows, or
            by how many answers it shows.
        cassette: instead, a file of `pytest-chaos record`: the model answers the prompts in it, and refuses others.
        volatile_prompts: regular expressions of what may differ in prompts that are the same, as times and ids.
        services: what its calls are answered, by "NAME.OPERATION"; at `CHAOS_SERVICES_URL/NAME/OPERATION` by POST with
            a JSON object and the header Idempotency-Key, by routes of their own, and as tools of an MCP server.
            `mail.smtp` is a mail server at CHAOS_SMTP_HOST and CHAOS_SMTP_PORT; each message is a call of it.
    """

    run: tuple[str, ...] = ()
    resume: tuple[str, ...] = ()
    state: tuple[str, ...] = ()
    live: str = ""
    env: Mapping[str, str] = field(default_factory=dict)
    ports: tuple[str, ...] = ()
    goal: str = ""
    deliverable: str = ""
    turns: tuple[Turn, ...] = ()
    cassette: str = ""
    volatile_prompts: tuple[str, ...] = ()
    services: Mapping[str, Route] = field(default_factory=dict)

    def __post_init__(self) -> None:
        wrong: list[str] = []
        own = (*PLACES, "python")
        commands = [(text, own) for text in (*self.run, *self.resume, *self.state)]
        for text, known in [*commands, *((text, (*own, "services")) for text in self.env.values())]:
            unknown = [name for name in _PLACEHOLDER.findall(text) if name not in known]
            wrong += (f"no placeholder {{{name}}} ({text!r}); {did_you_mean(name, known)}" for name in unknown)
        wrong += (
            f"a service is named NAME.OPERATION, as mail.send (got {name!r})"
            for name in self.services
            if not re.fullmatch(r"[\w-]+\.[\w-]+", name)
        )
        if not wrong:
            wrong += mistakes(endpoints(self.services))
        if self.live and not self.state:
            wrong.append(
                "live is compared with what state prints; state is missing: a program that prints what is stored"
            )
        if self.live and Path(self.live).parts[:1] not in [(place,) for place in PLACES]:
            wrong.append(f"live is a path in a folder of the program, as workspace/state.json (got {self.live!r})")
        wrong += filter(None, map(_no_pattern, self.volatile_prompts))
        if self.cassette and self.turns:
            wrong.append("the model answers by its turns or from its cassette; give one of them")
        if wrong:
            raise ScenarioError("\n".join(wrong))

    def __hash__(self) -> int:
        return hash(repr(self))

    def strategy(self, name: str, options: Mapping[str, object]) -> Strategy:
        """Return the one strategy; it has no options."""
        if name != STRATEGY:
            raise UnknownName(f"the target 'command' has no strategy {name!r}; {did_you_mean(name, [STRATEGY])}")
        if options:
            raise ScenarioError("\n".join(f"{name} has no option {option!r}; it has none" for option in options))
        if not self.run and self != Command():
            raise ScenarioError("target.command.run is missing: the program and its arguments, as [python, agent.py]")
        if self.cassette and not Path(self.cassette).is_file():
            raise ScenarioError(f"target.command.cassette: no file {self.cassette}; `pytest-chaos record` writes it")
        return Own(bool(self.state))

    def prepare(self, assets: Path, seed: int) -> None:
        """Give the program nothing: it is where it is."""

    def launch(self, strategy: Strategy, seed: int, root: Path) -> Launch:
        """Return how to start the program, and how after a crash; HarnessError if there is none."""
        if not self.run:
            raise HarnessError("target.command has no run: the program and its arguments, as [python, agent.py]")
        env = {name: _filled(text, root) for name, text in self.env.items()}
        return Launch(_words(self.run, root), env, resume=_words(self.resume, root))

    def reload(self, strategy: Strategy, seed: int, root: Path) -> Launch:
        """Return how to have what is stored printed."""
        return Launch(_words(self.state, root), self.launch(strategy, seed, root).env, live=self.live)

    def digest(self, state: bytes) -> str | None:
        """Return None: it announces no states."""
        return None

    def brain(self, seed: int) -> Brain:
        """Return the scripted model and the declared services."""
        volatile = Volatile(self.volatile_prompts)
        if self.cassette:
            return Recorded((), self.services, self.goal, volatile, cassette(self.cassette, volatile))
        return Script(self.turns, self.services, self.goal, volatile)

    def facts(self, seed: int) -> Facts:
        """Return what was declared of a right result."""
        cap = REQUESTS_FACTOR * self.steps + REQUESTS_EXTRA
        most = tuple((name, route.most) for name, route in self.services.items() if route.most is not None)
        return Facts(goal=self.goal, deliverable=self.deliverable, max_requests=cap, most=most)

    def watch(self) -> Watch:
        """Return the ports to look at."""
        return Watch(ports=tuple((name, 0) for name in self.ports))

    @property
    def steps(self) -> int:
        """The number of the model's turns."""
        return len(cassette(self.cassette, Volatile(self.volatile_prompts))) if self.cassette else len(self.turns)

    @property
    def releases(self) -> Mapping[str, tuple[str, ...]]:
        """None: what another release of it is, nobody knows."""
        return {}


def _no_pattern(text: str) -> str:
    """Return what is wrong with the regular expression *text*, "" if nothing is."""
    try:
        re.compile(text)
    except re.error as error:
        return f"volatile_prompts: no regular expression: {text!r} ({error})"
    return "" if text else "volatile_prompts: an empty regular expression is everywhere; leave it out"


def _words(words: Sequence[str], root: Path) -> tuple[str, ...]:
    return tuple(_filled(word, root) for word in words)


def _filled(text: str, root: Path) -> str:
    values = {"python": sys.executable, **{place: str(root / place) for place in PLACES}}
    return _PLACEHOLDER.sub(lambda found: values.get(found[1], found[0]), text)  # {services} is known when it starts
