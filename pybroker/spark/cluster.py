"""A client for everything but records: a cluster's topics, how far their logs reach, and whether the cluster responds at all."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pybroker import extras
from pybroker.model import Offset
from pybroker.spark.chosen import chosen
from pybroker.spark.errors import PipelineError
from pybroker.spark.isolation import Isolation

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

RESPONSE_TIMEOUT_S: Final = 15.0
_RETRY_PAUSE_S: Final = 0.5
_LEADER_PAUSE_S: Final = 0.05
_LEADERLESS: Final = frozenset(
    {"NOT_LEADER_FOR_PARTITION", "LEADER_NOT_AVAILABLE", "UNKNOWN_TOPIC_OR_PART"}
)  # librdkafka's names
_AWAY: Final = frozenset({"_TRANSPORT", "_ALL_BROKERS_DOWN", "_TIMED_OUT", "_RESOLVE"})
NO_LOG: Final = logging.getLogger("pybroker.spark.client")
NO_LOG.addHandler(logging.NullHandler())
NO_LOG.propagate = False


@dataclass(frozen=True, slots=True)
class Extent:
    """The offsets of a partition: from `start` to before `end`."""

    start: Offset
    end: Offset


class Cluster:
    """The cluster behind `host:port[,host:port]`. Every method raises PipelineError when the cluster does not respond."""

    def __init__(self, bootstrap: str) -> None:
        try:
            from confluent_kafka.admin import AdminClient
        except ImportError as error:
            raise PipelineError(f"{error.name} is missing: {extras.command('spark')}") from error
        self.bootstrap = bootstrap
        self._admin: AdminClient = AdminClient(client_settings(bootstrap), logger=NO_LOG)

    def id(self) -> str:
        """Return the cluster id."""
        return str(self._call("read the cluster id", lambda: self._admin.list_topics(timeout=RESPONSE_TIMEOUT_S).cluster_id))

    def topics(self) -> dict[str, int]:
        """Return all topics that are not internal, with their numbers of partitions."""
        found = self._call("list the topics", lambda: self._admin.list_topics(timeout=RESPONSE_TIMEOUT_S).topics)
        return {name: len(topic.partitions) for name, topic in found.items() if not name.startswith("__")}

    def chosen_topics(self, names: Iterable[str], pattern: str | None) -> dict[str, int]:
        """Return the topics with these names, or with a pattern all that match, and their numbers of partitions.

        Raises PipelineError when a name is missing or no topic matches.
        """
        found = chosen(self.topics(), tuple(names), pattern, self.bootstrap)
        if pattern is not None and not found:
            raise PipelineError(f"no topic at {self.bootstrap} matches {pattern!r}")
        return found

    def topic_ids(self, names: Iterable[str]) -> dict[str, str]:
        """Return the ids of topics. A topic that was deleted and created again has another id."""
        from confluent_kafka import TopicCollection

        wanted = TopicCollection(list(names))
        if not wanted.topic_names:
            return {}
        futures = self._admin.describe_topics(wanted, request_timeout=RESPONSE_TIMEOUT_S)
        return {
            name: str(self._call(f"describe topic {name}", lambda f=future: f.result().topic_id))
            for name, future in futures.items()
        }

    def create_topic(self, name: str, partitions: int, settings: Mapping[str, str] | None = None) -> None:
        """Create a topic and wait until it appears. If it exists already, do nothing."""
        from confluent_kafka import KafkaError, KafkaException
        from confluent_kafka.admin import NewTopic

        new = NewTopic(name, num_partitions=partitions, replication_factor=-1, config=dict(settings or {}))
        future = self._admin.create_topics([new], request_timeout=RESPONSE_TIMEOUT_S)[name]
        try:
            future.result()
        except KafkaException as error:
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise PipelineError(f"cannot create topic {name} at {self.bootstrap}: {error.args[0].str()}") from error
        deadline = time.monotonic() + RESPONSE_TIMEOUT_S
        while name not in self.topics():
            if time.monotonic() > deadline:
                raise PipelineError(f"topic {name} was created at {self.bootstrap} but does not appear")
            time.sleep(0.05)

    def delete_topic(self, name: str) -> None:
        """Delete a topic."""
        future = self._admin.delete_topics([name], request_timeout=RESPONSE_TIMEOUT_S)[name]
        self._call(f"delete topic {name}", future.result)

    def topic_setting(self, topic: str, name: str) -> str:
        """Return the value of a topic's setting."""
        from confluent_kafka.admin import ConfigResource, ResourceType

        resource = ConfigResource(ResourceType.TOPIC, topic)
        [future] = self._admin.describe_configs([resource], request_timeout=RESPONSE_TIMEOUT_S).values()
        return str(self._call(f"read the settings of topic {topic}", lambda: future.result()[name].value))

    def extents(
        self, topics: Mapping[str, int], isolation: Isolation = Isolation.READ_UNCOMMITTED
    ) -> dict[tuple[str, int], Extent]:
        """Return how far the log of every partition reaches, by topic and partition.

        For READ_COMMITTED, an extent ends before the first open transaction.
        """
        from confluent_kafka import TopicPartition
        from confluent_kafka.admin import OffsetSpec

        partitions = [TopicPartition(topic, number) for topic, count in topics.items() for number in range(count)]
        if not partitions:
            return {}
        starts = self._offsets(partitions, OffsetSpec.earliest())
        ends = self._offsets(partitions, OffsetSpec.latest(), isolation)
        return {key: Extent(start, ends[key]) for key, start in starts.items()}

    def _offsets(
        self, partitions: list[Any], spec: Any, isolation: Isolation = Isolation.READ_UNCOMMITTED
    ) -> dict[tuple[str, int], Offset]:
        """Return one offset of each partition.

        If a topic was just created, wait until its partitions have leaders that know them.
        """
        from confluent_kafka import IsolationLevel, KafkaException

        level = IsolationLevel[isolation.name]
        deadline = time.monotonic() + RESPONSE_TIMEOUT_S
        found: dict[tuple[str, int], Offset] = {}
        while True:
            missing = [tp for tp in partitions if (tp.topic, tp.partition) not in found]
            wanted = dict.fromkeys(missing, spec)
            futures = self._admin.list_offsets(wanted, isolation_level=level, request_timeout=RESPONSE_TIMEOUT_S)
            for tp, future in futures.items():
                try:
                    found[tp.topic, tp.partition] = Offset(future.result().offset)
                except KafkaException as error:
                    why = error.args[0]
                    if why.name() not in _LEADERLESS or time.monotonic() > deadline:
                        raise PipelineError(f"cannot list the offsets at {self.bootstrap}: {why.str()}") from error
            if len(found) == len(partitions):
                return found
            time.sleep(_LEADER_PAUSE_S)

    def is_there(self) -> bool:
        """Return whether a broker responds within a few seconds."""
        from confluent_kafka import KafkaException

        try:
            self._admin.list_topics(timeout=3.0)
        except KafkaException:
            return False
        return True

    def wait_until_there(self, seconds: float) -> None:
        """Wait until the cluster responds again. Raises PipelineError if it does not do so in time."""
        deadline = time.monotonic() + seconds
        while not self.is_there():
            if time.monotonic() > deadline:
                raise PipelineError(f"no broker at {self.bootstrap} for {seconds:g} s; run the same command again to continue")
            time.sleep(_RETRY_PAUSE_S)

    def _call(self, what: str, request: Any) -> Any:
        from confluent_kafka import KafkaException

        try:
            return request()
        except KafkaException as error:
            if error.args[0].name() in _AWAY:
                raise PipelineError(f"no broker responds at {self.bootstrap}") from error
            raise PipelineError(f"cannot {what} at {self.bootstrap}: {error.args[0].str()}") from error


def client_settings(bootstrap: str) -> dict[str, Any]:
    """Return the settings that all uses of the client share. They keep it quiet, because the job reports failures."""
    return {"bootstrap.servers": bootstrap, "log_level": 0, "error_cb": _ignore}


def _ignore(_error: object) -> None:
    """Ignore the client's reports of failed connections; the client retries by itself."""
