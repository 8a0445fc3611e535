"""What must hold for records before they enter a log: the topic's rules for what a producer sends, and sound batches from a
leader.

Source: UnifiedLog.analyzeAndValidateRecords.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pybroker.log.results import AppendOrigin
from pybroker.records.batch import BatchView, batches
from pybroker.records.errors import CorruptRecordError
from pybroker.records.validate import ValidationResult, ValidationRules, validate_and_assign

if TYPE_CHECKING:
    from pybroker.config.topic import TopicConfig


class AppendValidator:
    """The rules of one log, derived anew when its configuration is replaced."""

    __slots__ = ("_config", "_rules")

    def __init__(self, config: TopicConfig) -> None:
        self._config = config
        self._rules = ValidationRules.of(config)

    def as_leader(
        self,
        records: memoryview,
        *,
        config: TopicConfig,
        next_offset: int,
        leader_epoch: int,
        now_ms: int,
        origin: AppendOrigin,
        request_version: int | None,
    ) -> ValidationResult:
        """Check what a producer sent and give it offsets from `next_offset` on. See `validate_and_assign` for what is raised."""
        if config is not self._config:
            self._config, self._rules = config, ValidationRules.of(config)
        return validate_and_assign(
            records,
            first_offset=next_offset,
            now_ms=now_ms,
            leader_epoch=leader_epoch,
            rules=self._rules,
            from_client=origin is AppendOrigin.CLIENT,
            produce_version=request_version,
        )


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
