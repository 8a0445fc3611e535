"""Down-conversion of a first batch that is larger than its partition's limit, for Fetch v0 to v2: cut at the limit.

Idea
    These versions promise what old brokers did: a message set cut at the limit, wherever that is. The old broker cut
    the data on its disk, which was in the client's format. This broker cuts the converted first batch, so exactly

        min(limit, size of the first batch after conversion)

    bytes are sent. Whole messages that fit before the cut are thereby delivered; the cut message shows the client
    that its limit is too small. No padding is needed: padding only imitates a cut message.

    A first batch with nothing for old clients (a control batch) is case D of `lazy_down_conversion`, as without a
    limit: 12 bytes of padding, whatever the limit.

Cost
    The cost is that of a `LazyDownConversion` of that batch, which does the work: it is measured at first, and
    converted when it is pulled.

Source: KIP-74.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from pybroker.protocol.parts import SendPart

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pybroker.records.lazy_down_conversion import LazyDownConversion


class CutConversion(SendPart):
    """The first bytes of what `whole` sends: at most `limit`, and none of its padding. It owns `whole`. Belongs to the loop."""

    makes_bytes: ClassVar[bool] = True

    __slots__ = ("_left", "_whole", "size")

    def __init__(self, whole: LazyDownConversion, limit: int) -> None:
        """Take over `whole`, which converts one batch, all of which is there; `limit` (> 0) is in bytes."""
        self._whole = whole
        self.size = self._left = min(limit, whole.first_size) if whole.first_size else whole.size

    @property
    def kept_bytes(self) -> int:
        """The bytes that `whole` keeps."""
        return self._whole.kept_bytes

    def drop_first(self) -> None:
        """Hold nothing until the batch is sent."""
        self._whole.drop_first()

    @property
    def records_converted(self) -> int:
        """The number of records in the whole batch: all are converted, even if few are sent."""
        return self._whole.records_converted

    def pull(self, bytes_max: int) -> Sequence[bytes | memoryview]:
        """Return all that there is to send, or padding in its place if the batch cannot be converted any more."""
        parts: list[bytes | memoryview] = []
        for part in self._whole.pull(min(bytes_max, self._left)) if self._left else ():
            piece = memoryview(part)[: self._left]
            self._left -= len(piece)
            if piece:
                parts.append(piece)
        return parts

    def cold(self) -> Callable[[], None] | None:
        """Return the read that the conversion would have to wait for, or None."""
        return self._whole.cold() if self._left else None

    def close(self) -> None:
        """Release the batch."""
        self._left = 0
        self._whole.close()
