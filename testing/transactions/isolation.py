"""Finds the records that a consumer hands out of fetched batches, with code that is not the broker's.

Source: the consumer's CompletedFetch; KIP-98.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol

from aiokafka.record.memory_records import MemoryRecords


class Aborted(Protocol):
    """An aborted transaction of a response."""

    producer_id: int
    first_offset: int


class HandedOut(NamedTuple):
    """Offsets with values, and the offset to fetch next."""

    records: list[tuple[int, bytes]]
    next_offset: int


def hand_out(data: bytes, aborted: Iterable[Aborted] | None, fetch_offset: int) -> HandedOut:
    """Return the records from `fetch_offset` on; `aborted` is None for `read_uncommitted`."""
    begins: Sequence[Aborted] = sorted(aborted or (), key=lambda one: one.first_offset)
    is_aborted: set[int] = set()
    found: list[tuple[int, bytes]] = []
    position = fetch_offset
    batches = MemoryRecords(data)
    while batches.has_next():
        batch = batches.next_batch()
        assert batch is not None
        while begins and begins[0].first_offset < batch.next_offset:
            is_aborted.add(begins[0].producer_id)
            begins = begins[1:]
        if batch.is_control_batch:
            is_aborted.discard(batch.producer_id)
        elif not (batch.is_transactional and batch.producer_id in is_aborted and aborted is not None):
            found += [(record.offset, record.value or b"") for record in batch if record.offset >= fetch_offset]
        position = max(position, batch.next_offset)
    return HandedOut(found, position)
