"""The data that the fetch handler and the replicas pass to each other: plain, and cheap to make.

The budget is one object per partition and request; those two classes are in `partition_data`. The objects are mutable, but
no code changes one that it received.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Final, NamedTuple

from pybroker.model import NO_BROKER_ID, BrokerId, TopicId
from pybroker.replication.partition_data import (
    NO_PREFERRED_REPLICA,
    FetchPartition,
    FetchPartitionData,
    ResponseLimit,
    session_key,
)

__all__ = [
    "CONSUMER_REPLICA_ID",
    "HARD_LIMIT_VERSION_MAX",
    "NO_PREFERRED_REPLICA",
    "UNLIMITED_RESPONSE_BYTES",
    "ClientMetadata",
    "FetchIsolation",
    "FetchParams",
    "FetchPartition",
    "FetchPartitionData",
    "FetchResults",
    "SessionKey",
    "fetch_params",
    "session_key",
]

CONSUMER_REPLICA_ID: Final = NO_BROKER_ID

HARD_LIMIT_VERSION_MAX: Final = 2
"""Up to this Fetch version a partition's limit cuts even its first message; there is no limit on the response (KIP-74)."""

UNLIMITED_RESPONSE_BYTES: Final = 2_000_000_000
"""The limit of the response in these versions: a response's size prefix ends at 2 GiB - 1, and the rest of it needs room
too.
"""


class FetchIsolation(IntEnum):
    """The offset up to which a fetch may read."""

    LOG_END = 0  # followers
    HIGH_WATERMARK = 1  # read_uncommitted
    TXN_COMMITTED = 2  # read_committed


_LOG_END, _HIGH_WATERMARK, _TXN_COMMITTED = FetchIsolation


class ClientMetadata(NamedTuple):
    """The client that fetches, to choose a replica near it (KIP-392); from Fetch v11."""

    rack_id: str
    client_id: str
    host: str


@dataclass(slots=True)
class FetchParams:
    """The parameters of a whole fetch request. `fetch_params` has the rules of the limits."""

    replica_id: BrokerId
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    isolation: FetchIsolation
    hard_max_bytes_limit: bool
    client: ClientMetadata | None = None
    replica_epoch: int = -1
    """The broker epoch of a follower, from Fetch v15; -1 is not known."""

    def limit(self) -> ResponseLimit:
        """Return how much the response may hold."""
        return ResponseLimit(self.max_bytes, not self.hard_max_bytes_limit)

    @property
    def is_from_follower(self) -> bool:
        """Whether a broker replicates, rather than a client reads."""
        return self.replica_id >= 0

    @property
    def fetch_only_leader(self) -> bool:
        """Whether a follower must refuse: to other brokers, and to clients that cannot read from followers."""
        return self.replica_id >= 0 or self.client is None


def fetch_params(
    *,
    version: int,
    replica_id: BrokerId,
    max_wait_ms: int,
    min_bytes: int,
    max_bytes: int,
    is_read_committed: bool,
    broker_fetch_max_bytes: int,
    client: ClientMetadata | None = None,
    replica_epoch: int = -1,
) -> FetchParams:
    """Return the request's parameters within the broker's limits.

    From version 3 the response is limited by the smaller of the request's `max_bytes` and the broker's
    `fetch.max.bytes`. Before version 3 it is not limited at all. `min_bytes` is never more than that limit, or the
    fetch could only time out.
    """
    hard = version <= HARD_LIMIT_VERSION_MAX
    limit = UNLIMITED_RESPONSE_BYTES if hard else max(0, min(max_bytes, broker_fetch_max_bytes))
    isolation = _LOG_END if replica_id >= 0 else _TXN_COMMITTED if is_read_committed else _HIGH_WATERMARK
    return FetchParams(replica_id, max_wait_ms, min(min_bytes, limit), limit, isolation, hard, client, replica_epoch)


SessionKey = tuple[str | TopicId | None, int]


FetchResults = list[tuple[FetchPartition, FetchPartitionData]]
