"""The process of one of several brokers, which is started again when it has ended, after a pause that grows.

The process is started, not forked: threads and the parent's open files stay where they are. It writes its log to the parent's
standard error, and `READY host:port` to a pipe. It is in a process group of its own, so that a Ctrl-C in the terminal reaches the
parent alone, which then stops the brokers.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import os
import signal
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Callable, Sequence
from typing import Final

from pybroker.broker.ready_file import VARIABLE

logger = logging.getLogger(__name__)

PAUSE_S: Final = 0.1
PAUSE_S_MAX: Final = 10.0
STEADY_S: Final = 3.0
"""If a broker was ready for this time, the pause before its next start is the shortest one again."""
STOP_S_MAX: Final = 60.0
"""A broker that does not stop in this time is killed."""
_READY: Final = "READY "


class FailedStartError(Exception):
    """The first start of a broker has failed, for which its own log has the reason."""


class Child:
    """Broker `number`. `command_of` returns its command, given the port that it had before; `changed` is called when `address`
    has changed.
    """

    def __init__(self, number: int, command_of: Callable[[int | None], Sequence[str]], changed: Callable[[], object]) -> None:
        self.number = number
        self.address: str | None = None
        """The address of the first listener as READY has it; None while the broker is not ready."""
        self._command_of, self._changed = command_of, changed
        self._port: int | None = None
        self._ready_s = math.inf
        self._process: Process | None = None
        self._stopping = asyncio.Event()

    @property
    def pid(self) -> int:
        """The process that was started last."""
        assert self._process is not None, "the broker has been started"
        return self._process.pid

    async def run(self) -> bool:
        """Run the broker until `stop`, and return whether it stopped without an error. Raises FailedStartError, OSError."""
        pause_s, loop = PAUSE_S, asyncio.get_running_loop()
        while not self._stopping.is_set():
            self._ready_s = math.inf
            code = await self._run_once()
            if self._stopping.is_set():
                return code in {0, -signal.SIGTERM}
            if self._port is None and code > 0:
                raise FailedStartError(f"Broker {self.number} did not start; its log above gives the reason")
            if loop.time() - self._ready_s > STEADY_S:
                pause_s = PAUSE_S
            level = logging.INFO if code == 0 else logging.ERROR  # another program has stopped it as it should be stopped
            logger.log(level, "Broker %d has ended %s, and is started again in %.1f s", self.number, _described(code), pause_s)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), pause_s)
            pause_s = min(2 * pause_s, PAUSE_S_MAX)
        return True

    async def _run_once(self) -> int:
        environment = {name: value for name, value in os.environ.items() if name != VARIABLE}  # the file is the parent's
        process = self._process = await asyncio.create_subprocess_exec(
            *self._command_of(self._port), stdin=DEVNULL, stdout=PIPE, env=environment, process_group=0
        )
        logger.info("Broker %d is process %d", self.number, process.pid)
        assert process.stdout is not None
        if self._stopping.is_set():
            process.terminate()
        async for line in process.stdout:
            text = line.decode(errors="replace").strip()
            if text.startswith(_READY):
                self._set_address(text.removeprefix(_READY))
        code = await process.wait()
        self._set_address(None)
        return code

    def _set_address(self, address: str | None) -> None:
        if address is not None:
            self._port = int(address.rpartition(":")[2])
            self._ready_s = asyncio.get_running_loop().time()
        if address != self.address:
            self.address = address
            self._changed()

    def stop(self) -> None:
        """Have the broker stop, and start it no more."""
        if not self._stopping.is_set():
            self._stopping.set()
            self._send(signal.SIGTERM)
            asyncio.get_running_loop().call_later(STOP_S_MAX, self.kill)

    def kill(self) -> None:
        """End the process at once, if it runs."""
        if self._process is not None and self._process.returncode is None:
            line = "Broker %d has not stopped in %g s, so it is killed, and checks its logs at the next start"
            logger.error(line, self.number, STOP_S_MAX)
            self._send(signal.SIGKILL)

    def _send(self, number: signal.Signals) -> None:
        if self._process is not None and self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self._process.send_signal(number)


def _described(code: int) -> str:
    if code < 0:
        return f"by {signal.Signals(-code).name}"
    return (
        "after a signal of its own" if code == 0 else f"with the exit code {code}, for which its own lines above have the reason"
    )
