"""`python -m chaos.targets.reference`: one incarnation of the agent, or with --reload a look into its store."""

from __future__ import annotations

import importlib
import json
import os
import signal
import sys
from pathlib import Path
from types import FrameType
from typing import Protocol, cast

from chaos.durable import Durable, found
from chaos.targets.reference import CONFIG
from chaos.targets.reference.agent import State
from chaos.targets.reference.incarnation import Agent, Config
from chaos.targets.reference.model import Model
from chaos.targets.reference.tools import Tools, Zones
from chaos.targets.reference.wire import WAIT_FILE

TERMINATED = 128 + signal.SIGTERM


class Driver(Protocol):
    """A strategy's face to the agent."""

    @property
    def durable(self) -> bool:
        """Whether anything outlives this process."""
        ...

    def run(self, agent: Agent) -> None:
        """Begin or resume, and drive the agent until it is done."""
        ...

    def load(self, durable: Durable) -> State | None:
        """Return the state that a resume would find in *durable*, None if there is none."""
        ...


def main(arguments: list[str]) -> int:
    """Run one incarnation; return the exit status."""
    # The first process of a namespace has no default handlers: without this one SIGTERM would be ignored.
    signal.signal(signal.SIGTERM, _terminate)
    os.umask(0o022)  # file modes must not depend on who runs us
    config = cast(Config, json.loads(os.environ[CONFIG]))
    zones = Zones(*(Path(os.environ[f"CHAOS_{zone}"]) for zone in ("DURABLE", "WORKSPACE", "TMP", "ASSETS")))
    durable = found(zones.durable, os.environ)
    driver = _driver(config)
    if arguments == ["--reload"]:
        print(json.dumps(driver.load(durable), sort_keys=True))
        return 0
    thread = os.environ.get("THREAD_ID", "local")
    timeout = config["timeout_ms"] / 1000
    waits = durable.folder / WAIT_FILE if driver.durable else None
    model = Model(os.environ, stream=config["stream"], timeout=timeout, waits=waits)
    agent = Agent(config, zones, durable, thread, model, Tools(zones, thread, os.environ, timeout))
    try:
        driver.run(agent)
    finally:
        agent.close()
    return 0


def _driver(config: Config) -> Driver:
    module, _, name = config["strategy"].partition(":")
    kind = getattr(importlib.import_module(module), name)
    return cast(Driver, kind(**config["options"]))


def _terminate(number: int, frame: FrameType | None) -> None:
    raise SystemExit(TERMINATED)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
