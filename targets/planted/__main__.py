"""`python -m chaos.targets.planted BUG`: one incarnation of the agent, or with --reload a look into its store."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from types import FrameType

from chaos.targets.planted import driver_of
from chaos.targets.reference import CONFIG
from chaos.targets.reference.tools import Zones

TERMINATED = 128 + signal.SIGTERM


def main(bug: str, *arguments: str) -> int:
    """Run one incarnation of the agent with *bug*; return the exit status."""
    # The first process of a namespace has no default handlers: without this one SIGTERM would be ignored.
    signal.signal(signal.SIGTERM, _terminate)
    os.umask(0o022)  # file modes must not depend on who runs us
    zones = Zones(*(Path(os.environ[f"CHAOS_{zone}"]) for zone in ("DURABLE", "WORKSPACE", "TMP", "ASSETS")))
    driver = driver_of(bug)(json.loads(os.environ[CONFIG]), zones, os.environ.get("THREAD_ID", "local"), os.environ)
    if arguments == ("--reload",):
        print(json.dumps(driver.load(), sort_keys=True))
        return 0
    try:
        driver.run()
    finally:
        driver.close()
    return 0


def _terminate(number: int, frame: FrameType | None) -> None:
    raise SystemExit(TERMINATED)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
