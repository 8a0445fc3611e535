"""The rules for records before they enter a log: the topic's rules for producers' records, and sound batches from a
leader.

Source: UnifiedLog.analyzeAndValidateRecords.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from pybroker.log.end import AppendSettings
from pybroker.records.batch import BatchView, batches
from pybroker.records.errors import CorruptRecordError
from pybroker.records.rules import INFLATION_MAX, ValidationRules

if TYPE_CHECKING:
    from pybroker.config.topic import TopicConfig
    from pybroker.log.files.room import Room


class AppendRules(AppendSettings):
    """The rules of one log, derived again when its configuration is replaced: `current` are those of `config`."""

    __slots__ = ("_inflation_max",)

    def __init__(self, config: TopicConfig, inflation_max: int = INFLATION_MAX) -> None:
        self._inflation_max = inflation_max
        self._take(config)

    def rules(self, config: TopicConfig) -> ValidationRules:
        """Return the rules for producers; the same object until `config` is another object."""
        if config is not self.config:
            self._take(config)
        return self.current

    def _take(self, config: TopicConfig) -> None:
        """Keep what appends need of a configuration."""
        current = ValidationRules.of(config, self._inflation_max)
        self.config, self.current = config, current
        self.is_compacted = current.is_compacted
        self.kept_codecs = current.kept_codecs
        self.timestamp_after_max_ms = current.timestamp_after_max_ms
        self.timestamp_before_max_ms = current.timestamp_before_max_ms
        self.usual_bytes_max = current.usual_bytes_max
        self.flush_messages = config.flush_messages
        self.segment_bytes = config.segment_bytes
        self.segment_ms = config.segment_ms


class NoRoomRules(AppendRules):
    """The rules while the log's volume is full. Their `config` is no log's, so `rules` is always called."""

    __slots__ = ("_room",)

    def __init__(self, config: TopicConfig, room: Room) -> None:
        super().__init__(dataclasses.replace(config))
        self._room = room

    def rules(self, config: TopicConfig) -> ValidationRules:  # noqa: ARG002
        """Raise KafkaError(KAFKA_STORAGE_ERROR)."""
        raise self._room.refusal()


def rules_of(config: TopicConfig, room: Room, inflation_max: int) -> AppendRules:
    """Return the rules of a log's appends, depending on whether its volume has room."""
    return NoRoomRules(config, room) if room.is_full else AppendRules(config, inflation_max)


def sound_batches(records: memoryview) -> list[BatchView]:
    """Return the whole batches that a leader sent, with checked checksums; a partial batch at the end is left out.

    Raises CorruptRecordError.
    """
    found: list[BatchView] = []
    last_offset = -1
    for batch in batches(records):
        batch.ensure_valid()
        if batch.base_offset <= last_offset or batch.last_offset_delta < 0:
            raise CorruptRecordError(f"replicated offsets do not grow: {batch.base_offset} after {last_offset}")
        found.append(batch)
        last_offset = batch.last_offset
    return found
