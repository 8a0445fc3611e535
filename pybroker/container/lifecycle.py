"""Announces a container's broker, from its first to its last moment.

Before any client can connect, the wanted topics are made, so that no client is early enough to have one of them created with
default settings. When the groups are loaded too, the ready file exists and these lines are on standard output, in this order:

    [BrokerLifecycleManager id=1] Transitioning from RECOVERY to RUNNING
    [KafkaRaftServer nodeId=1] Kafka Server started
    [KafkaServer id=1] started
    READY 127.0.0.1:9092

Programs that start Kafka's images, foremost the Testcontainers libraries, wait for the first three lines: these programs choose
the words. The ready file holds `HOST PORT` of a listener, for the image's health check, and is the first thing to go when the
broker stops.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from pybroker.broker.lifecycle import Lifecycle
from pybroker.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from pybroker.broker.ready_file import ReadyFile
    from pybroker.metadata.controller import Controller
    from pybroker.metadata.new_topic import NewTopic
    from pybroker.model import BrokerId

logger = logging.getLogger(__name__)

READY_FILE: Final = "/tmp/pybroker-ready"  # noqa: S108  a name that the broker and the health check share, in a container of their own


class ContainerLifecycle(Lifecycle):
    """Makes `topics`, each with the variable that asks for it, and prints more lines when it is ready."""

    def __init__(
        self, topics: Mapping[str, tuple[str, NewTopic]], ready_file: ReadyFile, cluster_id: tuple[str, str] | None = None
    ) -> None:
        """Keep the wanted topics. `cluster_id` is the variable that asks for a cluster id, and its text."""
        super().__init__(ready_file)
        self._topics = topics
        self._cluster_id = cluster_id

    async def before_sockets(self, controller: Controller) -> str | None:
        """Create the wanted topics that do not exist. Returns why a topic cannot be created."""
        if self._cluster_id is not None and self._cluster_id[1] != controller.image.cluster_id:
            logger.warning(
                "%s=%s is ignored: the data belong to the cluster %s, which stays", *self._cluster_id, controller.image.cluster_id
            )
        missing = []
        for name, (variable, topic) in self._topics.items():
            there = controller.image.topics.get(name)
            if there is None:
                missing.append(topic)
            elif topic.partition_count not in (-1, len(there.partitions)):
                logger.warning(
                    "%s: the topic %s exists with %d partitions, not %d, and stays as it is",
                    variable,
                    name,
                    len(there.partitions),
                    topic.partition_count,
                )
        for topic, outcome in zip(missing, await controller.create_topics(missing), strict=True):
            is_refused = outcome.error is not None and outcome.error.code is ErrorCode.KAFKA_STORAGE_ERROR
            if outcome.error is not None and is_refused and not self.has_room:
                logger.error(
                    "%s: the topic %s cannot be created now: %s; make room, then start the container again",
                    self._topics[topic.name][0],
                    topic.name,
                    outcome.error.message,
                )
            elif outcome.error is not None:
                return f"{self._topics[topic.name][0]}: the topic {topic.name} cannot be created: {outcome.error.message}"
        return None

    def lines(self, node_id: BrokerId) -> str:
        """Return the lines for which programs that start Kafka's images wait."""
        return (
            f"[BrokerLifecycleManager id={node_id}] Transitioning from RECOVERY to RUNNING\n"
            f"[KafkaRaftServer nodeId={node_id}] Kafka Server started\n"
            f"[KafkaServer id={node_id}] started\n"
        )
