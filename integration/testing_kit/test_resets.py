"""A thousand resets leave the memory, the threads and the descriptors of a broker as they were."""

from __future__ import annotations

import gc
import os
import threading
from pathlib import Path

from pybroker.testing import Broker

RESETS = 1_000
FIRST = 200
"""After these, everything has been made that is made once."""
KILOBYTES_MAX = 2_048
"""This many resets do not grow by more; an object of 3 kB that each left would be seen."""


def kept_kilobytes() -> int:
    """Return the memory of this process, without what it shares with files."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1]) - int(Path("/proc/self/statm").read_text().split()[2])
    return pages * os.sysconf("SC_PAGESIZE") // 1024


def descriptors() -> int:
    return len([*Path("/proc/self/fd").iterdir()])


def test_a_thousand_resets_leave_nothing() -> None:
    settings = {"log.segment.delete.delay.ms": 0}
    with Broker.in_thread(settings) as broker:
        before = (0, 0, 0)
        for number in range(RESETS):
            if number == FIRST:
                before = kept_kilobytes(), threading.active_count(), descriptors()
            broker.create_topic("orders")
            assert broker.produce("orders", b"1") == 0
            broker.faults.add(name="full", disk_full=True, after_s=60)
            broker.faults.add(name="slow", disk_delay_s=0.0001)
            broker.reset()
            assert (broker.topics(), broker.faults.rules) == ({}, {})
        kilobytes, threads, files = before
        assert kept_kilobytes() - kilobytes <= KILOBYTES_MAX
        assert threading.active_count() == threads
        assert descriptors() <= files
