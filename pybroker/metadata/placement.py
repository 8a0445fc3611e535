"""Chooses the brokers of the replicas of a new topic.

Idea
    Leaders are on the brokers in turn, from a random start, so that topics with one partition are not all on the
    first broker. Replica r of a partition is r brokers further. A broker never has two replicas of one partition.

Example
    Brokers 1, 2, 3, start 1, 4 partitions, 2 replicas: [2, 3], [3, 1], [1, 2], [2, 3].

Not done
    Racks: Kafka's placer also spreads replicas over them.

Source: StripedReplicaPlacer.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from pybroker.protocol.error_codes import ErrorCode, KafkaError

if TYPE_CHECKING:
    from random import Random

    from pybroker.model import BrokerId


def place_replicas(
    broker_ids: Iterable[BrokerId], *, partition_count: int, replication_factor: int, random: Random
) -> list[tuple[BrokerId, ...]]:
    """Return the replicas of each partition, the preferred leader first. Raises INVALID_REPLICATION_FACTOR with too few
    brokers.
    """
    brokers = sorted(broker_ids)
    if replication_factor > len(brokers):
        raise KafkaError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"Unable to replicate the partition {replication_factor} time(s): The target replication factor of "
            f"{replication_factor} cannot be reached because only {len(brokers)} broker(s) are registered.",
        )
    start = random.randrange(len(brokers))
    return [
        tuple(brokers[(start + partition + replica) % len(brokers)] for replica in range(replication_factor))
        for partition in range(partition_count)
    ]
