"""A process id is taken for the process."""

from __future__ import annotations

import os
import subprocess

from chaos.targets.planted.catch import TICKET, Catch
from chaos.targets.planted.driver import Driver
from chaos.targets.reference.agent import State

CATCH = Catch(
    f"kill@{TICKET}/before_think",
    "processes",
    "is not running",
    needs="process_tree",  # process ids come again only in a new namespace
)

PID = "service.pid"


class PidInState(Driver):
    """Keeps its service's process id and starts the service again only if no process has that number.

    In real agents: a pid file on a volume. In a new container the numbers begin at 1 again, so some process has it:
    here the agent's own shell, one number late because a look at the disk came first.
    Exposed by `kill` once the service runs. Must be caught by `processes` (not running).
    """

    def commit(self, number: int, state: State) -> None:
        if state["session"]["services"] and not (self.zones.durable / PID).exists():
            _, pid = self.tools.shell.run("echo $!")
            (self.zones.durable / PID).write_text(pid)
        super().commit(number, state)

    def recover(self, state: State) -> None:
        if self._lines:
            subprocess.run(("df", self.zones.durable), stdout=subprocess.DEVNULL, check=False)
        session = state["session"]
        self.tools.recover({**session, "services": []})
        if session["services"] and not _alive(int((self.zones.durable / PID).read_text())):
            self.tools.close()
            self.tools.recover(session)


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
