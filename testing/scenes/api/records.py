"""Record batches as producers of the three formats send them, and a reader of what consumers get."""

from __future__ import annotations

from collections.abc import Sequence

from aiokafka.record.memory_records import MemoryRecords

from pybroker.model import Offset
from pybroker.records.batch import Record
from pybroker.records.build import build_batch, build_message_set
from testing.scenes.api.whole import NOW_MS


def batch_of_values(*values: bytes | None, timestamp: int = NOW_MS, **fields: int) -> bytes:
    """Return a batch of magic 2; `fields` are the producer's id, epoch and sequence."""
    records = [Record(Offset(offset), timestamp + offset, b"key", value) for offset, value in enumerate(values)]
    return bytes(build_batch(records, **fields))  # type: ignore[arg-type]  # ints only


def message_set(*values: bytes | None, magic: int) -> bytes:
    """Return messages of magic 0 or 1 without a codec."""
    records = [Record(Offset(offset), NOW_MS + offset if magic else -1, b"key", value) for offset, value in enumerate(values)]
    return bytes(build_message_set(records, magic=magic))


def read(data: bytes | memoryview) -> list[tuple[int, bytes | None]]:
    """Return offsets and values, as an independent reader finds them; a partial batch at the end is left out."""
    found: list[tuple[int, bytes | None]] = []
    records = MemoryRecords(bytes(data))
    while records.has_next():
        entry = records.next_batch()
        assert entry is not None
        assert entry.validate_crc()
        found += [(record.offset, record.value) for record in entry]
    return found


def offsets(values: Sequence[tuple[int, bytes | None]]) -> list[int]:
    """Return the offsets that `read` found."""
    return [offset for offset, _ in values]
