"""What must hold for records before they enter a log: the topic's rules for what a producer sends, and sound batches from a
leader.

Source: UnifiedLog.analyzeAndValidateRecords.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from pybroker.records.batch import BatchView, batches
from pybroker.records.errors import CorruptRecordError
from pybroker.records.validate import ValidationRules

if TYPE_CHECKING:
    from pybroker.config.topic import TopicConfig
    from pybroker.log.room import Room


class AppendRules:
    """The rules of one log, derived anew when its configuration is replaced: `current` are those of `config`."""

    __slots__ = ("config", "current")

    def __init__(self, config: TopicConfig) -> None:
        self.config = config
        self.current = ValidationRules.of(config)

    def rules(self, config: TopicConfig) -> ValidationRules:
        """What producers must keep to; the same object until `config` is another one."""
        if config is not self.config:
            self.config, self.current = config, ValidationRules.of(config)
        return self.current


class NoRoomRules(AppendRules):
    """In place of the rules while the log's volume is full. Its `config` is no log's, so `rules` is always asked."""

    __slots__ = ("_room",)

    def __init__(self, config: TopicConfig, room: Room) -> None:
        super().__init__(dataclasses.replace(config))
        self._room = room

    def rules(self, config: TopicConfig) -> ValidationRules:  # noqa: ARG002
        """Raises KafkaError(KAFKA_STORAGE_ERROR)."""
        raise self._room.refusal()


def rules_of(config: TopicConfig, room: Room) -> AppendRules:
    """The rules of a log's appends, by whether its volume has room."""
    return NoRoomRules(config, room) if room.is_full else AppendRules(config)


def sound_batches(records: memoryview) -> list[BatchView]:
    """The whole batches that a leader sent, with their checksums tried; a partial one at the end is left out.

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
