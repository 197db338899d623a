"""What a campaign notes about itself: versions, the machine's abilities, when and how it was started."""

from __future__ import annotations

import os
import platform
import shlex
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version

from chaos.results import CampaignInfo

_DISTRIBUTIONS = (
    "pytest-chaos", "pytest", "langgraph", "langgraph-checkpoint-sqlite", "langgraph-checkpoint-postgres", "deepagents",
    "dbos", "temporalio", "aws-durable-execution-sdk-python", "redis", "faker", "hypothesis",
)  # fmt: skip


def campaign_name() -> str:
    """Return the name of a campaign that begins now in this process: campaigns sort by it as they were made."""
    return f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{os.getpid()}"


def campaign_info(
    campaign: str,
    seed: int,
    arguments: Sequence[str],
    cells: int,
    shard: tuple[int, int] = (1, 1),
    price: float = 0.0,
    history: str = "",
) -> CampaignInfo:
    """Return the description of the *campaign* of so many *cells* that `pytest` with *arguments* begins now.

    Args:
        shard: which group of how many it is.
        price: of a million tokens, in USD.
        history: the file that it will be added to.
    """
    group, groups = shard
    return CampaignInfo(
        campaign=campaign,
        seed=seed,
        began=datetime.now(UTC).isoformat(timespec="seconds"),
        command=shlex.join(["pytest", *map(str, arguments)]),
        versions={**{name: _version(name) for name in _DISTRIBUTIONS}, "Python": platform.python_version()},
        machine={**capabilities(), "kernel": platform.release()},
        cells=cells,
        host=platform.node(),
        shard=f"{group} of {groups}" if groups > 1 else "",
        price=price,
        history=history,
    )


def capabilities() -> dict[str, str]:
    """Return what faults this machine can really inject, or what it lacks for them."""
    from chaos.sandbox.process import able

    can = able()
    return {
        "process tree": can.process_tree or "own pid namespace",
        "oom_kill": can.memory_limit or f"memory cgroup {can.memory_controller}",
        "hostname": can.hostname or "own UTS namespace",
    }


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"
