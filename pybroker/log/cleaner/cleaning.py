"""The cleaning of one log: note the keys, write the segments again, put them in place, note how far that came."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from pybroker.log.manager import checkpoint_pass
from pybroker.log.recovery.leftovers import drop_unfinished
from pybroker.model import Offset
from pybroker.sharing.work import in_thread

if TYPE_CHECKING:
    from pybroker.log.cleaner.cleanable import Cleanable
    from pybroker.log.cleaner.progress import Progress
    from pybroker.log.cleaner.worker import CleanerWorker
    from pybroker.log.manager.manager import LogManager
    from pybroker.sharing.work import Work

logger = logging.getLogger(__name__)


def clean(one: Cleanable, logs: LogManager, progress: Progress, worker: CleanerWorker, *, key_bytes_max: int) -> Work[None]:
    """Clean one log; `worker.target` is what is being written. Raises CorruptRecordError, SegmentsChangedError, OSError."""
    # Import these only when there is something to clean: a start does without them.
    from pybroker.log.cleaner.key_offsets import KeyOffsets  # noqa: PLC0415
    from pybroker.log.cleaner.replace import SegmentsChangedError, replace, unless_changed  # noqa: PLC0415
    from pybroker.log.cleaner.rewrite import Totals, groups, new_target, note_keys, rewrite  # noqa: PLC0415
    from pybroker.log.cleaner.transactions import CleanedTransactions  # noqa: PLC0415

    log, clock, run = one.log, logs.services.clock, one.log.log_directory.run_in_thread
    now_ms, began_ms = clock.time_ms(), clock.monotonic_ms()
    truncations = one.truncations
    read = [segment for segment in log.segments if segment.base_offset < one.first_uncleanable_offset]
    keys, totals = KeyOffsets(key_bytes_max), Totals()
    # Beside an unfinished segment, a start would take a complete one for unfinished too.
    yield from in_thread(run, lambda: drop_unfinished(log))
    # No recovery must read what was cleaned: it would take a gap for a loss, and miss producers that have no
    # batch left.
    yield from in_thread(run, (yield from checkpoint_pass.both(log.log_directory, logs.all_logs)))
    if not progress.is_known(log):  # so that a start knows of gaps even if a person removed that checkpoint
        progress.note(log, log.log_start_offset)
        yield from in_thread(run, (yield from progress.checkpoint(log.log_directory)))
    with unless_changed(log, read, truncations):
        yield from note_keys(one, keys, CleanedTransactions(), worker)
    end_offset = keys.latest_offset + 1
    transactions = CleanedTransactions()
    for group in list(groups(log, end_offset)):
        target = worker.target = new_target(log, group[0][0].base_offset, now_ms)
        olds = [segment for segment, _ in group]
        with unless_changed(log, olds, truncations):
            yield from rewrite(log, group, target, keys, transactions, worker, totals=totals, now_ms=now_ms)
        yield from replace(log, olds, target, truncations=truncations)
        worker.target = None
    if truncations != log.truncations:
        raise SegmentsChangedError(f"{log.topic_partition} was shortened meanwhile")
    progress.note(log, Offset(end_offset))
    yield from in_thread(run, (yield from progress.checkpoint(log.log_directory)))
    stats = worker.stats
    stats.bytes_read, stats.bytes_written = totals.bytes_read, totals.bytes_written
    stats.buffer_utilization = keys.utilization
    stats.elapsed_s = (clock.monotonic_ms() - began_ms) // 1000
    logger.info(
        "Compacted %s up to offset %d: %d of %d records stayed, %d of %d bytes",
        log.topic_partition,
        end_offset,
        totals.records_written,
        totals.records_read,
        totals.bytes_written,
        totals.bytes_read,
    )
