"""The request of a partition's leader for another set of in-sync replicas: Kafka's AlterPartition.

Source: KIP-497, KIP-841, KIP-903.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from pybroker.model import BrokerId, LeaderEpoch, TopicId, TopicPartition


class IsrChange(NamedTuple):
    """Another ISR of a partition, computed from the state with `leader_epoch` and `partition_epoch`.

    `added` are the replicas that come in, each with the broker epoch that it had in the fetch that showed that it is in sync.
    """

    topic_partition: TopicPartition
    topic_id: TopicId
    leader_epoch: LeaderEpoch
    partition_epoch: int
    isr: tuple[BrokerId, ...]
    added: tuple[tuple[BrokerId, int], ...]


AlterIsr = Callable[[IsrChange, Callable[[bool], object]], object]
"""A function of a change and of what is called once with its outcome: True when the change is in the store and in this broker's
image; False when it was refused, or when its outcome is not known. The image then shows the truth.
"""
