"""The last offset of each key, in bounded memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pybroker.log.cleaner.chunks import pieces_of
from pybroker.model import NO_OFFSET, Offset
from pybroker.records import kernels

if TYPE_CHECKING:
    from pybroker.log.cleaner.chunks import Section
    from pybroker.records.batch import BatchView
    from pybroker.sharing.work import Pausing

ENTRY_BYTES: Final = 176
"""The cost of a key in addition to its own bytes: two objects, and its slot in a table that may just have grown."""


class KeyOffsets:
    """The last offsets, filled with batches in the order of their offsets. It holds the keys themselves, so two keys
    never collide.

    Attributes:
        latest_offset: the records up to this offset are in it; -1 for none.
    """

    __slots__ = ("_bytes", "_bytes_max", "latest_offset", "offsets")

    def __init__(self, bytes_max: int) -> None:
        self.offsets: dict[bytes, Offset] = {}
        self.latest_offset = NO_OFFSET
        self._bytes = 0
        self._bytes_max = bytes_max

    @property
    def is_full(self) -> bool:
        """Whether no batch may be added any more. The last batch may have exceeded the bound with its own keys."""
        return self._bytes >= self._bytes_max

    @property
    def utilization(self) -> float:
        """The used share of the memory; 1 is all."""
        return self._bytes / self._bytes_max if self._bytes_max else 1.0

    def add(self, batch: BatchView, section: Section) -> Pausing[None]:
        """Note the keys of a batch, of which `section` has the uncompressed records.

        Raises CorruptRecordError, InvalidRecordError.
        """
        for piece, count in pieces_of(section, batch.record_count):
            keys, key_bytes = kernels.note_keys(piece, count, batch.base_offset, self.offsets)
            self._bytes += keys * ENTRY_BYTES + key_bytes
            yield None
        self.latest_offset = batch.last_offset
