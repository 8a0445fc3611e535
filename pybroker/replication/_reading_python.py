"""Finds out what the partitions of a fetch want, and the shortest way to read them: in Python, and the contract of the native
part.

A partition is usual if this broker leads it, and a client or a follower reads it at its end or at a batch that was written
lately.
The native part reads usual partitions; this part reads none, because the general way is as quick in Python. No
function here returns an error: the general way does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pybroker.model import ZERO_TOPIC_ID, LeaderEpoch, Offset, TopicId
from pybroker.replication.fetch_data import FetchPartition

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pybroker.model import TopicPartition
    from pybroker.protocol.messages.fetch import FetchTopic
    from pybroker.replication.fetch_data import FetchIsolation, FetchPartitionData, FetchResults
    from pybroker.replication.partition import Partition
    from pybroker.replication.partition_data import ResponseLimit

__all__ = ["read_all_usual", "read_usual", "wanted_partitions"]


USUAL_MAX: Final = 1_000
"""More partitions are not read in one call, which takes 3 to 4 us for each."""


def wanted_partitions(topics: Sequence[FetchTopic], names: Callable[[TopicId], str | None] | None) -> list[FetchPartition]:
    """Return the partitions that the topics of a request want. `names` finds a topic's name by its id; None if topics
    are named.
    """
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
                    fetch_offset=Offset(asked.fetch_offset),
                    max_bytes=asked.partition_max_bytes,
                    log_start_offset=Offset(asked.log_start_offset),
                    current_leader_epoch=LeaderEpoch(asked.current_leader_epoch),
                    last_fetched_epoch=LeaderEpoch(asked.last_fetched_epoch),
                )
            )
    return found


def read_usual(
    partition: Partition | None,  # noqa: ARG001  (for what the native part reads, as all of these)
    wanted: FetchPartition,  # noqa: ARG001
    isolation: FetchIsolation,  # noqa: ARG001
    limit: ResponseLimit,  # noqa: ARG001
) -> FetchPartitionData | None:
    """Read one partition within `limit`, if it is usual; None for any other, and then nothing was done. The caller has looked
    whether a follower is a replica.

    Does not take what it reads from `limit`.
    """
    return None


def read_all_usual(  # noqa: PLR0917  (as above)
    partitions: Mapping[TopicPartition, Partition],  # noqa: ARG001  (as above)
    topics: Sequence[FetchTopic],  # noqa: ARG001
    names: Callable[[TopicId], str | None] | None,  # noqa: ARG001
    isolation: FetchIsolation,  # noqa: ARG001
    bytes_left: int,  # noqa: ARG001
    bytes_needed: int,  # noqa: ARG001
) -> FetchResults | None:
    """Read all partitions that a request wants, within `bytes_left`, for a client without a session.

    Returns None, without having done anything, unless all are usual and at most USUAL_MAX, none is named twice and there are
    `bytes_needed`.
    """
    return None
