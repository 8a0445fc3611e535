"""A request to the API, taken apart, and the errors that become responses."""

from __future__ import annotations

import re
from typing import Any, Final, NamedTuple
from urllib.parse import parse_qsl, unquote

from pybroker.protocol.error_codes import ErrorCode

Json = dict[str, Any]

BAD_REQUEST: Final = 400
FORBIDDEN: Final = 403
NOT_FOUND: Final = 404
CONFLICT: Final = 409
UNAVAILABLE: Final = 503

_DOTS: Final = re.compile(r"(%(25)*2E){1,2}")

STATUSES: Final = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: NOT_FOUND,
    ErrorCode.UNKNOWN_TOPIC_ID: NOT_FOUND,
    ErrorCode.GROUP_ID_NOT_FOUND: NOT_FOUND,
    ErrorCode.TRANSACTIONAL_ID_NOT_FOUND: NOT_FOUND,
    ErrorCode.TOPIC_ALREADY_EXISTS: CONFLICT,
    ErrorCode.NON_EMPTY_GROUP: CONFLICT,
    ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC: CONFLICT,
    ErrorCode.INVALID_TOPIC_EXCEPTION: BAD_REQUEST,
    ErrorCode.INVALID_PARTITIONS: BAD_REQUEST,
    ErrorCode.INVALID_REPLICATION_FACTOR: BAD_REQUEST,
    ErrorCode.INVALID_CONFIG: BAD_REQUEST,
    ErrorCode.INVALID_REQUEST: BAD_REQUEST,
    ErrorCode.INVALID_GROUP_ID: BAD_REQUEST,
    ErrorCode.INVALID_TIMESTAMP: BAD_REQUEST,
    ErrorCode.INVALID_RECORD: BAD_REQUEST,
    ErrorCode.OFFSET_OUT_OF_RANGE: BAD_REQUEST,
    ErrorCode.POLICY_VIOLATION: BAD_REQUEST,
    ErrorCode.MESSAGE_TOO_LARGE: BAD_REQUEST,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: FORBIDDEN,
    ErrorCode.GROUP_AUTHORIZATION_FAILED: FORBIDDEN,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: FORBIDDEN,
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: FORBIDDEN,
}
"""The statuses of Kafka's errors. Others pass: 503."""


class AdminError(Exception):
    """A request that cannot be carried out. The text is a sentence for a person."""

    def __init__(self, status: int, text: str, headers: tuple[tuple[str, str], ...] = ()) -> None:
        super().__init__(text)
        self.status, self.headers = status, headers


class Call(NamedTuple):
    """A request, as a verb gets it.

    Attributes:
        names: the parts of the path that its template leaves open, by their names there.
        query: the parameters behind the path.
        body: the JSON object that was sent; empty without one.
    """

    names: dict[str, str]
    query: dict[str, str]
    body: Json

    def number(self, name: str, *, default: int, most: int) -> int:
        """Return a parameter that is a number from 0 to `most`. Raises AdminError."""
        text = self.query.get(name)
        if text is None:
            return min(default, most)
        if not (text.isascii() and text.isdecimal() and len(text) <= 19):
            raise AdminError(BAD_REQUEST, f"{name}={text}: it must be a number from 0 to {most}")
        return min(int(text), most)


def parts_of(path: str) -> tuple[list[str], dict[str, str]]:
    """Return the parts of a path, and the parameters behind it.

    A client that cannot send the names . and .. in a path, as no browser can, encodes them twice: %252E and %252E%252E. So names
    that look like these when they are encoded once are encoded twice, too.
    """
    plain, _, query = path.partition("?")
    given = parse_qsl(query, keep_blank_values=True)
    if len(parameters := dict(given)) < len(given):
        raise AdminError(BAD_REQUEST, "a parameter is there twice")
    parts = [unquote(part) for part in plain.split("/")[1:]]
    return [unquote(part) if _DOTS.fullmatch(part) else part for part in parts], parameters
