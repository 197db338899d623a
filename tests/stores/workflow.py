"""A small workflow that DBOS itself records and reads back, on any database."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

STEPS = 5

# In a process of its own: there is one DBOS to a process, and to shut it down takes a second.
PROGRAM = f"""
import sys
from dbos import DBOS, SetWorkflowID
DBOS(config={{"name": "test", "system_database_url": sys.argv[1], "log_level": "ERROR"}})

@DBOS.step()
def step(number):
    return {{"number": number}}

@DBOS.workflow()
def workflow():
    for number in range({STEPS}):
        step(number)

DBOS.launch()
with SetWorkflowID("w"):
    workflow()
"""


def run(url: str) -> None:
    """Run the workflow to its end, with its records at *url*."""
    subprocess.run([sys.executable, "-c", PROGRAM, url], check=True, timeout=60)


def outputs(url: str) -> dict[int, Any]:
    """Return the outputs of the steps by their number, as DBOS reads them; what it cannot read is text."""
    from dbos import DBOSClient

    client = DBOSClient(system_database_url=url, application_name="test")
    steps = client.list_workflow_steps("w")
    client.destroy()
    return {step["function_id"]: step["output"] for step in steps}
