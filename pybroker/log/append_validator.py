"""What must hold for records before they enter a log: the topic's rules for what a producer sends, and sound batches from a
leader.

Source: UnifiedLog.analyzeAndValidateRecords.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pybroker.records.batch import BatchView, batches
from pybroker.records.errors import CorruptRecordError
from pybroker.records.validate import ValidationRules

if TYPE_CHECKING:
    from pybroker.config.topic import TopicConfig


class AppendValidator:
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
