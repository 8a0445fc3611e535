"""Walks over the batches of a data file, of magic 0, 1 and 2, and past damage.

A walk yields every batch and message whose size can be believed, also one with a wrong checksum, and a `Gap` for bytes in
which none can be found. The size of a batch with a wrong checksum is believed if the next batch begins where it ends;
otherwise `search` looks for the next sound batch.

Source: DumpLogSegments of Kafka; `log/segments/damage.py` does the same for the broker, for magic 2.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from crc32c import crc32c

from pybroker.inspection.search import Budget, next_sound
from pybroker.model import FIRST_OFFSET, NO_LEADER_EPOCH, LeaderEpoch, Offset
from pybroker.records.batch import (
    ATTRIBUTES_AT,
    COMPRESSION_MASK,
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC,
    MAGIC_AT,
    OFFSET_AND_SIZE,
    BatchView,
    TimestampType,
)
from pybroker.records.compression import CompressionType
from pybroker.records.legacy import CHECKED_FROM, HEAD, MessageView

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pybroker.inspection.data_file import DataFile

PIECE: Final = 1 << 20
SIZES_MIN: Final = {0: HEAD.size + 8, 1: HEAD.size + 16, MAGIC: HEADER_SIZE}
"""The smallest whole batch or message of each magic: a message has at least the sizes of its key and its value."""


@dataclass(slots=True, frozen=True, kw_only=True)
class Batch:
    """The header of a batch, or of a message of magic 0 or 1, as it lies in a file.

    Attributes:
        position: in bytes, from the start of the file.
        size: in bytes, of the whole batch.
        base_offset: of a message, its own offset; where a wrapper begins is known from its contents only.
        is_valid: whether the checksum is right.
        view: the header of a batch without its records; of a message of magic 0 or 1, the message.
    """

    position: int
    size: int
    magic: int
    base_offset: Offset
    last_offset: Offset
    crc: int
    is_valid: bool
    view: BatchView | MessageView

    @property
    def end(self) -> int:
        """The position after the batch."""
        return self.position + self.size

    @property
    def attributes(self) -> int:
        """The attributes."""
        return self.view.attributes

    @property
    def codec(self) -> str:
        """The name of the codec, or its number if no codec has it."""
        number = self.attributes & COMPRESSION_MASK
        return CompressionType(number).name.lower() if number <= max(CompressionType) else str(number)

    @property
    def timestamp_name(self) -> str:
        """The type of the timestamps, with Kafka's names."""
        if not self.magic:
            return "NoTimestampType"
        return "LogAppendTime" if self.view.timestamp_type is TimestampType.LOG_APPEND_TIME else "CreateTime"

    @property
    def max_timestamp(self) -> int:
        """The greatest timestamp in ms, by the header; -1 if there is none."""
        return self.view.max_timestamp if isinstance(self.view, BatchView) else self.view.timestamp

    @property
    def leader_epoch(self) -> LeaderEpoch:
        """The leader epoch; -1 before magic 2."""
        return self.view.partition_leader_epoch if isinstance(self.view, BatchView) else NO_LEADER_EPOCH


@dataclass(slots=True, frozen=True, kw_only=True)
class Gap:
    """Bytes [position, end) in which no batch was found. `kind` and `text` show why."""

    position: int
    end: int
    kind: str
    text: str


def walk(file: DataFile, *, base_offset: Offset = FIRST_OFFSET) -> Iterator[Batch | Gap]:
    """Yield the batches of a file in order, and the gaps between them. Raises OSError.

    A batch that is cut at the end of the file is read again if the file has grown meanwhile. The first offset should be
    `base_offset`.
    """
    position, expected, budget = 0, base_offset, Budget(file.size)
    while position < file.size:
        found = read_batch(file, position)
        if isinstance(found, Gap) and file.grow():
            found = read_batch(file, position)
        if isinstance(found, Batch) and (found.is_valid or _is_end_believed(file, found, budget)):
            yield found
            position, expected = found.end, found.last_offset + 1
            continue
        if _is_zero(file, position):
            yield Gap(
                position=position,
                end=file.size,
                kind="zeros",
                text=f"{file.size - position} bytes of zeros up to the end of the file",
            )
            return
        end = next_sound(file, position + 1, expected=expected, budget=budget, is_sound=_is_sound)
        yield _gap(file, found, position, end, budget)
        position = end


def read_batch(file: DataFile, position: int) -> Batch | Gap:
    """Return the batch at `position`, with its checksum compared; a Gap up to the end if none can begin there. Raises OSError."""
    head = file.read(HEADER_SIZE, position)

    def gap(kind: str, text: str) -> Gap:
        return Gap(position=position, end=file.size, kind=kind, text=text)

    if len(head) <= MAGIC_AT:
        return gap("length", f"{len(head)} bytes at the end of the file are no header")
    offset, length = OFFSET_AND_SIZE.unpack_from(head)
    size, magic = length + LOG_OVERHEAD, head[MAGIC_AT]
    if magic not in SIZES_MIN:
        return gap("magic", f"magic {magic} is unknown")
    if size < SIZES_MIN[magic]:
        return gap("length", f"a batch of magic {magic} claims {size} bytes, which is less than its header")
    if position + size > file.size:
        return gap("length", f"a batch claims {size} bytes, but {file.size - position} are left")
    view: BatchView | MessageView = BatchView(memoryview(head)) if magic == MAGIC else MessageView(memoryview(head))
    last = view.last_offset if isinstance(view, BatchView) else offset
    return Batch(
        position=position,
        size=size,
        magic=magic,
        base_offset=offset,
        last_offset=last,
        crc=view.crc,
        is_valid=view.crc == _checksum(file, position, size, magic=magic),
        view=view,
    )


def _checksum(file: DataFile, position: int, size: int, *, magic: int) -> int:
    end, checksum = position + size, 0
    position += ATTRIBUTES_AT if magic == MAGIC else CHECKED_FROM
    while position < end:
        piece = file.read(min(PIECE, end - position), position)
        if not piece:
            return -1  # the file has become shorter
        checksum = crc32c(piece, checksum) if magic == MAGIC else zlib.crc32(piece, checksum)
        position += len(piece)
    return checksum


def _is_end_believed(file: DataFile, batch: Batch, budget: Budget) -> bool:
    """Return whether the batch, whose checksum is wrong, ends where it claims."""
    budget.bytes_left -= batch.size
    if batch.end == file.size or budget.is_spent:
        return not budget.is_spent
    following = read_batch(file, batch.end)
    if isinstance(following, Batch) and not following.is_valid:
        budget.bytes_left -= following.size
    return isinstance(following, Batch) and (following.is_valid or following.base_offset == batch.last_offset + 1)


def _is_sound(file: DataFile, position: int) -> bool:
    found = read_batch(file, position)
    return isinstance(found, Batch) and found.is_valid


def _is_zero(file: DataFile, position: int) -> bool:
    while piece := file.read(PIECE, position):
        if piece.strip(b"\0"):
            return False
        position += len(piece)
    return True


def _gap(file: DataFile, found: Batch | Gap, position: int, end: int, budget: Budget) -> Gap:
    if isinstance(found, Batch):
        kind, text = "crc", f"the batch at offset {found.base_offset} has a wrong checksum, and does not end before another batch"
    else:
        kind, text = found.kind, found.text
    if end < file.size:
        text += f"; the next sound batch is at byte {end}"
    elif budget.is_spent:
        text += "; too many bytes look like a batch, and the search for the next one ended"
    else:
        text += f"; the {end - position} bytes up to the end of the file hold no sound batch"
    return Gap(position=position, end=end, kind=kind, text=text)
