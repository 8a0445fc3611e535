"""Makers of the messages in a Produce's response."""

from __future__ import annotations

from typing import Final

from pybroker.protocol.codec import maker
from pybroker.protocol.messages.produce import PartitionProduceResponse, ProduceResponse, TopicProduceResponse

new_response: Final = maker(ProduceResponse, "responses")
new_topic: Final = maker(TopicProduceResponse, "name", "topic_id", "partition_responses")
new_partition: Final = maker(
    PartitionProduceResponse,
    "index",
    "error_code",
    "base_offset",
    "log_append_time_ms",
    "log_start_offset",
    "error_message",
)
