"""The outbox is sent from its beginning after a restart."""

from __future__ import annotations

import json
from collections.abc import Mapping

from chaos.targets.planted.catch import COMMIT, Catch
from chaos.targets.planted.driver import Driver
from chaos.targets.reference.agent import Session
from chaos.targets.reference.tools import Tools, Zones
from chaos.world import ToolCall

CATCH = Catch(f"kill@{COMMIT}/before_think", "effects", "email.send happened 2 times instead of once")


class OutboxFromStart(Driver):
    """Queues e-mails in a file that outlives a crash, and remembers in memory how many of them are sent.

    In real agents: an outbox table whose `sent` flag is set in a batch, or a consumer that does not commit its offset.
    Exposed by `kill` at any point after the first e-mail was sent. Must be caught by `effects` (duplicated).
    """

    def make_tools(self) -> Tools:
        return _Tools(self.zones, self.thread, self.env)


class _Tools(Tools):
    def __init__(self, zones: Zones, thread: str, env: Mapping[str, str]) -> None:
        super().__init__(zones, thread, env)
        self._outbox, self._sent = zones.durable / "outbox.jsonl", 0

    def recover(self, session: Session) -> None:
        super().recover(session)
        self._send()

    def act(self, call: ToolCall) -> str:
        if json.loads(call["function"]["arguments"]).get("service") != "email":
            return super().act(call)
        with open(self._outbox, "a", encoding="utf-8") as outbox:
            outbox.write(json.dumps(call) + "\n")
        return self._send()

    def _send(self) -> str:
        """Send what was not sent yet; return what the service said to the last one."""
        queued = self._outbox.read_text(encoding="utf-8").splitlines() if self._outbox.exists() else []
        said = ""
        for line in queued[self._sent :]:
            said = super().act(json.loads(line))
            self._sent += 1
        return said
