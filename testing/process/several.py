"""Several brokers under test: one process of `pybroker start --brokers N`, and the processes that it starts.

with SeveralBrokers(folder, 3) as brokers:
    Producer({"bootstrap.servers": brokers.bootstrap})
    brokers.kill(2)                  which is started again by the parent
    brokers.pids()                   {1: 4711, 2: 4890, 3: 4713}
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Self

from testing.process.broker import START_TIMEOUT_S, STOP_TIMEOUT_S, read_line

if TYPE_CHECKING:
    from pathlib import Path

_STARTED = re.compile(r"Broker (\d+) is process (\d+)")


class SeveralBrokers:
    """A parent with its brokers, on any free ports. A broker keeps its port when it is started again."""

    def __init__(self, folder: Path, count: int, overrides: Mapping[str, str] | None = None, **environment: str) -> None:
        self.data_dir, self.log_file = folder / "data", folder / "brokers.log"
        self._count, self._overrides, self._environment = count, dict(overrides or {}), environment
        self._process: subprocess.Popen[bytes] | None = None
        self.ready_line = ""
        self.output = b""
        """What the parent wrote to standard output behind the line with READY, up to its end."""

    @property
    def bootstrap(self) -> str:
        """The addresses of all brokers, in their order."""
        return self.ready_line.removeprefix("READY ")

    @property
    def parent(self) -> subprocess.Popen[bytes]:
        assert self._process is not None, "the brokers have been started"
        return self._process

    @property
    def log_text(self) -> str:
        return self.log_file.read_text(errors="replace")

    def start(self) -> None:
        """Start the brokers and wait until all are ready."""
        arguments = [sys.executable, "-m", "pybroker", "start", "--brokers", str(self._count), "--port", "0"]
        arguments += ["--data-dir", str(self.data_dir)]
        for key, value in self._overrides.items():
            arguments += ["--override", f"{key}={value}"]
        self.log_file.parent.mkdir(parents=True, exist_ok=True)
        with self.log_file.open("ab") as log:
            environment = os.environ | self._environment
            self._process = subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=log, process_group=0, env=environment)
        self.ready_line = read_line(self._process, START_TIMEOUT_S)
        if self.bootstrap.count(":") != self._count:
            self.close()
            raise RuntimeError(f"the brokers printed {self.ready_line!r}; their log ends:\n{self.log_text[-3000:]}")

    def pids(self) -> dict[int, int]:
        """Return the process of each broker, the last one that was started."""
        return {int(number): int(pid) for number, pid in _STARTED.findall(self.log_text)}

    def kill(self, number: int) -> None:
        """End one broker at once; the parent starts it again."""
        os.kill(self.pids()[number], signal.SIGKILL)

    def hold(self, number: int) -> None:
        """Let a broker do nothing, until `go_on`."""
        os.kill(self.pids()[number], signal.SIGSTOP)

    def go_on(self, number: int) -> None:
        """Let a broker continue."""
        os.kill(self.pids()[number], signal.SIGCONT)

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Send a signal to the parent, and return its exit code."""
        self.parent.send_signal(number)
        assert self.parent.stdout is not None
        self.output, _ = self.parent.communicate(timeout=STOP_TIMEOUT_S)
        return self.parent.returncode

    def close(self) -> None:
        """End all processes, whatever their state."""
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.communicate(timeout=STOP_TIMEOUT_S)
            for pid in self.pids().values():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
