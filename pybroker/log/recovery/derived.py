"""Checks, at a start, the files that readers believe although they are only derived from the data: transaction indexes.

A start looks at no data of sealed segments after a clean stop. If a transaction index of a sealed segment is cut or gone,
`read_committed` consumers get aborted records, and nothing shows it. So a clean stop notes how many entries each index has, in
its marker (`AbortedCounts`), and a start compares that with the size of the file. An index that does not fit is made again from
the headers of its segment, and from the producers as the snapshot before it knows them.

After an unclean stop, and where Kafka or an older broker wrote the marker, there are no counts. Then the size must be a multiple
of that of an entry, which costs as little. `pybroker log verify` compares every index with its data.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from pybroker.config.setting import LONG_MAX
from pybroker.log.append import producer_batch
from pybroker.log.indexes.transaction_index import ENTRY, AbortedTransaction
from pybroker.log.producers.producer_state import CompletedTransaction, ProducerState
from pybroker.log.segments.batch_scan import CorruptDataError, read_bytes
from pybroker.records.batch import BatchView
from pybroker.records.errors import CorruptRecordError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pybroker.log.log_state import LogState
    from pybroker.log.segments.segment import LogSegment
    from pybroker.model import Offset

logger = logging.getLogger(__name__)


def completed_transactions(
    log: LogState, producers: ProducerState, end_offset: Offset
) -> Iterator[tuple[LogSegment, CompletedTransaction]]:
    """Bring `producers` to their state at `end_offset` by the batches from where they are on. Yields the transactions that end.

    Each must be completed before the next step. Raises OSError.
    """
    start_offset = producers.map_end_offset
    for segment in log.segments.starting_with(start_offset):
        if segment.base_offset >= end_offset or start_offset >= end_offset:
            break
        for position, header in segment.intact(segment.position_of(max(start_offset, segment.base_offset))):
            if header.base_offset >= end_offset:
                break
            if header.producer_id >= 0 and header.last_offset >= start_offset:
                completed = _update(producers, segment, position, header)
                if completed is not None:
                    yield segment, completed
    producers.map_end_offset = end_offset


def _update(producers: ProducerState, segment: LogSegment, position: int, header: BatchView) -> CompletedTransaction | None:
    try:
        if header.is_control:
            header = BatchView(memoryview(read_bytes(segment.file, header.batch_length, position)))
        batch = producer_batch(header)
    except (CorruptRecordError, CorruptDataError) as error:
        logger.warning("%s: the marker at offset %d is unreadable and skipped: %s", segment.path, header.base_offset, error)
        return None
    return None if batch is None else producers.update(batch)


def mend_transaction_indexes(log: LogState, counts: Mapping[Offset, int] | None, *, upto: Offset) -> None:
    """Make the transaction indexes again that are not as the last stop has left them, of segments that end at or below `upto`.

    `counts` has the entries of the indexes that are not empty, by the segments' base offsets; None if that is not known. Raises
    OSError.
    """
    for segment in list(log.segments):
        if segment.end_offset > upto:
            break
        size = segment.transaction_index.size_in_file()
        expected = None if counts is None else counts.get(segment.base_offset, 0)
        if size % ENTRY.size or (expected is not None and size != expected * ENTRY.size):
            _make_again(log, segment, size=size, expected=expected)


def _make_again(log: LogState, segment: LogSegment, *, size: int, expected: int | None) -> None:
    index, first = segment.transaction_index, segment.base_offset
    logger.warning(
        "%s is damaged: it has %d bytes, which is not %s; the broker makes it again from the data of its segment",
        index.path,
        size,
        f"a multiple of {ENTRY.size}" if expected is None else f"the {expected * ENTRY.size} of the last clean stop",
    )
    producers = ProducerState(log.filesystem, log.path, expiration_ms=LONG_MAX)
    producers.find_snapshots()
    producers.snapshots = {offset for offset in producers.snapshots if offset <= first}
    producers.reload(log_start_offset=log.log_start_offset, log_end_offset=first, now_ms=0)
    entries: list[AbortedTransaction] = []
    for of_segment, completed in completed_transactions(log, producers, segment.end_offset):
        if completed.is_aborted and of_segment is segment:
            last_stable_offset = producers.last_stable_offset_after(completed)
            entries.append(
                AbortedTransaction(completed.producer_id, completed.first_offset, completed.last_offset, last_stable_offset)
            )
        producers.complete(completed)
    index.replace(entries)
    log.producers.find_snapshots()  # an unreadable one was removed
