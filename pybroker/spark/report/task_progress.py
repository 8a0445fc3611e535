"""Carries the progress of tasks to the driver while they run, because Spark itself reports only which tasks have ended.

Tasks send datagrams to the address at which the executors know the driver anyway. Each has a secret of the run, the number of the
task, and its records so far. A datagram that is lost or late only makes the progress a little old.
"""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, final

_SECRET_BYTES: Final = 16
_NUMBERS: Final = struct.Struct(">qq")
_POLL_S: Final = 0.2


@dataclass(frozen=True, slots=True)
class ProgressAddress:
    """The address to which tasks send their progress."""

    host: str
    port: int
    secret: bytes


@final
class ProgressListener:
    """A listener at the driver's `host` while a block runs. If that is not an address of this machine, it hears nothing."""

    def __init__(self, host: str) -> None:
        self._records: dict[int, int] = {}
        self._over = threading.Event()
        self._socket: socket.socket | None = None
        self.address: ProgressAddress | None = None
        with contextlib.suppress(OSError):  # the work does not depend on it
            family, kind, *_, address = socket.getaddrinfo(host, 0, type=socket.SOCK_DGRAM)[0]
            self._socket = socket.socket(family, kind)
            self._socket.bind(address)
            self._socket.settimeout(_POLL_S)
            self.address = ProgressAddress(host, self._socket.getsockname()[1], os.urandom(_SECRET_BYTES))
        self._thread = threading.Thread(target=self._run, name="report-progress", daemon=True)

    @property
    def records(self) -> int:
        """The records of all tasks together."""
        return sum(list(self._records.values()))

    def __enter__(self) -> ProgressListener:
        if self.address is not None:
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        if self.address is not None:
            self._thread.join()
        if self._socket is not None:
            self._socket.close()

    def _run(self) -> None:
        assert self._socket is not None
        assert self.address is not None
        size = _SECRET_BYTES + _NUMBERS.size
        while not self._over.is_set():
            try:
                data = self._socket.recv(size + 1)
            except TimeoutError:
                continue
            if len(data) == size and data.startswith(self.address.secret):
                number, records = _NUMBERS.unpack_from(data, _SECRET_BYTES)
                self._records[number] = max(records, self._records.get(number, 0))


def reporter(destination: ProgressAddress | None, number: int) -> Callable[[int], None]:
    """Return the function that a task calls with the number of records that it has counted since the last call."""
    counted = 0

    def report(records: int) -> None:
        nonlocal counted
        counted += records
        if destination is None:
            return
        with contextlib.suppress(OSError):  # without a way to the driver, progress shows less
            family, kind, *_, address = socket.getaddrinfo(destination.host, destination.port, type=socket.SOCK_DGRAM)[0]
            with socket.socket(family, kind) as out:
                out.setblocking(False)
                out.sendto(destination.secret + _NUMBERS.pack(number, counted), address)

    return report
