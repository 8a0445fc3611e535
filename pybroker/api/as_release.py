"""Refuses the requests that a release of Kafka does not know, in front of the dispatcher, which knows them all.

An unknown version of ApiVersions has a response from every release that has this API: in v0, with UNSUPPORTED_VERSION, from which
clients choose a lower version. The others end the connection, or get no response, as the release does it.

Source: SocketServer.processCompletedReceives, RequestChannel.Request, ApiVersionsRequest.getErrorResponse of the releases.
"""

from __future__ import annotations

import logging
import struct
from typing import TYPE_CHECKING, Final

from pybroker.api.handlers.api_versions import unsupported_version_response
from pybroker.network.context import ProtocolViolation
from pybroker.protocol.api_keys import ApiKey
from pybroker.protocol.codec import encode_response

if TYPE_CHECKING:
    from asyncio import Future

    from pybroker.api.releases import Release
    from pybroker.network.context import ConnectionContext, EncodedResponse, RequestHandler

logger = logging.getLogger(__name__)

_HEAD: Final = struct.Struct(">hhi")
_NONE: Final = (0, -1)


def as_release(release: Release, handler: RequestHandler) -> RequestHandler:
    """Return a handler that hands to `handler` only the requests that the release knows."""
    accepted = release.accepted

    def handle(connection: ConnectionContext, frame: memoryview) -> EncodedResponse | Future[EncodedResponse]:
        if len(frame) < _HEAD.size:
            return handler(connection, frame)  # it reports what is wrong
        key, version, correlation_id = _HEAD.unpack_from(frame)
        lowest, highest = accepted.get(key, _NONE)
        if lowest <= version <= highest:
            return handler(connection, frame)
        if key == ApiKey.API_VERSIONS and key in accepted:
            (encoded,) = encode_response(unsupported_version_response(release), 0, correlation_id)
            assert type(encoded) is bytes  # none of its fields is large
            return encoded
        reason = f"Kafka {release.name} does not know version {version} of API key {key}"
        if release.is_silent:
            logger.info("%s gets no response: %s", connection, reason)
            return None
        raise ProtocolViolation(reason)

    return handle
