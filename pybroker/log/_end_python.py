# cython: annotation_typing=False, boundscheck=False, wraparound=True
"""The end of a log in Python; `_end_native` is this same text, compiled with the types of `_end_native.pxd`.

So every rule is written once, and both builds follow it. After a change here the extension must be built again. `append.py` has
the slow path.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pybroker.model as model  # noqa: PLR0402  (the compiled text takes it from the package that it names)
from pybroker.log.results import AppendOrigin, LogAppendInfo
from pybroker.log.tail import ENTRY_DUE, UNUSUAL
from pybroker.records import kernels
from pybroker.records.quick_look import look_through

if TYPE_CHECKING:
    from pybroker.config.topic import TopicConfig
    from pybroker.log.directories.directory import LogDirectory
    from pybroker.log.leader_epoch_cache import LeaderEpochCache
    from pybroker.log.producers.producer_state import ProducerState
    from pybroker.log.segments.segments import Segments
    from pybroker.model import LeaderEpoch, Offset
    from pybroker.records.rules import ValidationRules
    from pybroker.records.validate import Checked
    from pybroker.records.work import Work

__all__ = ["AppendSettings", "LogEnd"]

CLIENT = AppendOrigin.CLIENT
CHECKED = AppendOrigin.CHECKED
COMPRESSED_SINCE = 7
"""The version of Produce since which every codec is allowed; `validate` looks at the codecs of earlier ones."""


class AppendSettings:
    """The settings that an append of a usual batch reads of its topic: the values of `config`, and of `current`, its rules.

    `AppendRules` has the rest, and sets all of it. Sizes are in bytes, times in ms.
    """

    __slots__ = (
        "config",
        "current",
        "flush_messages",
        "is_compacted",
        "kept_codecs",
        "segment_bytes",
        "segment_ms",
        "timestamp_after_max_ms",
        "timestamp_before_max_ms",
        "usual_bytes_max",
    )

    config: TopicConfig
    current: ValidationRules
    flush_messages: int
    is_compacted: bool
    kept_codecs: int
    segment_bytes: int
    segment_ms: int
    timestamp_after_max_ms: int
    timestamp_before_max_ms: int
    usual_bytes_max: int

    def rules(self, config: TopicConfig) -> ValidationRules:
        """Return the rules for producers; the same object until `config` is another object."""
        raise NotImplementedError


class LogEnd:
    """The state of a log that an append of a usual batch reads and changes.

    `Log` has the rest. Its operations (`append`, `truncate`, `recovery`, `flush`, `retention`) set this state, too, and `config`
    is set wherever a new configuration of the topic comes from.
    """

    __slots__ = (
        "config",
        "epochs",
        "is_closed",
        "is_unfinished",
        "log_directory",
        "log_end_offset",
        "log_start_offset",
        "producers",
        "recovery_point",
        "segments",
        "unflushed_messages",
        "unsettled_upto",
        "validator",
    )

    config: TopicConfig
    epochs: LeaderEpochCache
    is_closed: bool
    is_unfinished: bool
    log_directory: LogDirectory
    log_end_offset: Offset
    log_start_offset: Offset
    producers: ProducerState
    recovery_point: Offset
    segments: Segments
    unflushed_messages: int
    unsettled_upto: Offset
    validator: AppendSettings

    def append_as_leader(  # noqa: PLR0917  (a call by position is a third of a call by name)
        self,
        records: memoryview | Checked,
        leader_epoch: LeaderEpoch,
        now_ms: int,
        origin: AppendOrigin = CLIENT,
        request_version: int | None = None,
        work: Work | None = None,
    ) -> LogAppendInfo:
        """Check records, give them offsets and write them.

        `records` is borrowed until return, and patched in place where it is writable. They were checked already if
        `origin` is CHECKED, and only then. `request_version` is that of Produce, which determines which records are
        allowed; None for the broker's own records.

        Raises KafkaError: CORRUPT_MESSAGE, INVALID_RECORD, INVALID_TIMESTAMP, MESSAGE_TOO_LARGE, RECORD_LIST_TOO_LARGE,
        UNSUPPORTED_COMPRESSION_TYPE, UNSUPPORTED_FOR_MESSAGE_FORMAT, OUT_OF_ORDER_SEQUENCE_NUMBER, INVALID_PRODUCER_EPOCH,
        INVALID_TXN_STATE, TRANSACTION_COORDINATOR_FENCED.
        """
        if self.is_closed or self.log_directory.failure is not None:
            self.check_usable()
        if self.is_unfinished:
            self.finish_truncation()
        validator, config = self.validator, self.config
        rules = validator.current if config is validator.config else validator.rules(config)
        kept_codecs = validator.kept_codecs
        if request_version is not None and request_version < COMPRESSED_SINCE:
            kept_codecs &= 1
        if kept_codecs and origin is not CHECKED:
            info = self._append_usual(records, leader_epoch, now_ms, origin, kept_codecs, work)
            if info is not None:
                return info
        return self.append_unusual(records, rules, leader_epoch, now_ms, origin, request_version, work)

    def _append_usual(  # noqa: PLR0917  (as above)
        self,
        data: Any,
        leader_epoch: LeaderEpoch,
        now_ms: int,
        origin: AppendOrigin,
        kept_codecs: int,
        work: Work | None,
    ) -> LogAppendInfo | None:
        """Append a batch of the usual form, which one call checks. Returns None, with nothing done, for any other.

        After the check comes `append.append_accepted` for one plain batch, written out: a change there belongs here, too
        (`tests/log/test_append_ways.py` compares them). Raises the errors of `append_as_leader`.
        """
        first_offset, settings = self.log_end_offset, self.validator
        accepted = self._accepted(data, leader_epoch, now_ms, kept_codecs)
        if accepted is None:
            return None
        last_offset_delta, max_timestamp, producer_id, producer_epoch, base_sequence, inflated_bytes = accepted
        if inflated_bytes and work is not None:
            work.count(inflated_bytes, settings.current)
        producers, continued = self.producers, None
        if producer_id >= 0:
            continued = producers.find_continued(producer_id, producer_epoch, base_sequence)
            if continued is None:
                return self.append_accepted(data, now_ms, origin)
        record_count = last_offset_delta + 1
        end_offset = self.log_end_offset + record_count
        last_offset = end_offset - 1
        try:
            entries = self.epochs.entries
            if not entries or entries[-1].epoch != leader_epoch:
                self.epochs.assign(leader_epoch, first_offset)
            self._write(
                data,
                first_offset,
                last_offset,
                max_timestamp,
                last_offset,
                now_ms,
                settings.segment_bytes,
                settings.segment_ms,
                None,
            )
            self.log_end_offset = producers.map_end_offset = end_offset
            if continued is not None:
                producers.add(continued, base_sequence, last_offset, last_offset_delta, max_timestamp)
            self.unflushed_messages += record_count
            if self.unflushed_messages >= settings.flush_messages:
                self.settle(first_offset)
        except OSError as error:
            raise self.log_directory.fail(error) from error
        return model.new_tuple(
            LogAppendInfo,
            (first_offset, last_offset, max_timestamp, -1, self.log_start_offset, record_count, len(data), 0, 0, False),
        )

    def append_as_follower(self, records: memoryview, now_ms: int) -> LogAppendInfo:
        """Write batches as the leader has them, with their offsets and epochs. `records` is borrowed until return.

        Ordinary batches of the log's latest epoch are checked by one call, and written together. After the check comes
        `append.append_unusual_copies` for such batches, written out (`tests/log/test_follower_ways.py` compares them).

        Raises KafkaError: CORRUPT_MESSAGE, OFFSET_OUT_OF_RANGE if they do not continue the log.
        """
        if self.is_closed or self.log_directory.failure is not None:
            self.check_usable()
        if self.is_unfinished:
            self.finish_truncation()
        entries, config = self.epochs.entries, self.config
        copies = kernels.accept_copies(records, self.log_end_offset, entries[-1].epoch) if entries else None
        if copies is None or copies[0] > config.segment_bytes:
            return self.append_unusual_copies(records, now_ms)
        size, last_offset, max_timestamp, offset_of_max_timestamp, record_count, places, produced = copies
        first_offset, producers = places[0][0], self.producers
        try:
            self._write(
                records if size == len(records) else records[:size],
                first_offset,
                last_offset,
                max_timestamp,
                offset_of_max_timestamp,
                now_ms,
                config.segment_bytes,
                config.segment_ms,
                places,
            )
            self.log_end_offset = producers.map_end_offset = last_offset + 1
            for batch in produced:
                producers.copy(*batch)
            self.unflushed_messages += last_offset + 1 - first_offset
            if self.unflushed_messages >= config.flush_messages:
                self.settle(first_offset)
        except OSError as error:
            raise self.log_directory.fail(error) from error
        return model.new_tuple(
            LogAppendInfo, (first_offset, last_offset, max_timestamp, -1, self.log_start_offset, record_count, size, 0, 0, False)
        )

    def _write(  # noqa: PLR0917  (as above)
        self,
        data: Any,
        first_offset: Offset,
        last_offset: Offset,
        max_timestamp: int,
        offset_of_max_timestamp: Offset,
        now_ms: int,
        segment_bytes: int,
        segment_ms: int,
        places: Any,
    ) -> None:
        """Write batches and note them. `places` has base offset and size of each, None for a single one. Raises the errors of
        `write_batches`.
        """
        segment = self.segments.active
        file, tail, done = segment.open_file, segment.tail, UNUSUAL
        if file is not None:
            done = tail.append(
                file,
                data,
                first_offset,
                last_offset,
                max_timestamp,
                offset_of_max_timestamp,
                now_ms,
                segment_bytes,
                segment_ms,
                places,
            )
        if done == ENTRY_DUE:
            segment.add_entry(last_offset, tail.size - len(data))
        elif done == UNUSUAL:
            self.write_batches(
                data, places or [(first_offset, len(data))], last_offset, max_timestamp, offset_of_max_timestamp, now_ms
            )

    def _accepted(self, data: Any, leader_epoch: LeaderEpoch, now_ms: int, kept_codecs: int) -> Any:
        """Return what `accept_batch` returns under the rules of the topic."""
        settings = self.validator
        return kernels.accept_batch(
            data,
            self.log_end_offset,
            leader_epoch,
            now_ms,
            settings.usual_bytes_max,
            settings.timestamp_before_max_ms,
            settings.timestamp_after_max_ms,
            settings.is_compacted,
            kept_codecs,
            look_through,
        )

    # -- what `Log` does

    def check_usable(self) -> None:
        """Raise KafkaError(KAFKA_STORAGE_ERROR) if the log is closed or its directory offline."""
        raise NotImplementedError

    def finish_truncation(self) -> None:
        """Do the rest of a truncation that stopped half-way."""
        raise NotImplementedError

    def settle(self, first_offset: Offset) -> None:
        """Hide an append at `first_offset`, which has reached `flush.messages`, until it is durable."""
        raise NotImplementedError

    def append_unusual(  # noqa: PLR0917  (as above)
        self,
        records: memoryview | Checked,
        rules: ValidationRules,
        leader_epoch: LeaderEpoch,
        now_ms: int,
        origin: AppendOrigin,
        request_version: int | None,
        work: Work | None,
    ) -> LogAppendInfo:
        """Append records of any form, as `append_as_leader`."""
        raise NotImplementedError

    def append_accepted(self, data: memoryview, now_ms: int, origin: AppendOrigin) -> LogAppendInfo:
        """Append a batch that has its final offsets, with all rules for producers."""
        raise NotImplementedError

    def append_unusual_copies(self, records: memoryview, now_ms: int) -> LogAppendInfo:
        """Append batches of any form, as `append_as_follower`."""
        raise NotImplementedError

    def write_batches(  # noqa: PLR0917  (as above)
        self,
        data: memoryview,
        places: list[tuple[Offset, int]],
        last_offset: Offset,
        max_timestamp: int,
        offset_of_max_timestamp: Offset,
        now_ms: int,
    ) -> None:
        """Write batches and note them, in a new segment if they belong into one. Raises OSError, RECORD_LIST_TOO_LARGE."""
        raise NotImplementedError
