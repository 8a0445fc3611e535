"""The settings of a topic that the broker creates itself: the coordinators' topics have settings of their own.

Source: AutoTopicCreationManager, GroupCoordinatorService, TransactionStateManager.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pybroker.metadata.names import OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC
from pybroker.metadata.new_topic import NewTopic

if TYPE_CHECKING:
    from pybroker.config.broker import BrokerConfig


def automatic_topic(name: str, config: BrokerConfig, broker_count: int = 1) -> NewTopic:
    """Return the topic `name` as the broker itself would create it in a cluster of this many brokers.

    The topic of transactions has no more replicas than there are brokers, so that Kafka's default of 3 needs no change here.
    """
    if name == OFFSETS_TOPIC:
        return NewTopic(
            name=name,
            partition_count=config.offsets_topic_num_partitions,
            replication_factor=config.offsets_topic_replication_factor,
            configs={
                "cleanup.policy": "compact",
                "compression.type": "producer",
                "segment.bytes": str(config.offsets_topic_segment_bytes),
            },
        )
    if name == TRANSACTION_STATE_TOPIC:
        return NewTopic(
            name=name,
            partition_count=config.transaction_state_log_num_partitions,
            replication_factor=min(config.transaction_state_log_replication_factor, max(1, broker_count)),
            configs={
                "cleanup.policy": "compact",
                "compression.type": "uncompressed",
                "min.insync.replicas": str(config.transaction_state_log_min_isr),
                "segment.bytes": str(config.transaction_state_log_segment_bytes),
                "unclean.leader.election.enable": "false",
            },
        )
    return NewTopic(name=name, configs={})
