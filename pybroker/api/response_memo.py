"""Keeps encoded responses of an API, for requests with the same bytes, from the same place, about the same image of the cluster.

Idea
    A Metadata response follows from the image, from the address that the client gets, and from the bytes of the request. Many
    clients ask for the same topics, each of them every few minutes, and all of them at once when a leader has moved. So the first
    response is kept as it was sent. The next one differs only in the correlation id and needs no decoding, handling and encoding.

Which APIs
    Those whose handler's module has `KEEPS_RESPONSES = True`: a response follows only from the three things named above.

Bounds
    Everything is dropped with the image, and when requests and responses together exceed `MEMO_BYTES_MAX`. Large requests are not
    kept: they name topics that few other clients ask for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pybroker.metadata.image import ClusterImage
    from pybroker.network.context import ConnectionContext

MEMO_BYTES_MAX: Final = 4 << 20
REQUEST_BYTES_MAX: Final = 4096
_CORRELATION_ID_AT: Final = 4
_BODY_AT: Final = 8

MemoKey = tuple[int, str, str, int, bytes]
"""The version of a request, its listener, the host and port that its client gets, and its bytes."""


class KeptResponse(NamedTuple):
    """A response as it was sent, with the error codes in it."""

    encoded: bytes
    error_codes: Sequence[int]

    def to(self, correlation_id: int) -> bytes:
        """Return the response to another request with this correlation id."""
        encoded = self.encoded
        return encoded[:_CORRELATION_ID_AT] + correlation_id.to_bytes(4, signed=True) + encoded[_BODY_AT:]


class ResponseMemo:
    """The responses of one API about one image."""

    __slots__ = ("_bytes", "_image", "_responses")

    def __init__(self) -> None:
        self._image: ClusterImage | None = None
        self._responses: dict[MemoKey, KeptResponse] = {}
        self._bytes = 0

    @staticmethod
    def key(connection: ConnectionContext, version: int, body: memoryview) -> MemoKey:
        """Return everything that a response follows from, except the image. `body` is borrowed."""
        return version, connection.listener_name, connection.advertised_host, connection.advertised_port, body.tobytes()

    def find(self, image: ClusterImage, key: MemoKey) -> KeptResponse | None:
        """Return the response that was kept for `key` about `image`."""
        if image is not self._image:
            self._clear(image)
            return None
        return self._responses.get(key)

    def keep(self, image: ClusterImage, key: MemoKey, response: KeptResponse) -> None:
        """Keep a response about `image`, the image of the last `find` unless it has changed since."""
        size = len(key[-1]) + len(response.encoded)
        if image is not self._image or len(key[-1]) > REQUEST_BYTES_MAX or size > MEMO_BYTES_MAX:
            return
        if self._bytes + size > MEMO_BYTES_MAX:
            self._clear(image)
        self._responses[key] = response
        self._bytes += size

    def _clear(self, image: ClusterImage) -> None:
        self._image, self._responses, self._bytes = image, {}, 0
