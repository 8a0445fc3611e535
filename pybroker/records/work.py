"""The work of validating one produce request: how much of it may be done on the loop, and how far its records may inflate.

Small batches are checked on the loop, at once. A batch that needs more raises `LongWorkError` when that is known, before anything
was changed, and the caller checks it again in a thread. A codec that declares no size is known to be long only when the loop's
share has been inflated, so that much is done twice.

The sum of what a request's batches inflate to is counted as they are inflated, piece by piece. The pieces are gone by then, so
the bound is one of time; memory is bounded by the piece.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final, Protocol

from pybroker.protocol.error_codes import ErrorCode, KafkaError
from pybroker.records.compression import CompressionType, inflated
from pybroker.records.errors import RecordTooLargeError

if TYPE_CHECKING:
    from pybroker.records.rules import ValidationRules
    from pybroker.records.validate import Checked

LOOP_BYTES: Final = 1 << 20
"""The bytes to which one batch may inflate on the loop: 1 to 4 ms, by the codec."""
PIECE_COST: Final = 4096
"""The bytes that a piece counts on the loop beside its own, because empty gzip members and snappy blocks are work too."""

TABLES_BYTES_MAX: Final = 1 << 16
"""The bytes of gzip or zstd that the loop may inflate without knowing their blocks: a block of a few bytes may ask for tables of
its own, or give nothing. Such blocks take up to 0.12 us for each byte, so these take up to 8 ms.
"""

_CODECS_WITH_TABLES: Final = frozenset((CompressionType.GZIP, CompressionType.ZSTD))

_COMPRESSED_BYTES: Final = {
    CompressionType.NONE: LOOP_BYTES,
    CompressionType.SNAPPY: LOOP_BYTES,
    CompressionType.LZ4: 1 << 19,
    CompressionType.ZSTD: 1 << 19,
    CompressionType.GZIP: 1 << 16,
}
"""The bytes that may be compressed on the loop, at a codec's default level: 2 to 5 ms."""
_SLOW_LEVEL_BYTES: Final = 1 << 13


class LongCheck(Protocol):
    """The rest of a validation, for a thread. `records` are the same records, perhaps at another place."""

    def __call__(self, records: memoryview, *, work: Work) -> Checked:
        """Check `records`. Raises as `validate_and_assign`, and NOT_LEADER_OR_FOLLOWER if the work was cancelled."""


class LongWorkError(Exception):
    """A batch takes too long for the loop. Nothing has happened; call `check` in a thread."""

    check: LongCheck


class Work:
    """The validation of one request's batches. Belongs to the loop or to one thread, never to both at a time.

    Attributes:
        is_on_loop: whether a long batch raises LongWorkError.
        inflated_bytes: what the batches so far have inflated to.
        is_cancelled: called between pieces.
        bytes_max: LongWorkError is raised, in a thread too, when the batches have inflated to more; 0 if they may.
    """

    __slots__ = ("bytes_max", "inflated_bytes", "is_cancelled", "is_on_loop")

    def __init__(self, *, is_on_loop: bool = False, is_cancelled: Callable[[], bool] = bool) -> None:
        self.is_on_loop = is_on_loop
        self.is_cancelled = is_cancelled
        self.inflated_bytes = 0
        self.bytes_max = 0

    def only_off_loop(self, size: int, *, size_max: int) -> None:
        """Raise LongWorkError if this is the loop, and `size` is beyond its share."""
        if self.is_on_loop and size > size_max:
            raise LongWorkError

    def ensure_wanted(self) -> None:
        """Raise NOT_LEADER_OR_FOLLOWER if the work was cancelled."""
        if self.is_cancelled():
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "the broker stops, or the connection is lost")

    def count(self, size: int, rules: ValidationRules) -> None:
        """Count a piece of `size` bytes. Raises RecordTooLargeError when the request has inflated too far."""
        self.ensure_wanted()
        self.inflated_bytes += size
        if self.inflated_bytes > rules.inflated_bytes_max:
            raise RecordTooLargeError(
                f"the records of the request inflate to more than {rules.inflated_bytes_max} bytes, "
                f"which is max.message.bytes times pybroker.produce.inflation.max"
            )
        if 0 < self.bytes_max < self.inflated_bytes and not self.is_on_loop:
            raise LongWorkError


class _OneBatch(Work):
    """The work of a request of one batch on the loop, where the loop's share is below any bound: there is nothing to count."""

    __slots__ = ()

    def count(self, size: int, rules: ValidationRules) -> None:
        """Count nothing."""


ONE_BATCH_ON_LOOP: Final = _OneBatch(is_on_loop=True)
"""For requests of one batch: shared by all."""


def pieces_of(
    codec: CompressionType, data: memoryview, rules: ValidationRules, work: Work, *, magic: int = 2
) -> Iterator[bytes | memoryview]:
    """Yield what a batch inflates to, and count it. Raises CorruptRecordError, LongWorkError, and the errors of `Work.count`."""
    if codec in _CODECS_WITH_TABLES:
        work.only_off_loop(len(data), size_max=TABLES_BYTES_MAX)
    spent = 0
    for piece in inflated(codec, data, magic=magic):
        spent += len(piece) + PIECE_COST
        if codec:
            work.only_off_loop(spent, size_max=LOOP_BYTES)
            work.count(len(piece), rules)
        if piece:
            yield piece


def compressed_on_loop_max(codec: CompressionType, level: int | None) -> int:
    """Return how many bytes the loop may compress at once. Levels that are slower than the codec's default get fewer."""
    default = {CompressionType.GZIP: 6, CompressionType.ZSTD: 3, CompressionType.LZ4: 9}.get(codec)
    is_slow = (
        level is not None and default is not None and (level != default if codec is CompressionType.LZ4 else level > default)
    )
    return _SLOW_LEVEL_BYTES if is_slow else _COMPRESSED_BYTES[codec]
