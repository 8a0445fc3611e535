"""The three loops of a fetch over its partitions, in Python. Their contract is in `_native.pyi`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pybroker.model import ZERO_TOPIC_ID, LeaderEpoch, TopicId
from pybroker.replication.fetch_data import FetchPartition, FetchResults

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pybroker.metrics.broker_metrics import BrokerMetrics
    from pybroker.model import TopicPartition
    from pybroker.protocol.messages.fetch import FetchableTopicResponse, FetchResponse, FetchTopic, PartitionData
    from pybroker.replication.fetch_data import FetchParams, FetchPartitionData
    from pybroker.replication.partition import Partition


def wanted_partitions(topics: Sequence[FetchTopic], names: Callable[[TopicId], str | None] | None) -> list[FetchPartition]:
    """See `_native.pyi`."""
    found: list[FetchPartition] = []
    for topic in topics:
        topic_id = ZERO_TOPIC_ID if names is None else TopicId(topic.topic_id)
        name = topic.topic if names is None else names(topic_id)
        for asked in topic.partitions:
            found.append(  # noqa: PERF401  (one loop in place of two)
                FetchPartition(
                    name,
                    topic_id,
                    asked.partition,
                    fetch_offset=asked.fetch_offset,
                    max_bytes=asked.partition_max_bytes,
                    log_start_offset=asked.log_start_offset,
                    current_leader_epoch=LeaderEpoch(asked.current_leader_epoch),
                    last_fetched_epoch=LeaderEpoch(asked.last_fetched_epoch),
                )
            )
    return found


def read_partitions(
    partitions: Mapping[TopicPartition, Partition],  # noqa: ARG001  (for what the native twin reads itself)
    params: FetchParams,
    wanted_partitions: Sequence[FetchPartition],
    read_one: Callable[[FetchParams, FetchPartition, int, bool], FetchPartitionData],
) -> FetchResults:
    """See `_native.pyi`."""
    bytes_left = params.max_bytes
    min_one_batch = not params.hard_max_bytes_limit
    results: FetchResults = []
    for wanted in wanted_partitions:
        data = read_one(params, wanted, min(bytes_left, wanted.max_bytes), min_one_batch)
        results.append((wanted, data))
        records = data.records
        if records is not None and records.size:
            min_one_batch = False
            bytes_left = max(0, bytes_left - records.size)
    return results


def answered_topics(  # noqa: PLR0917  (a call by position is a third of a call by name)
    results: FetchResults,
    metrics: BrokerMetrics,
    is_plain: bool,
    answer_one: Callable[[FetchPartition, FetchPartitionData], PartitionData],
    blank_topic: FetchableTopicResponse,
    blank_partition: PartitionData,
    copied_max: int,
    copied_sum_max: int,
) -> list[FetchableTopicResponse]:
    """See `_native.pyi`."""
    new_topic, new_partition = type(blank_topic), type(blank_partition)
    topics: list[FetchableTopicResponse] = []
    last: FetchPartition | None = None
    for wanted, data in results:
        records = data.records
        has_more = data.error_code or data.diverging_epoch is not None or data.aborted_transactions is not None
        if not is_plain or has_more or wanted.topic is None:
            answered = answer_one(wanted, data)
        else:
            answered = new_partition()
            answered.partition_index = wanted.partition
            answered.high_watermark = data.high_watermark
            answered.last_stable_offset = data.last_stable_offset
            answered.log_start_offset = data.log_start_offset
            answered.preferred_read_replica = data.preferred_read_replica
            answered.aborted_transactions = None
            answered.records = b"" if records is None else records
            size = 0 if records is None else records.size
            for counters in metrics.of_topic(wanted.topic):
                counters.fetch_requests += 1
                counters.bytes_out += size
        if records is not None and answered.records is records:
            copied = records.copied(min(copied_sum_max, copied_max))
            if copied is not None:
                answered.records = copied
                copied_sum_max -= len(copied)
        if last is None or wanted.topic != last.topic or wanted.topic_id != last.topic_id:
            last = wanted
            topics.append(new_topic(topic=wanted.topic or "", topic_id=wanted.topic_id))
        topics[-1].partitions.append(answered)
    return topics


def read_at_once(*_arguments: object) -> FetchResponse | None:
    """See `_native.pyi`: the loops one after the other are as quick in Python."""
    return None
