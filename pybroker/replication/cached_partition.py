"""A partition of a fetch session: what a request wants of it, and what the client knows of it.

A session keeps one of these for each of its partitions, so its size is what a session costs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pybroker.metadata.names import NAME_CHARACTERS_MAX
from pybroker.model import NO_OFFSET, ZERO_TOPIC_ID, Offset
from pybroker.replication.fetch_data import FetchPartition, FetchPartitionData

if TYPE_CHECKING:
    from pybroker.replication.fetch_data import SessionKey


def has_possible_name(topic: str | None) -> bool:
    """Return whether a topic may have this name, as far as its length is concerned; True for a topic that only has an id.

    A session keeps no other names: each may take 32 kB, and a session that names its topics keeps them all.
    """
    return topic is None or len(topic) <= NAME_CHARACTERS_MAX


class CachedPartition(FetchPartition):
    """A partition of a session: the fields of its last request, and of its last response (`sent_...`)."""

    __slots__ = ("sent_high_watermark", "sent_log_start_offset")

    def __init__(self, asked: FetchPartition, topic: str | None, before: CachedPartition | None = None) -> None:
        super().__init__(
            topic,
            asked.topic_id,
            asked.partition,
            fetch_offset=asked.fetch_offset,
            max_bytes=asked.max_bytes,
            log_start_offset=asked.log_start_offset,
            current_leader_epoch=asked.current_leader_epoch,
            last_fetched_epoch=asked.last_fetched_epoch,
        )
        self.sent_high_watermark: Offset = NO_OFFSET if before is None else before.sent_high_watermark
        self.sent_log_start_offset: Offset = NO_OFFSET if before is None else before.sent_log_start_offset

    @property
    def key(self) -> SessionKey:
        """The partition's key within the session. Where requests name topics, no object is made for it."""
        if self.topic is not None and self.topic_id == ZERO_TOPIC_ID:
            return self.topic_partition
        return self.session_key

    def remember_response(self, data: FetchPartitionData) -> bool:
        """Remember the response. Returns whether it must be sent: anything but "the same as last time, and no records"."""
        must_send = (
            (data.records is not None and data.records.size > 0)
            or data.diverging_epoch is not None
            or data.preferred_read_replica >= 0
        )
        if data.high_watermark != self.sent_high_watermark:
            self.sent_high_watermark = data.high_watermark
            must_send = True
        if data.log_start_offset != self.sent_log_start_offset:
            self.sent_log_start_offset = data.log_start_offset
            must_send = True
        if data.error_code:
            self.sent_high_watermark = NO_OFFSET  # so that a response is sent when the error ends
            must_send = True
        return must_send
