"""A broker under test: a process that the tests start, restart and kill, or a broker that already runs.

PYBROKER_TEST_BOOTSTRAP   host:port of a running broker, which the tests use; tests that restart or configure a broker are skipped
PYBROKER_TEST_COMMAND     the command to start instead of `python -m pybroker start`; it must take the same options and print
READY. `python -m testing.process.kafka_peer start` does, and so checks the tests against Apache Kafka
"""

from __future__ import annotations

import contextlib
import os
import re
import selectors
import shlex
import signal
import subprocess
import sys
import time
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from pybroker.sharing.turns.watchdog import fail_ns

if TYPE_CHECKING:
    from pathlib import Path

LONG_TURN = "A turn of the event loop was too long"
TURN = re.compile(r"A turn of the event loop was (?:too )?long,.*?: (.+?) held the loop for ([0-9.]+) ms")

longest_turns: dict[str, float] = {}
"""The longest turn of each kind in the brokers of this process, in ms, of those that were long enough for a line in a log."""

_all: weakref.WeakSet[BrokerProcess] = weakref.WeakSet()
START_TIMEOUT_S = 180  # generous: a loaded machine, a JVM when the tests are checked against Kafka
STOP_TIMEOUT_S = 60
KILLED = -signal.SIGKILL


def external_bootstrap() -> str | None:
    return os.environ.get("PYBROKER_TEST_BOOTSTRAP")


def is_kafka() -> bool:
    """Return whether the tests run against another broker, which has a log and a command line of its own."""
    return bool(external_bootstrap() or os.environ.get("PYBROKER_TEST_COMMAND"))


def command() -> list[str]:
    chosen = os.environ.get("PYBROKER_TEST_COMMAND")
    return shlex.split(chosen) if chosen else [sys.executable, "-m", "pybroker", "start"]


ADMIN = "ADMIN "
"""How the line begins that has the address of the page."""


class BrokerProcess:
    """A broker with its own data directory, which keeps its port over restarts. The test that started it owns it.

    `start_command` is what starts it, as `command()` returns it, which is the default.
    """

    def __init__(
        self, folder: Path, overrides: Mapping[str, str] | None = None, *, start_command: Sequence[str] | None = None
    ) -> None:
        self._start_command = start_command
        self.data_dir = folder / "data"
        self.log_file = folder / "broker.log"
        self.overrides = dict(overrides or {})
        self.port = 0
        self.ready_line = ""
        self.admin_url = ""  # where the page is, if there is one
        self._checked = 0  # bytes of the log
        self._process: subprocess.Popen[bytes] | None = None
        _all.add(self)

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        assert self._process is not None, "the broker has been started"
        return self._process.pid

    @property
    def log_text(self) -> str:
        """Everything that the broker wrote to stderr, over all its starts."""
        return self.log_file.read_text(errors="replace")

    def start(self) -> None:
        """Start the broker, on its previous port if it had one, and wait for READY."""
        self.begin()
        assert self._process is not None
        self.ready_line = read_line(self._process, START_TIMEOUT_S, self._note_admin)
        ready = re.fullmatch(r"READY (\S+):(\d+)", self.ready_line)
        if ready is None:
            self.kill()
            raise RuntimeError(f"the broker printed {self.ready_line!r} instead of READY; its log ends:\n{self.log_text[-3000:]}")
        self.port = int(ready[2])

    def _note_admin(self, url: str) -> None:
        self.admin_url = url

    def begin(self) -> None:
        """Start the broker, as `start` does, without waiting for READY."""
        arguments = [*(self._start_command or command()), "--port", str(self.port), "--data-dir", str(self.data_dir)]
        for key, value in self.overrides.items():
            arguments += ["--override", f"{key}={value}"]
        self.log_file.parent.mkdir(parents=True, exist_ok=True)
        with self.log_file.open("ab") as log:
            # a group of its own, so that killing it takes any children along and a Ctrl-C in the terminal does not
            self._process = subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=log, process_group=0)

    def stop(self) -> float:
        """Send SIGTERM, and return the seconds until the process ended. Raises when it ended with an error."""
        assert self._process is not None
        began = time.monotonic()
        self._process.terminate()
        code = self._wait()
        if code != 0:
            raise RuntimeError(f"the broker ended with {code}; its log ends:\n{self.log_text[-3000:]}")
        return time.monotonic() - began

    def kill(self) -> None:
        """Send SIGKILL to the whole process group, so that no process of it can clean up."""
        assert self._process is not None
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._wait()

    def close(self) -> None:
        """End the process, whatever its state; for fixtures. Raises AssertionError if a turn of its loop was too long."""
        if self._process is not None and self._process.poll() is None:
            self.kill()
        self.check_turns()

    def check_turns(self) -> None:
        """Raise AssertionError if a turn of the broker's loop was too long since the last check, and note the longest.

        Only in the mode in which that is a failure, see docs/design/latency.md.
        """
        if fail_ns() is not None and self.log_file.exists():
            with self.log_file.open("rb") as log:
                log.seek(self._checked)
                new = log.read()
            self._checked += len(new)
            lines = new.decode(errors="replace").splitlines()
            for line in lines:
                if found := TURN.search(line):
                    longest_turns[found[1]] = max(longest_turns.get(found[1], 0.0), float(found[2]))
            long = [line for line in lines if LONG_TURN in line]
            assert not long, "turns of the broker's loop were too long:\n" + "\n".join(long)

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def _wait(self) -> int:
        assert self._process is not None
        assert self._process.stdout is not None
        try:
            return self._process.wait(STOP_TIMEOUT_S)
        finally:
            self._process.stdout.close()


def check_all_turns() -> None:
    """Raise AssertionError if a turn was too long in any broker that this process started, since the last check."""
    for broker in list(_all):
        broker.check_turns()


@contextlib.contextmanager
def own_brokers(folder: Path) -> Iterator[Callable[..., BrokerProcess]]:
    """Yield a function that starts a broker with its overrides, in a folder of its own below `folder`; end all brokers at the
    end.
    """
    brokers: list[BrokerProcess] = []

    def start(overrides: Mapping[str, str] | None = None) -> BrokerProcess:
        brokers.append(BrokerProcess(folder / f"broker{len(brokers)}", overrides))
        brokers[-1].start()
        return brokers[-1]

    try:
        yield start
    finally:
        with contextlib.ExitStack() as closing:
            for broker in brokers:
                closing.callback(broker.close)


def read_line(process: subprocess.Popen[bytes], timeout_s: float, on_admin: Callable[[str], None] = lambda _url: None) -> str:
    """Return the first line of stdout, or as much of it as exists when the process ends or the time is over.

    A line with the address of the page comes before it, and is given to `on_admin`.
    """
    assert process.stdout is not None
    text, deadline = b"", time.monotonic() + timeout_s
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        while b"\n" not in text and selector.select(max(0, deadline - time.monotonic())):
            piece = os.read(process.stdout.fileno(), 4096)
            if not piece:
                break
            text += piece
            if text.startswith(ADMIN.encode()) and b"\n" in text:
                line, _, text = text.partition(b"\n")
                on_admin(line.decode().removeprefix(ADMIN))
    return text.decode().partition("\n")[0].rstrip("\r")
