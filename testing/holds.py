"""Measures how long a thread keeps the interpreter from another one, so that a test can bound it.

The work runs in a thread. Meanwhile the calling thread sleeps for a short time, again and again, and needs the interpreter each
time when it wakes up, as the loop's thread does. It counts how late it has the interpreter again, without the time for which
it waited for a core, and at most the CPU time that the work got meanwhile. So what other processes do does not count.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from time import clock_gettime_ns, monotonic_ns, pthread_getcpuclockid, sleep

from pybroker.broker.process import SWITCH_INTERVAL_S
from pybroker.sharing.turns.run_delay import RunDelay

PAUSE_S = 0.000_2
TIMEOUT_S = 60


def longest_hold_ms(work: Callable[[], object]) -> float:
    """Run `work` in a thread, and return for how many ms it kept the interpreter from the calling thread at the longest.

    Raises what `work` raises. Python code keeps the interpreter for a little more than SWITCH_INTERVAL_S.
    """
    errors: list[Exception] = []
    is_over, is_measured = threading.Event(), threading.Event()

    def run() -> None:
        try:
            work()
        except Exception as error:
            errors.append(error)
        is_over.set()
        is_measured.wait(TIMEOUT_S)  # the clock of a thread that has ended cannot be read

    thread = threading.Thread(target=run, daemon=True)
    interval_s = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    delay, longest_ns = RunDelay(), 0
    try:
        thread.start()
        assert thread.ident is not None
        clock = pthread_getcpuclockid(thread.ident)
        while not is_over.is_set():
            used_ns, waited_ns, began_ns = clock_gettime_ns(clock), delay.waited_ns(), monotonic_ns()
            sleep(PAUSE_S)
            late_ns = monotonic_ns() - began_ns - int(PAUSE_S * 1e9) - (delay.waited_ns() - waited_ns)
            longest_ns = max(longest_ns, min(late_ns, clock_gettime_ns(clock) - used_ns))
    finally:
        delay.close()
        is_measured.set()
        thread.join(TIMEOUT_S)
        sys.setswitchinterval(interval_s)
    if errors:
        raise errors[0]
    return longest_ns / 1e6
