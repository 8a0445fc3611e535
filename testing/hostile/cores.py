"""How long a thread was on a core, as seen from outside: a turn of a loop may be long because others have the cores."""

from __future__ import annotations

import contextlib
import threading
import time
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from testing.waiting import WAIT_S

LOOK_S: Final = 0.005
_NS_PER_MS: Final = 1_000_000


class OnCore:
    """The main thread of a process, looked at every LOOK_S."""

    def __init__(self, pid: int) -> None:
        self._account = Path(f"/proc/{pid}/task/{pid}/schedstat")
        self._times_s: list[float] = []
        self._ran_ns: list[int] = []
        self._stop = threading.Event()

    @contextlib.contextmanager
    def watched(self) -> Iterator[None]:
        """Look until the end."""
        thread = threading.Thread(target=self._watch, daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._stop.set()
            thread.join(WAIT_S)

    def most_ms(self, begin_s: float, end_s: float) -> float:
        """Return how long it was on a core between two times since 1970, at most: as far as it was not looked at, it was."""
        first = bisect_right(self._times_s, begin_s) - 1
        last = bisect_left(self._times_s, end_s)
        if first < 0 or last == len(self._times_s):
            return (end_s - begin_s) * 1_000
        return (self._ran_ns[last] - self._ran_ns[first]) / _NS_PER_MS

    def _watch(self) -> None:
        with contextlib.suppress(OSError):  # the process has ended
            while not self._stop.wait(LOOK_S):
                text = self._account.read_text().split()
                self._times_s.append(time.time())
                self._ran_ns.append(int(text[0]))
