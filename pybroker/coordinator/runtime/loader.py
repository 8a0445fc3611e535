"""Fills shards from their logs, in slices, so that the loop has its turn in between.

Shards are loaded one after the other in the order of their partitions. A record that cannot be read fails its shard, as what is
behind it cannot be trusted to be complete, and so does whatever else goes wrong; the others are loaded all the same. A type of
record that we do not know, as a newer broker may have written it, is skipped.

Source: CoordinatorLoaderImpl.
"""

from __future__ import annotations

import gc
import logging
from collections import Counter, deque
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final, Generic

from pybroker.coordinator.runtime.runtime import S
from pybroker.records.batch import batches
from pybroker.records.errors import CorruptRecordError

if TYPE_CHECKING:
    from pybroker.coordinator.runtime.result import Operation
    from pybroker.coordinator.runtime.runtime import CoordinatorRuntime
    from pybroker.log.log import Log
    from pybroker.records.batch import BatchView

logger = logging.getLogger(__name__)

SLICE_RECORDS: Final = 1_000
"""Records replayed before the loop has its turn: a few ms."""

FREEZE_RECORDS: Final = 20_000
"""After so many replayed records the garbage collector is told to leave alone what is there: it lives long, and going through a
million offsets again and again costs a third of the loading, and later a pause of 100 ms now and then.
"""

Loading = Iterator[int]
"""Does a batch per step and yields the number of its records."""

ReplayBatch = Callable[[S, "BatchView", Counter[int]], None]
"""Replays the records of a batch into the shard, and counts the types that mean nothing there."""


class Loader(Generic[S]):
    """Loads shards while the loop is running. `call_soon` runs its argument in the loop's next iteration."""

    def __init__(
        self,
        runtime: CoordinatorRuntime[S],
        call_soon: Callable[[Callable[[], None]], object],
        *,
        replay_batch: ReplayBatch[S],
        bytes_max: int,
    ) -> None:
        self._runtime = runtime
        self._call_soon = call_soon
        self._replay_batch = replay_batch
        self._bytes_max = bytes_max
        self._queue: deque[tuple[int, S, Loading]] = deque()
        self._replayed = 0  # since the collector was told
        self._loaded: Operation | None = None
        self._waiting: list[Callable[[], None]] = []

    def start(self, partition: int, log: Log, loaded: Operation) -> None:
        """Load the shard of `partition` from `log`; `loaded` is its first operation. An empty log is done at once."""
        shard = self._runtime.begin_loading(partition)
        self._loaded = loaded
        if log.log_start_offset == log.log_end_offset:
            self._end(partition)
            return
        self._queue.append((partition, shard, replay_log(shard, log, self._replay_batch, bytes_max=self._bytes_max)))
        if len(self._queue) == 1:
            self._call_soon(self._slice)

    def when_done(self, callback: Callable[[], None]) -> None:
        """Call back as soon as nothing is left to load: at once if that is so."""
        if self._queue:
            self._waiting.append(callback)
        else:
            callback()

    def _slice(self) -> None:
        replayed_count = 0
        while self._queue and replayed_count < SLICE_RECORDS:
            partition, shard, loading = self._queue[0]
            if not self._runtime.is_loading(partition, shard):
                self._queue.popleft()  # unloaded meanwhile
                continue
            try:
                step = next(loading, None)
            except Exception as error:  # whatever it is, the shards behind it must be loaded
                self._give_up(partition, error)
                continue
            if step is None:
                self._queue.popleft()
                self._end(partition)
            else:
                replayed_count += step
        self._replayed += replayed_count
        if self._replayed >= FREEZE_RECORDS:
            gc.freeze()
            self._replayed = 0
        if self._queue:
            self._call_soon(self._slice)
            return
        waiting, self._waiting = self._waiting, []
        for callback in waiting:
            callback()

    def _end(self, partition: int) -> None:
        assert self._loaded is not None
        try:
            self._runtime.end_loading(partition, self._loaded)
        except Exception as error:
            self._give_up(partition, error)

    def _give_up(self, partition: int, error: Exception) -> None:
        """Nobody coordinates these groups until the next change of the partition's leader."""
        logger.error("Partition %d of the groups cannot be loaded", partition, exc_info=error)
        self._runtime.unload(partition)


def replay_log(shard: S, log: Log, replay_batch: ReplayBatch[S], *, bytes_max: int) -> Loading:
    """Replay everything that is in `log`; damaged batches are named in the log and passed over.

    Raises KafkaError, OSError, DecodeError, struct.error, ImportError of a codec.
    """
    offset = log.log_start_offset
    end_offset = log.log_end_offset
    skipped: Counter[int] = Counter()
    while offset < end_offset:
        batches_read: list[BatchView] = []
        reason: CorruptRecordError | None = None
        try:
            fetched = log.read(offset, bytes_max=bytes_max, upper_offset=end_offset, min_one_batch=True)
            if not fetched.size:
                break  # compaction has removed what was behind
            data = fetched.records if isinstance(fetched.records, bytes) else fetched.records.read(0, fetched.size)
            batches_read.extend(batches(data))
        except CorruptRecordError as error:
            reason = error
        if not batches_read:
            behind = log.offset_behind_damage(offset)
            if behind is None:
                raise reason or CorruptRecordError(f"no batch at offset {offset} of {log.topic_partition}")
            _log_damage(log, reason or "no batch", first_offset=offset, end_offset=behind)
            offset = behind
        for batch in batches_read:
            offset = batch.next_offset
            if not batch.is_valid:
                _log_damage(log, "a wrong checksum", first_offset=batch.base_offset, end_offset=offset)
            elif not batch.is_control:
                replay_batch(shard, batch, skipped)
                yield batch.record_count
    for type_id, count in skipped.items():
        logger.warning("%s: %d records of type %d were skipped", log.topic_partition, count, type_id)


def _log_damage(log: Log, reason: object, *, first_offset: int, end_offset: int) -> None:
    logger.error(
        "%s: the offsets %d to %d cannot be read (%s): the commits in there are lost, the rest is loaded",
        log.topic_partition,
        first_offset,
        end_offset - 1,
        reason,
    )
