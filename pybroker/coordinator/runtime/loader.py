"""Fills shards from their logs, in slices, so that the event loop can do other work in between.

The loader loads shards in turn, in the order of their partitions. Any client may write to an internal topic, so the loader skips
a record that cannot be decoded, and logs its offset. It also skips damaged batches, and records of unknown types, which a newer
broker may have written. Any other error fails the shard; the other shards are loaded all the same.

Source: CoordinatorLoaderImpl.
"""

from __future__ import annotations

import logging
import struct
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain, islice
from operator import length_hint
from typing import TYPE_CHECKING, Final, Generic

from pybroker.coordinator.runtime.active import S
from pybroker.coordinator.runtime.once import log_failure
from pybroker.protocol.wire import DecodeError
from pybroker.records.batch import batches
from pybroker.records.control import ControlType, control_type
from pybroker.records.entries import entries
from pybroker.records.errors import CorruptRecordError
from pybroker.sharing.mailbox import Mailbox
from pybroker.sharing.work import while_wanted

if TYPE_CHECKING:
    from pybroker.coordinator.runtime.result import Operation
    from pybroker.coordinator.runtime.runtime import CoordinatorRuntime
    from pybroker.log.log import Log
    from pybroker.model import Offset, ProducerId
    from pybroker.records.batch import BatchView
    from pybroker.records.entries import Entry
    from pybroker.sharing.work import Pausing

logger = logging.getLogger(__name__)

_SOME_RECORDS: Final = 100
"""The number of records that are replayed between two yields."""


NAMED_RECORDS: Final = 10
"""The log names this many records of a partition that cannot be decoded, and has the number of all."""

_MARKERS: Final = frozenset({ControlType.COMMIT, ControlType.ABORT})

ReplayBatch = Callable[[S, "BatchView", Iterator["Entry"], Counter[int]], Iterator[None]]
"""Replays some records of a batch into the shard, and counts the types that mean nothing there. The batch may belong to an open
transaction; its marker comes later. A record that raises DecodeError or struct.error has changed nothing, and is the last one
that was taken from the iterator.
"""

ReplayMarker = Callable[[S, "ProducerId", bool], Iterator[None]]
"""Replays the marker of a producer's transaction, which commits it or not, in slices."""


def no_markers(_shard: object, _producer_id: ProducerId, _is_commit: bool) -> Iterator[None]:
    """Ignore the markers of a log that has no transactions."""
    return iter(())


class Loader(Generic[S]):
    """A loader of shards, which works while the loop is running. `call_soon` runs its argument in the loop's next iteration.

    In a process that is one broker, `freeze` is `gc.freeze`: the garbage collector ignores all present objects from then on. They
    live long. If the collector visited a million offsets again and again, the loading would take a third longer, and later
    collections 100 ms. An embedded broker freezes nothing.
    """

    def __init__(
        self,
        runtime: CoordinatorRuntime[S],
        call_soon: Callable[[Callable[[], None]], object],
        *,
        replay_batch: ReplayBatch[S],
        replay_marker: ReplayMarker[S] = no_markers,
        bytes_max: int,
        freeze: Callable[[], None] | None = None,
    ) -> None:
        self._runtime = runtime
        self._mailbox = Mailbox(call_soon, "loading of a coordinator")
        self._replay_log = partial(
            replay_log, replay_batch=replay_batch, replay_marker=replay_marker, bytes_max=bytes_max, freeze=freeze
        )

    def start(
        self, partition: int, log: Log, loaded: Operation, examine: Callable[[S], Iterator[None]] = lambda _shard: iter(())
    ) -> None:
        """Load the shard of `partition` from `log`; `loaded` is its first operation. An empty log is loaded at once.

        `examine` returns work on the loaded shard that comes before that operation, in slices as well.
        """
        shard = self._runtime.begin_loading(partition)
        if log.log_start_offset == log.log_end_offset:
            self._end(partition, shard, loaded)
        else:
            is_wanted = partial(self._runtime.is_loading, partition, shard)  # else it was unloaded meanwhile
            work = self._load(partition, shard, chain(self._replay_log(shard, log), examine(shard)), loaded)
            self._mailbox.add(lambda: while_wanted(is_wanted, work), partial(self._give_up, partition, shard))

    def when_done(self, callback: Callable[[], None]) -> None:
        """Call `callback` as soon as what is being loaded now is loaded, which may be at once."""
        self._mailbox.run(callback, partial(log_failure, f"What follows the loading of {self._runtime.topic}"))

    def _load(self, partition: int, shard: S, work: Iterator[None], loaded: Operation) -> Pausing[None]:
        yield from work
        self._end(partition, shard, loaded)

    def _end(self, partition: int, shard: S, loaded: Operation) -> None:
        try:
            self._runtime.end_loading(partition, loaded, partial(self._give_up, partition, shard))
        except Exception as error:
            self._give_up(partition, shard, error)

    def _give_up(self, partition: int, shard: S, error: Exception) -> None:
        """Unload the shard, so that no broker coordinates what it holds until the next change of the partition's leader."""
        logger.error(
            "%s-%d cannot be loaded: the broker does not coordinate what it holds, and clients get NOT_COORDINATOR",
            self._runtime.topic,
            partition,
            exc_info=error,
        )
        if self._runtime.is_loading(partition, shard):  # else a later leadership has a shard of its own
            self._runtime.unload(partition)


