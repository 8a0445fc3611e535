"""Standard error and standard output of a broker, neither of which makes the broker wait for a reader.

A pipe whose reader stands still is full after 64 kB, and the next write waits; so does a terminal, after Ctrl-S for example. The
streams stay in blocking mode, because the mode belongs to all processes that share the stream, such as the shell of a terminal.
So the broker opens a pipe or a terminal again for itself, in a mode in which no write waits.

Where that is impossible (a socket, a system without /proc, a terminal of another user), the broker asks the system before each
write whether the stream takes bytes at once, and writes no more than `select.PIPE_BUF`. A pipe or a socket that is writable takes
that many, but a terminal may take only one byte: a terminal of another user can still make the broker wait.

A thread that writes was rejected: it would lose its queue where the process ends at once, and it is no less code.
"""

from __future__ import annotations

import logging
import os
import select
import stat

logger = logging.getLogger(__name__)


class Stream:
    """A stream to which the broker writes without waiting."""

    def __init__(self, descriptor: int) -> None:
        """Write to `descriptor`, which the caller owns."""
        self._descriptor = descriptor
        self._own = _opened_again(descriptor)
        self._readiness = select.poll()  # `select.select` knows no descriptor above 1,023
        self._readiness.register(descriptor, select.POLLOUT)

    def write_some(self, text: bytes) -> int:
        """Write the first bytes of `text`. Returns how many; 0 when the stream takes none now. Raises OSError."""
        if self._own is None and not self._readiness.poll(0):
            return 0
        try:
            return os.write(self._descriptor if self._own is None else self._own, text[: select.PIPE_BUF])
        except BlockingIOError:  # without a descriptor of our own: another process has changed the mode
            return 0

    def close(self) -> None:
        """Close what was opened again."""
        own, self._own = self._own, None
        if own is not None:
            os.close(own)


def _opened_again(descriptor: int) -> int | None:
    """Return a descriptor of the same pipe or terminal whose mode no other process shares, if there can be one."""
    try:
        if stat.S_ISFIFO(os.fstat(descriptor).st_mode) or os.isatty(descriptor):
            return os.open(f"/proc/self/fd/{descriptor}", os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY)
    except OSError:
        pass
    return None


class StandardError(logging.Handler):
    """Writes the lines of the log to a file descriptor, and drops and counts lines while it takes none.

    At most one line waits, which keeps a line that has begun whole. Before the first line after those that were dropped, another
    one shows how many they were.
    """

    def __init__(self, descriptor: int) -> None:
        """Write to `descriptor`, which the caller owns."""
        super().__init__()
        self._stream = Stream(descriptor)
        self._rest = b""  # of a line that waits
        self._unreported = 0
        self.lines_dropped = 0
        """The number of records of the log that were dropped since the start."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write a line, or drop it. The handler's lock is held."""
        try:
            text = self._bytes(record)
        except Exception:
            self.handleError(record)
            return
        self._send()
        if self._rest:
            self._drop()
            return
        if self._unreported:
            text = self._bytes(_dropped(self._unreported)) + text
            self._unreported = 0
        self._rest = text
        self._send()

    def flush(self) -> None:
        """Write the line that waits, as far as the stream takes it."""
        self.acquire()
        try:
            self._send()
        finally:
            self.release()

    def close(self) -> None:
        """Write what is possible, and close what was opened here."""
        self.flush()
        self._stream.close()
        super().close()

    def _bytes(self, record: logging.LogRecord) -> bytes:
        return self.format(record).encode(errors="backslashreplace") + b"\n"

    def _send(self) -> None:
        """Write as much of the line that waits as the stream takes now."""
        try:
            while self._rest and (written := self._stream.write_some(self._rest)):
                self._rest = self._rest[written:]
        except OSError:  # the reader is gone, or the disk is full
            self._rest = b""
            self._drop()

    def _drop(self) -> None:
        self.lines_dropped += 1
        self._unreported += 1


def _dropped(count: int) -> logging.LogRecord:
    message = "%d lines of the log were dropped, because standard error did not take them"
    return logger.makeRecord(logger.name, logging.WARNING, __file__, 0, message, (count,), None)


def lines_dropped() -> int:
    """Return how many lines of the log of this process were dropped."""
    return sum(handler.lines_dropped for handler in logging.getLogger().handlers if isinstance(handler, StandardError))
