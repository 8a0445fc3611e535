"""CPU seconds and memory of a process and all its descendants, read from /proc.

CPU time has the kernel's resolution (10 ms on Linux); memory is in bytes. A process that has ended counts as zero.
"""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from testing.waiting import WAIT_S

if TYPE_CHECKING:
    from types import TracebackType

TICKS_PER_S = os.sysconf("SC_CLK_TCK")
PROC = Path("/proc")


def tree(pid: int) -> list[int]:
    """Return the process and everything that it started, directly or not."""
    children: dict[int, list[int]] = {}
    for folder in PROC.iterdir():
        if folder.name.isdigit() and (fields := _stat(int(folder.name))):
            children.setdefault(int(fields[1]), []).append(int(folder.name))
    found, todo = [], [pid]
    while todo:
        found.append(todo.pop())
        todo += children.get(found[-1], [])
    return found


def cpu_s(pid: int) -> float:
    """Return the user and system seconds so far, including those of ended and reaped children."""
    return sum(sum(map(int, fields[11:15])) for one in tree(pid) if (fields := _stat(one))) / TICKS_PER_S


def memory_bytes(pid: int, key: str = "VmRSS") -> int:
    """Return a line of /proc/PID/status summed over the process tree: VmRSS, VmHWM (peak), RssAnon, VmData..."""
    return sum(_status(one, key) for one in tree(pid))


def reset_peak(pid: int) -> None:
    """Reset VmHWM to the present size."""
    for one in tree(pid):
        (PROC / str(one) / "clear_refs").write_text("5")


def open_files(pid: int) -> int:
    """Return the number of file descriptors of the process itself, including sockets."""
    return len(list((PROC / str(pid) / "fd").iterdir()))


def is_alive(pid: int) -> bool:
    fields = _stat(pid)
    return bool(fields) and fields[0] != "Z"


class PeakSampler:
    """A thread that samples a line of /proc/PID/status, summed over the process tree; `peak_bytes` is the largest value seen."""

    def __init__(self, pid: int, key: str = "RssAnon", interval_ms: int = 5) -> None:
        self._pids, self._key, self._interval_s = (
            tree(pid),
            key,
            interval_ms / 1000,
        )  # walks the tree once: it is slow
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.before_bytes = self.peak_bytes = self._sample()

    def __enter__(self) -> PeakSampler:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._stopped.set()
        self._thread.join(WAIT_S)

    def _run(self) -> None:
        while not self._stopped.wait(self._interval_s):
            self.peak_bytes = max(self.peak_bytes, self._sample())

    def _sample(self) -> int:
        return sum(_status(pid, self._key) for pid in self._pids)


def _stat(pid: int) -> list[str]:
    """Return the fields of /proc/PID/stat after the command name; [0] is the state, [1] the parent, [11:15] the CPU ticks."""
    try:
        text = (PROC / str(pid) / "stat").read_text()
    except OSError:
        return []
    return text[text.rindex(")") + 2 :].split()


def own_cpu_s(pid: int) -> float:
    """Return the user and system seconds of one process so far, without its children."""
    return sum(map(int, _stat(pid)[11:13])) / TICKS_PER_S


def own_memory_bytes(pid: int, key: str = "VmRSS") -> int:
    """Return a line of /proc/PID/status of one process."""
    return _status(pid, key)


def _status(pid: int, key: str) -> int:
    try:
        text = (PROC / str(pid) / "status").read_text()
    except OSError:
        return 0
    for line in text.splitlines():
        if line.startswith(key + ":"):
            return int(line.split()[1]) * 1024
    return 0
