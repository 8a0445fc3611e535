"""A container's broker from its first to its last moment, as others see it.

Before any client can connect, the wanted topics are made: no client is early enough to have one of them created with default
settings. When the groups are loaded too, the ready file is there and these lines are on standard output, in this order:

    [BrokerLifecycleManager id=1] Transitioning from RECOVERY to RUNNING
    [KafkaRaftServer nodeId=1] Kafka Server started
    [KafkaServer id=1] started
    READY 127.0.0.1:9092

The first three are what programs wait for that start Kafka's images, foremost the Testcontainers libraries: the words are theirs
to choose. The ready file holds `HOST PORT` of a listener, for the image's health check, and goes first when the broker stops.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from pybroker.broker.lifecycle import Lifecycle, local_address

if TYPE_CHECKING:
    from pathlib import Path

    from pybroker.metadata.controller import Controller
    from pybroker.metadata.new_topic import NewTopic
    from pybroker.network.limits import BoundListener

logger = logging.getLogger(__name__)

READY_FILE: Final = "/tmp/pybroker-ready"  # noqa: S108  a name that the broker and the health check share, in a container of their own
READY_FILE_VARIABLE: Final = "PYBROKER_READY_FILE"


class ContainerLifecycle(Lifecycle):
    """Makes `topics`, which have the variable that asks for them, and keeps `ready_file`."""

    def __init__(
        self, topics: Mapping[str, tuple[str, NewTopic]], ready_file: Path, cluster_id: tuple[str, str] | None = None
    ) -> None:
        """`cluster_id` is the variable that asks for one, and its text."""
        self._topics = topics
        self._cluster_id = cluster_id
        self._ready_file = ready_file

    async def before_sockets(self, controller: Controller) -> str | None:
        """Create the wanted topics that are not there. Returns why one cannot be."""
        if self._cluster_id is not None and self._cluster_id[1] != controller.image.cluster_id:
            logger.warning("%s=%s: the data are of the cluster %s and stay so", *self._cluster_id, controller.image.cluster_id)
        missing = []
        for name, (variable, topic) in self._topics.items():
            there = controller.image.topics.get(name)
            if there is None:
                missing.append(topic)
            elif topic.partition_count not in (-1, len(there.partitions)):
                logger.warning(
                    "%s: the topic %s is there with %d partitions, not %d: it is left as it is",
                    variable,
                    name,
                    len(there.partitions),
                    topic.partition_count,
                )
        for topic, outcome in zip(missing, await controller.create_topics(missing), strict=True):
            if outcome.error is not None:
                return f"{self._topics[topic.name][0]}: the topic {topic.name} cannot be created: {outcome.error.message}"
        return None

    async def announce(self, node_id: int, bound: Sequence[BoundListener], groups_loaded: Callable[[], Awaitable[None]]) -> None:
        """Say that all is there, when it is."""
        await groups_loaded()
        self._write_ready_file(bound[0])
        sys.stdout.write(
            f"[BrokerLifecycleManager id={node_id}] Transitioning from RECOVERY to RUNNING\n"
            f"[KafkaRaftServer nodeId={node_id}] Kafka Server started\n"
            f"[KafkaServer id={node_id}] started\n"
        )
        await super().announce(node_id, bound, groups_loaded)

    def stopping(self) -> None:
        """Not healthy any more."""
        self.forget()

    def forget(self) -> None:
        """Remove the ready file: also that of an earlier run, which a restarted container still has."""
        try:
            self._ready_file.unlink(missing_ok=True)
        except OSError as error:
            self._complain("removed", error)

    def _write_ready_file(self, listener: BoundListener) -> None:
        host, port = local_address(listener)
        fresh = self._ready_file.with_name(f"{self._ready_file.name}.new")
        try:
            fresh.write_text(f"{host} {port}\n")
            fresh.replace(self._ready_file)
        except OSError as error:
            self._complain("written", error)

    def _complain(self, what: str, error: OSError) -> None:
        logger.warning(
            "%s=%s cannot be %s (%s): the health check cannot tell whether the broker is ready",
            READY_FILE_VARIABLE,
            self._ready_file,
            what,
            error.strerror,
        )
