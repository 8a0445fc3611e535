"""Sends administrators' requests through the broker's own codec, one at a time, to any broker of the cluster or to a certain one.

Their errors come with the sentences that Kafka's tools print; a client library would hide some of those sentences.
"""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any, Final, Self

from pybroker.client.connection import Connection
from pybroker.client.errors import ClientError
from pybroker.protocol.codec import EncodeError
from pybroker.protocol.messages.metadata import MetadataRequest
from pybroker.tools.errors import CommandError
from pybroker.tools.kafka_errors import sentence_of

if TYPE_CHECKING:
    from pybroker.tools.target import Target


API_VERSIONS_VERSION: Final = 3
"""That of Kafka 2.4 and later; an older broker responds by v0."""


class RefusedError(Exception):
    """A broker refuses the request: its error code, and the sentence for a person."""

    def __init__(self, code: int, message: str | None) -> None:
        super().__init__(message or sentence_of(code))
        self.code = code


class Admin:
    """A client of a cluster, and a context manager. Making it connects to one of the brokers."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._connection = Connection(target.connect())
        self._brokers: dict[int, tuple[str, int]] | None = None
        self._others: dict[int, Connection] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for connection in (self._connection, *self._others.values()):
            connection.close()

    @property
    def brokers(self) -> dict[int, tuple[str, int]]:
        """The host and the port of each live broker, as they were when they were first asked for. Raises ClientError."""
        if self._brokers is None:
            found = self.ask(MetadataRequest(topics=[]), 9).brokers
            self._brokers = {broker.node_id: (broker.host, broker.port) for broker in found}
        return self._brokers

    def forget_brokers(self) -> None:
        """Ask again which brokers are live, the next time."""
        self._brokers = None

    @property
    def is_one_broker(self) -> bool:
        """Whether there is nothing to choose: the one broker leads everything. It is asked over the first connection."""
        return len(self.brokers) == 1

    def ask(self, request: object, version: int | None, *, broker_id: int | None = None) -> Any:
        """Return the response of a broker, of any one by default; None is the highest version that both sides support.

        Raises ClientError, and CommandError for a request that cannot be encoded, such as too large a number.
        """
        try:
            connection = self._connected(broker_id)
            if version is None and not connection.versions:
                connection.ask_versions(API_VERSIONS_VERSION)
            return connection.call(request, version)
        except EncodeError as error:
            raise CommandError(f"the request cannot be encoded: {error}") from error
        except ClientError:
            if broker_id is not None and broker_id in self._others:
                self._others.pop(broker_id).close()
            raise

    def _connected(self, broker_id: int | None) -> Connection:
        if broker_id is None or self.is_one_broker:
            return self._connection
        if broker_id not in self.brokers:
            raise ClientError(f"broker {broker_id} is not live")
        if broker_id not in self._others:
            self._others[broker_id] = Connection(self._target.connect_to(*self.brokers[broker_id]))
        return self._others[broker_id]


def check(code: int, message: str | None = None) -> None:
    """Raise RefusedError for a code that is not 0."""
    if code:
        raise RefusedError(code, message)


def shown_id(value: bytes) -> str:
    """Format an id as Kafka prints it: 22 characters of URL-safe base64."""
    return base64.urlsafe_b64encode(value).rstrip(b"=").decode()
