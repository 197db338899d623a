"""Where pytest writes, shared with a line of ours that moves: what pytest writes stays as it would be without it.

On a terminal the line stands below pytest's own and is rewritten in place; the cursor is always where pytest left it,
and whatever pytest writes removes our line first. Elsewhere a line is written now and then, and stays.
"""

from __future__ import annotations

import os
import re
import threading
import time
from typing import Any

import pytest

_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_ERASE = "\x1b[J"  # from the cursor to the end: there is nothing but our line
FALLBACK = 80  # columns, where the terminal does not say


class Screen:
    """The terminal of *reporter*. *in_place*: our line is rewritten; *quiet_since*: when something was last written."""

    def __init__(self, reporter: Any, config: pytest.Config) -> None:
        self._writer, self._file = reporter._tw, reporter._tw._file
        # While tests run, file descriptor 1 leads to pytest's capture, and this one to where it led before.
        self._out = os.dup(self._file.fileno())
        self._lock = threading.RLock()
        self._line = ""  # what pytest has written into its last line
        self._drawn = False
        self.quiet_since = time.monotonic()
        self.in_place = self._moves(config)
        self._writer._file = _Watched(self)

    def _moves(self, config: pytest.Config) -> bool:
        """Tell whether a line can be rewritten: on a terminal to which only pytest writes."""
        others = (
            config.getoption("capture") == "no" or config.getoption("log_cli_level", None) or config.getini("log_cli")
        )
        return os.isatty(self._out) and os.environ.get("TERM", "dumb") != "dumb" and not others

    def written(self, text: str) -> int:
        """Write *text* of pytest's."""
        with self._lock:
            self._erase()
            count = self._file.write(text)
            if self.in_place:
                self._file.flush()
            self._line = _ESCAPES.sub("", re.split(r"[\n\r]", self._line + text)[-1])
            self.quiet_since = time.monotonic()
            return int(count or 0)

    def draw(self, text: str) -> None:
        """Show *text* as our line, cut to the width of the terminal."""
        with self._lock:
            width = self._width()
            at = len(self._line) % width
            if self._line and not at:  # the cursor waits behind the last column, where nothing can put it back
                return
            self._put(f"{_ERASE}\r\n{text[: width - 1]}\x1b[1A\x1b[{at + 1}G")
            self._drawn = True

    def say(self, text: str) -> None:
        """Write *text* as a line that stays; what pytest has begun to say of a test is begun again after it."""
        with self._lock:
            self._erase()
            again = self._line if "::" in self._line else ""
            self._put(f"{chr(10) if self._line else ''}{text}\n{again}")
            self._line = again
            self.quiet_since = time.monotonic()

    def close(self) -> None:
        """Remove our line, and leave the terminal to pytest; may be called twice."""
        with self._lock:
            if self._out < 0:
                return
            self._erase()
            self._writer._file = self._file
            os.close(self._out)
            self._out = -1

    def erase(self) -> None:
        """Remove our line."""
        with self._lock:
            self._erase()

    def _erase(self) -> None:
        if self._drawn:
            self._drawn = False
            self._put(_ERASE)

    def _put(self, text: str) -> None:
        if self._out < 0:
            return
        data = text.encode("utf-8", "replace")
        try:
            while data:
                data = data[os.write(self._out, data) :]
        except OSError:  # nobody reads any more: pytest itself will say so
            return

    def _width(self) -> int:
        try:
            columns = os.get_terminal_size(self._out).columns if self._out >= 0 else 0
        except OSError:
            columns = 0
        return columns or FALLBACK  # some terminals say that they have none


class _Watched:
    """A file to which only *screen* writes."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen

    def write(self, text: str) -> int:
        return self._screen.written(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._screen._file, name)
