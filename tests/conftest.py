"""What holds for all tests."""

from __future__ import annotations

import signal

# A CI system that starts us in the background has SIGINT ignored, which every process inherits that we start and
# interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
