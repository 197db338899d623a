"""What is done again is appended behind what was there."""

from __future__ import annotations

from chaos.targets.planted.catch import COMMIT, Catch
from chaos.targets.planted.driver import Driver, Kept
from chaos.targets.reference.history import lines

CATCH = Catch(
    f"kill@{COMMIT}/during_commit",
    "state",
    "the store cannot be read by another process: chaos.targets.reference.snapshot.CorruptStore",
)


class LogNotCutBack(Driver):
    """Opens its log for appending as it is, with the line of a step that was never committed at its end.

    In real agents: `open(path, "a")` on resume. The step in flight is done again and written again, and from there on
    the log has a line more than the checkpoint knows of: the living process never notices, the next one cannot read it.
    Exposed by `kill` at `during_commit`. Must be caught by `state` (cannot be read by another process).
    """

    def _open_log(self, kept: Kept | None) -> None:
        if kept is None:
            super()._open_log(kept)
            return
        found = self.logged(kept)
        before = [lines(folder) for folder in self.copies]
        super()._open_log(kept)
        for log, there in zip(self._logs, before, strict=True):
            for line in there[len(found) :]:
                log.append(line)