def replay_log(
    shard: S,
    log: Log,
    replay_batch: ReplayBatch[S],
    replay_marker: ReplayMarker[S] = no_markers,
    *,
    bytes_max: int,
    freeze: Callable[[], None] | None = None,
) -> Pausing[None]:
    """Replay everything that is in `log`; damaged batches, and records that cannot be decoded, are logged and skipped.

    `freeze` is called between two reads. Raises KafkaError, OSError, ImportError of a codec.
    """
    offset = log.log_start_offset
    end_offset = log.log_end_offset
    skipped, unreadable = Counter[int](), 0
    while offset < end_offset:
        if freeze is not None and offset > log.log_start_offset:
            freeze()
        batches_read: list[BatchView] = []
        reason = ""
        try:
            fetched = log.read(offset, bytes_max=bytes_max, upper_offset=end_offset, min_one_batch=True)
            if not fetched.size:
                break  # compaction has removed the rest
            data = fetched.records if isinstance(fetched.records, bytes) else fetched.records.read(0, fetched.size)
            batches_read.extend(batches(data))
        except CorruptRecordError as error:
            reason = str(error)
        if not batches_read:
            next_offset = log.offset_behind_damage(offset)
            if next_offset is None:
                raise CorruptRecordError(reason or f"no batch at offset {offset} of {log.topic_partition}")
            _log_damage(log, reason or "no batch", first_offset=offset, end_offset=next_offset)
            offset = next_offset
        for batch in batches_read:
            offset = batch.next_offset
            if not batch.is_valid:
                _log_damage(log, "a wrong checksum", first_offset=batch.base_offset, end_offset=offset)
            elif batch.is_control:
                if batch.record_count and (kind := control_type(batch)) in _MARKERS:  # compaction may have emptied it
                    yield from replay_marker(shard, batch.producer_id, kind is ControlType.COMMIT)
            else:
                unreadable = yield from _replay_records(shard, log, batch, replay_batch, skipped, unreadable)
    if unreadable:
        logger.warning("%s: the broker skipped the records that cannot be decoded, %d in all", log.topic_partition, unreadable)
    for type_id, count in skipped.items():
        logger.warning("%s: the broker skipped %d records of the unknown type %d", log.topic_partition, count, type_id)


def _replay_records(  # noqa: PLR0917  (each is of another kind)
    shard: S, log: Log, batch: BatchView, replay_batch: ReplayBatch[S], skipped: Counter[int], unreadable: int
) -> Pausing[int]:
    """Replay the records of a batch. Returns `unreadable`, and one more for each record that cannot be decoded."""
    records = entries(batch)
    index = 0
    while some := list(islice(records, _SOME_RECORDS)):
        left = iter(some)
        while True:
            try:
                yield from replay_batch(shard, batch, left, skipped)
                break
            except (DecodeError, struct.error) as error:
                unreadable += 1
                if unreadable <= NAMED_RECORDS:
                    _log_unreadable(log, error, batch=batch, index=index + len(some) - length_hint(left) - 1)
        index += len(some)
        yield
    return unreadable


def _log_unreadable(log: Log, error: Exception, *, batch: BatchView, index: int) -> None:
    """Log which record of the batch it is; its offset is no sum, because compaction leaves gaps."""
    record = next(islice(batch.records(), index, None))
    reason = "it ends too early" if isinstance(error, struct.error) else error
    logger.warning(
        "%s: the record at offset %d cannot be decoded (%s): the broker skips it", log.topic_partition, record.offset, reason
    )


def _log_damage(log: Log, reason: object, *, first_offset: Offset, end_offset: Offset) -> None:
    logger.error(
        "%s: the offsets %d to %d cannot be read (%s): their records are lost, the broker loads the rest",
        log.topic_partition,
        first_offset,
        end_offset - 1,
        reason,
    )
