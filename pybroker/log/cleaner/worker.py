"""One cleaner thread: which log it cleans, the thread for its codecs, and what it has written so far.

`log.cleaner.threads` of them work on as many logs, as Kafka's threads do. Their work on the loop is that of the background
(`sharing/background.py`). Each has a thread for codecs, and work that blocks on a disk runs in the thread of the log's directory.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pybroker.log.cleaner.throttle import Throttle
    from pybroker.log.log import Log
    from pybroker.log.segments.segment import LogSegment
    from pybroker.sharing.work import ThreadRunner


@dataclass(slots=True)
class CleanerStats:
    """The result of one cleaner's last cleaning, for the metrics."""

    bytes_read: int = 0
    bytes_written: int = 0
    elapsed_s: int = 0
    buffer_utilization: float = 0.0


class CleanerWorker:
    """One worker; idle while `log` is None. `target` is what is being written, until it has taken its place."""

    def __init__(self, number: int, run_codec: ThreadRunner, throttle: Throttle) -> None:
        self.number = number
        self.run_codec = run_codec
        self.throttle = throttle
        self.stats = CleanerStats()
        self.log: Log | None = None
        self.target: LogSegment | None = None
