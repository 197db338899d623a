"""A durable runtime's record of steps, replayed."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

from chaos.durable import Durable
from chaos.errors import ScenarioError
from chaos.targets import InProcess
from chaos.targets.reference.agent import State
from chaos.targets.reference.incarnation import Agent

Runtime = Literal["dbos", "temporal", "aws"]
Database = Literal["sqlite", "postgres"]

PACKAGES = {
    "dbos": ("dbos",), "temporal": ("temporalio",),
    "aws": ("aws_durable_execution_sdk_python", "aws_durable_execution_sdk_python_testing"),
}  # fmt: skip

DRIVERS = {"sqlite": ("dbos._sys_db_sqlite", "sqlalchemy.dialects.sqlite"), "postgres": ("dbos._sys_db_postgres",)}
"""What DBOS imports when it learns what its database is."""


@dataclass(frozen=True)
class Events(InProcess):
    """Runs the agent as a workflow of a durable runtime, which records what each step returns and replays it.

    A completed step is not done again: its files and processes stay lost with the sandbox that they were in. A step
    that was cut off is done again, with its effects: at least once. No checksum protects the records.

    Args:
        runtime: DBOS, Temporal, or AWS Lambda Durable Functions (in the local runner of the SDK).
        database: where DBOS keeps its records; the others have a store of their own.
    """

    claims: ClassVar[frozenset[str]] = frozenset({"messages", "environment"})
    durable: ClassVar[bool] = True

    runtime: Runtime = "dbos"
    database: Database = "sqlite"

    def __post_init__(self) -> None:
        if self.runtime not in get_args(Runtime):
            raise ScenarioError(f"runtime must be dbos, temporal or aws (got {self.runtime!r})")
        if self.database not in get_args(Database):
            raise ScenarioError(f"database must be sqlite or postgres (got {self.database!r})")
        if self.database == "postgres" and self.runtime != "dbos":
            raise ScenarioError(f"database: postgres is for runtime: dbos; {self.runtime} has a store of its own")

    @property
    def needs(self) -> tuple[str, ...]:  # type: ignore[override]
        if self.runtime == "temporal":
            return ("temporal",)
        return ("postgres",) if self.database == "postgres" else ()

    @property
    def store(self) -> str:
        return {"dbos": f"dbos_{self.database}", "aws": "aws_sqlite", "temporal": "temporal_sqlite"}[self.runtime]

    @property
    def imports(self) -> tuple[str, ...]:  # type: ignore[override]
        driver = DRIVERS[self.database] if self.runtime == "dbos" else ()
        return (f"chaos.targets.reference.runtimes.{self.runtime}", *driver)

    def missing(self) -> str:
        lacking = [name for name in PACKAGES[self.runtime] if importlib.util.find_spec(name) is None]
        return f"no package {lacking[0]}; pip install 'pytest-chaos[strategies]'" if lacking else ""

    def run(self, agent: Agent) -> None:
        """Begin the workflow, or have its runtime go on with it, until the agent is done."""
        if self.runtime == "dbos":
            from chaos.targets.reference.runtimes import dbos

            dbos.drive(agent, self.database)
        elif self.runtime == "aws":
            from chaos.targets.reference.runtimes import aws

            aws.drive(agent)
        else:
            from chaos.targets.reference.runtimes import temporal

            temporal.drive(agent)

    def load(self, durable: Durable) -> State | None:
        """Return the state that the records of completed steps lead to."""
        if self.runtime == "dbos":
            from chaos.targets.reference.runtimes import dbos

            return dbos.stored(durable, self.database)
        if self.runtime == "aws":
            from chaos.targets.reference.runtimes import aws

            return aws.stored(durable)
        from chaos.targets.reference.runtimes import temporal

        return temporal.stored(durable)
