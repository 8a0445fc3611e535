"""A client for records of a cluster: the one of the jobs, which connects as the settings of a client demand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pybroker.spark.wire.client import WireClient
from pybroker.spark.wire.connection import Connection
from pybroker.spark.wire.errors import ConnectionLostError
from pybroker.tools.errors import CommandError
from pybroker.tools.target import Target

if TYPE_CHECKING:
    from collections.abc import Callable

    from pybroker.client.frames import Frames

RETRY_S: Final = 30.0
"""How long a command tries again what may succeed later, as when a leader moves."""


def wire_client(target: Target, *, retry_s: float = RETRY_S) -> WireClient:
    """Return a client of the cluster that `target` names; close it. Raises ClientError, CommandError."""
    return WireClient(target.bootstrap, retry_s=retry_s, connect=reached(target))


def reached(target: Target) -> ConnectBy:
    """Return how to connect to a cluster, after a first try: where no broker responds, a person learns it at once.

    Raises ClientError, CommandError.
    """
    target.connect().close()
    return ConnectBy(target)


class ConnectBy:
    """Connects to a broker as the settings of a target demand. It may be pickled: another process reads the settings again."""

    def __init__(self, target: Target) -> None:
        self._target = target

    def __call__(self, host: str, port: int) -> Connection:
        """Return a connection. Raises ConnectionLostError, ClientError."""
        return Connection(host, port, open_frames=self._open_frames)

    def __reduce__(self) -> tuple[Callable[..., object], tuple[object, ...]]:
        return _read_again, (self._target.bootstrap, self._target.properties)

    def _open_frames(self, host: str, port: int) -> Frames:
        try:
            return self._target.connect_to(host, port)
        except CommandError as error:
            raise ConnectionLostError(str(error)) from error


def _read_again(bootstrap: str, properties: dict[str, str]) -> ConnectBy:
    return ConnectBy(Target(bootstrap, properties))
