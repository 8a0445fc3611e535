"""A client for records of a cluster: the one of the jobs, which connects as the settings of a client demand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pybroker.spark.wire.client import Connect, WireClient
from pybroker.spark.wire.connection import Connection
from pybroker.spark.wire.errors import ConnectionLostError
from pybroker.tools.errors import CommandError

if TYPE_CHECKING:
    from pybroker.client.frames import Frames
    from pybroker.tools.target import Target

RETRY_S: Final = 30.0
"""How long a command tries again what may succeed later, as when a leader moves."""


def wire_client(target: Target, *, retry_s: float = RETRY_S) -> WireClient:
    """Return a client of the cluster that `target` names; close it."""
    return WireClient(target.bootstrap, retry_s=retry_s, connect=connect_by(target))


def connect_by(target: Target) -> Connect:
    """Return a function that connects to a broker as the settings of `target` demand."""

    def open_frames(host: str, port: int) -> Frames:
        try:
            return target.connect_to(host, port)
        except CommandError as error:
            raise ConnectionLostError(str(error)) from error

    return lambda host, port: Connection(host, port, open_frames=open_frames)
