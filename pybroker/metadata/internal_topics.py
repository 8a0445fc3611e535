"""The settings of a topic that the broker creates itself: the coordinators' topics have settings of their own.

Source: AutoTopicCreationManager, GroupCoordinatorService, TransactionStateManager.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pybroker.config.table import BROKER_SETTINGS
from pybroker.metadata.names import OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC
from pybroker.metadata.new_topic import NewTopic

if TYPE_CHECKING:
    from pybroker.config.broker import BrokerConfig


def automatic_topic(name: str, config: BrokerConfig, broker_count: int = 1) -> NewTopic:
    """Return the topic `name` as the broker itself would create it in a cluster of this many brokers."""
    if name == OFFSETS_TOPIC:
        return NewTopic(
            name=name,
            partition_count=config.offsets_topic_num_partitions,
            replication_factor=_factor(config, "offsets.topic.replication.factor", broker_count),
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
            replication_factor=_factor(config, "transaction.state.log.replication.factor", broker_count),
            configs={
                "cleanup.policy": "compact",
                "compression.type": "uncompressed",
                "min.insync.replicas": str(config.transaction_state_log_min_isr),
                "segment.bytes": str(config.transaction_state_log_segment_bytes),
                "unclean.leader.election.enable": "false",
            },
        )
    return NewTopic(name=name, configs={})


def _factor(config: BrokerConfig, name: str, broker_count: int) -> int:
    """Return the number of replicas: as set, or Kafka's default, but no more than there are brokers. Kafka refuses fewer brokers
    than its default; here a single broker works without a setting.
    """
    setting = BROKER_SETTINGS[name]
    factor: int = getattr(config, setting.attribute)
    is_set = name in config.origins or factor != setting.default
    return factor if is_set else min(factor, max(1, broker_count))
