"""A connection of a job to one broker: the client's, with errors that are PipelineErrors."""

from __future__ import annotations

import contextlib
import socket
from typing import TYPE_CHECKING, Any, Final, final

from pybroker.client import connection
from pybroker.client.errors import ClientError, ProtocolError, sentence_of
from pybroker.client.frames import Frames
from pybroker.spark.wire.errors import ConnectionLostError, NotKafkaError, check

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

CLIENT_ID: Final = "pybroker-spark-jobs"
_API_VERSIONS_VERSION: Final = 3  # Kafka 2.4 and later


@final
class Connection(connection.Connection):
    """A connection, which asks the broker for its API versions when it is made. `open_frames` connects in another way than by
    itself, as with TLS.

    Making it and every method raise ConnectionLostError and NotKafkaError. After an error, the connection cannot be used again.
    """

    def __init__(
        self, host: str, port: int, *, timeout_s: float = 30.0, open_frames: Callable[[str, int], Frames] | None = None
    ) -> None:
        with _errors_for_people():
            frames = _opened(host, port, timeout_s=timeout_s) if open_frames is None else open_frames(host, port)
        super().__init__(frames)
        try:
            with _errors_for_people():
                code = self.ask_versions(_API_VERSIONS_VERSION)
            check(f"the broker at {frames.address} does not report its API versions", code)
        except BaseException:
            self.close()
            raise

    def version_of(self, api_key: int) -> int:
        """Return the highest version of an API that both sides support. Raises NotKafkaError when there is none."""
        with _errors_for_people():
            return super().version_of(api_key)

    def send(self, request: Any, version: int | None = None) -> None:
        """Send a request in the highest version that both sides support; `receive` returns its response."""
        with _errors_for_people():
            super().send(request, version)

    def receive(self) -> Any:
        """Receive the response to the oldest open request. Its records are a writable view of a buffer of its own."""
        with _errors_for_people():
            return super().receive()


def _opened(host: str, port: int, *, timeout_s: float) -> Frames:
    address = f"{host}:{port}"
    try:
        connected = socket.create_connection((host, port), timeout_s)
    except OSError as error:
        raise ConnectionLostError(f"no broker at {address}: {sentence_of(error)}") from error
    connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return Frames(connected, address=address, client_id=CLIENT_ID)


@contextlib.contextmanager
def _errors_for_people() -> Iterator[None]:
    try:
        yield
    except ProtocolError as error:
        raise NotKafkaError(error.text) from error
    except ClientError as error:
        raise ConnectionLostError(error.text) from error
