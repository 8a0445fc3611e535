"""Sends administrators' requests through the broker's own codec, one at a time, to any broker of the cluster.

Their errors come with the sentences that Kafka's tools print; a client library would hide some of those sentences.
"""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any, Self

from pybroker.client.connection import Connection
from pybroker.protocol.codec import EncodeError
from pybroker.tools.errors import CommandError
from pybroker.tools.kafka_errors import sentence_of

if TYPE_CHECKING:
    from pybroker.tools.target import Target


class RefusedError(Exception):
    """A broker refuses the request: its error code, and the sentence for a person."""

    def __init__(self, code: int, message: str | None) -> None:
        super().__init__(message or sentence_of(code))
        self.code = code


class Admin:
    """A client of one broker, and a context manager. Making it connects."""

    def __init__(self, target: Target) -> None:
        self._connection = Connection(target.connect())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def ask(self, request: object, version: int) -> Any:
        """Return the response. Raises ClientError, and CommandError for a request that cannot be encoded, such as too large
        a number.
        """
        try:
            return self._connection.call(request, version)
        except EncodeError as error:
            raise CommandError(f"the request cannot be encoded: {error}") from error


def check(code: int, message: str | None = None) -> None:
    """Raise RefusedError for a code that is not 0."""
    if code:
        raise RefusedError(code, message)


def shown_id(value: bytes) -> str:
    """Format an id as Kafka prints it: 22 characters of URL-safe base64."""
    return base64.urlsafe_b64encode(value).rstrip(b"=").decode()
