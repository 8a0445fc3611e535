# cython: annotation_typing=False
"""The usual response to a Fetch, in Python; `_usual_native` is this same text, compiled with the types of `_usual_native.pxd`.

So every rule is written once, and both builds follow it. After a change here the extension must be built again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pybroker.protocol.codec import maker
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from pybroker.protocol.wire import JOIN_BYTES_MAX
from pybroker.replication import reading
from pybroker.replication.fetch_context import NO_SESSION_ID
from pybroker.replication.fetch_data import FetchIsolation
from pybroker.replication.fetch_session import FINAL_EPOCH

if TYPE_CHECKING:
    from collections.abc import Callable

    from pybroker.api.context import Services
    from pybroker.metrics.broker_metrics import BrokerMetrics
    from pybroker.model import BrokerId, TopicId
    from pybroker.protocol.messages.fetch import FetchRequest
    from pybroker.replication.fetch_data import FetchPartition, FetchPartitionData, FetchResults

__all__ = ["names_of", "replica_of", "topic_responses", "usual_response"]

COPIED_BYTES_MAX = 64 << 10
"""Small slices are copied into a response up to this many bytes in all: cheaper than sending each as a piece of its own."""
READ_COMMITTED = 1
REPLICA_STATE_VERSION = 15
"""From this version on the follower is in `replica_state`."""
TOPIC_ID_VERSION = 13
"""From this version on topics are named by their ids."""
ZSTD_VERSION = 10
"""From this version on records are sent as they are on disk, whatever their compression."""

_FINAL_EPOCH, _NO_SESSION_ID = FINAL_EPOCH, NO_SESSION_ID

_COMMITTED, _UNCOMMITTED = FetchIsolation.TXN_COMMITTED, FetchIsolation.HIGH_WATERMARK
_JOINED_MAX = JOIN_BYTES_MAX
_NONE = ErrorCode.NONE

_new_partition = maker(
    PartitionData,
    "partition_index",
    "high_watermark",
    "last_stable_offset",
    "log_start_offset",
    "aborted_transactions",
    "preferred_read_replica",
    "records",
)
_new_response = maker(FetchResponse, "error_code", "session_id", "responses")
_new_topic = maker(FetchableTopicResponse, "topic", "topic_id", "partitions")


def replica_of(version: int, request: FetchRequest) -> BrokerId:
    """Return the follower that sends a request; a negative number for a consumer."""
    if version >= REPLICA_STATE_VERSION:
        return request.replica_state.replica_id  # type: ignore[return-value]  # to name its type would cost a call
    return request.replica_id  # type: ignore[return-value]  # as above


def names_of(broker: Services) -> Callable[[TopicId], str | None]:
    """Return the function that finds a topic's name by its id, in the cluster as it is at each call."""

    def name_of(topic_id: TopicId) -> str | None:
        return broker.controller.image.topic_name(topic_id)

    return name_of


def usual_response(broker: Services, version: int, request: FetchRequest) -> FetchResponse | None:
    """Return the response to a consumer's ordinary request without a session, if there is enough to read and nothing about the
    request is unusual.
    """
    if (
        version < ZSTD_VERSION
        or request.session_epoch != _FINAL_EPOCH
        or request.session_id != _NO_SESSION_ID
        or replica_of(version, request) >= 0
    ):
        return None
    bytes_max = max(0, min(request.max_bytes, broker.config.fetch_max_bytes))
    results = reading.read_all_usual(
        broker.replica_manager.partitions,
        request.topics,
        names_of(broker) if version >= TOPIC_ID_VERSION else None,
        _COMMITTED if request.isolation_level == READ_COMMITTED else _UNCOMMITTED,
        bytes_max,
        min(request.min_bytes, bytes_max) if request.max_wait_ms > 0 else 0,
    )
    if results is None:
        return None
    return _new_response(_NONE, 0, topic_responses(results, broker.metrics, None, COPIED_BYTES_MAX, True))


def topic_responses(
    results: FetchResults,
    metrics: BrokerMetrics,
    respond: Callable[[FetchPartition, FetchPartitionData], PartitionData] | None,
    copied_bytes_max: int,
    is_plain: bool,
) -> list[FetchableTopicResponse]:
    """Return the responses by topics, and count them. Small slices are copied into them, up to `copied_bytes_max` in all.

    `respond` knows every case, and counts it. It is not called for partitions that were read as they are on disk (`is_plain`),
    without error, aborted transactions and diverging epoch; None if all partitions are such.
    """
    topics: list[FetchableTopicResponse] = []
    partitions: list[PartitionData] = []
    last_topic = last_id = None
    copied_max = min(copied_bytes_max, _JOINED_MAX)
    for wanted, data in results:
        topic, topic_id, records = wanted.topic, wanted.topic_id, data.records
        size = 0 if records is None else records.size
        if respond is not None and (
            not is_plain or topic is None or data.error_code or data.diverging_epoch is not None or data.aborted_transactions
        ):
            response = respond(wanted, data)
        else:
            assert topic is not None
            response = _new_partition(
                wanted.partition,
                data.high_watermark,
                data.last_stable_offset,
                data.log_start_offset,
                None if data.aborted_transactions is None else [],
                data.preferred_read_replica,
                b"" if records is None else records,
            )
            (metrics.topics.get(topic) or metrics.topic(topic)).fetched(size)
        if records is not None and size <= copied_max and response.records is records:
            copied = records.copied(copied_max)
            if copied is not None:
                response.records = copied
                copied_bytes_max -= size
                copied_max = min(copied_bytes_max, _JOINED_MAX)
        if topic != last_topic or topic_id != last_id:
            last_topic, last_id, partitions = topic, topic_id, []
            topics.append(_new_topic(topic or "", topic_id, partitions))
        partitions.append(response)
    return topics
