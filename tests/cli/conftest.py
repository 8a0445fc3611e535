"""Takes back, after every test, what a start in this process leaves behind."""

from __future__ import annotations

import gc
import logging
import os
import signal
from collections.abc import Iterator

import pytest


@pytest.fixture
def restored() -> Iterator[None]:
    """Take back the signal handlers, the log handlers, the garbage collector's state, and the mask of new files, which are the
    whole process's.
    """
    signals = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)}
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    os.umask(mask := os.umask(0o022))
    yield
    os.umask(mask)
    root.handlers[:] = handlers
    root.setLevel(level)
    for number, handler in signals.items():
        signal.signal(number, handler)
    gc.enable()  # what the start has frozen may stay so: `testing.garbage` looks at all objects from time to time
