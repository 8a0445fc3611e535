"""The version and the bytes of a request, for the blocking client and for a broker's own connections to others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pybroker.protocol.codec import encode_request, message_versions
from pybroker.protocol.parts import SendPart

if TYPE_CHECKING:
    from collections.abc import Mapping


def common_version(api_key: int, theirs: Mapping[int, tuple[int, int]]) -> int | None:
    """Return the highest version of an API that both sides support; None when there is none. `theirs` are as in ApiVersions."""
    lowest, highest = message_versions(api_key)
    if api_key not in theirs or theirs[api_key][0] > highest or theirs[api_key][1] < lowest:
        return None
    return min(highest, theirs[api_key][1])


def request_parts(request: Any, version: int, *, correlation_id: int, client_id: str) -> list[bytes | bytearray | memoryview]:
    """Return a frame, whose size the first part begins with. Raises EncodeError for a value that does not fit."""
    parts: list[bytes | bytearray | memoryview] = []
    for part in encode_request(request, version, correlation_id=correlation_id, client_id=client_id):
        assert not isinstance(part, SendPart), "requests have no late parts"
        parts.append(part)
    return parts
