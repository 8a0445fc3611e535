"""The methods of a broker of a test that work on what is in it: as coroutines, and for tests that block."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from pybroker.admin import groups, records, topics
from pybroker.testing.topics_file import topics_of_file

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from pybroker.admin.groups import Group, Transaction
    from pybroker.admin.records import Batch, Headers, Record, Text
    from pybroker.admin.steps import Steps
    from pybroker.admin.topics import Setting, Topic

Result = TypeVar("Result")


class AsyncVerbs:
    """For brokers in the event loop of the test."""

    async def _carry_out(self, steps: Steps[Result]) -> Result:
        raise NotImplementedError

    async def create_topic(
        self, name: str, partitions: int = 1, *, replication_factor: int = -1, settings: Mapping[str, Setting] | None = None
    ) -> None:
        """Create a topic; clients can use it when this returns. Raises KafkaError, as TOPIC_ALREADY_EXISTS."""
        await self._carry_out(topics.create_topic(name, partitions, replication_factor=replication_factor, settings=settings))

    async def create_topics(self, path: Path | str) -> None:
        """Create the topics of a file of JSON or YAML. Raises OSError, ValueError, and KafkaError."""
        for topic in topics_of_file(path):
            await self.create_topic(topic.name, topic.partitions, settings=topic.settings)

    async def delete_topic(self, *names: str) -> None:
        """Delete topics. Raises KafkaError, as UNKNOWN_TOPIC_OR_PARTITION."""
        await self._carry_out(topics.delete_topics(names))

    async def produce(
        self,
        topic: str,
        *values: Text,
        key: Text = None,
        partition: int = 0,
        headers: Headers = (),
        timestamp_ms: int | None = None,
    ) -> int:
        """Write a record for each value, as one batch, and return the offset of the first. Texts are written in UTF-8.

        Creates the topic if the settings of the broker allow that. Raises KafkaError.
        """
        return await self._carry_out(
            records.produce(topic, values, key=key, partition=partition, headers=headers, timestamp_ms=timestamp_ms)
        )

    async def consume(self, topic: str, *, partition: int | None = None, committed: bool = False) -> list[Record]:
        """Return the records of a topic, or of one partition, that are there now; `committed`: without open and aborted ones.

        They are in the order of partitions and offsets. Raises KafkaError for an unknown topic.
        """
        return await self._carry_out(records.consume(topic, partition=partition, committed=committed))

    async def wait_for(
        self,
        topic: str,
        count: int,
        *,
        partition: int | None = None,
        committed: bool = False,
        timeout_s: float = records.READ_S,
    ) -> list[Record]:
        """Return the records of a topic, or of one partition, as soon as there are `count`; the topic may come later.

        Raises TimeoutError, whose text shows what there is.
        """
        return await self._carry_out(
            records.wait_for(topic, count, partition=partition, committed=committed, timeout_s=timeout_s)
        )

    async def batches(self, topic: str, partition: int = 0) -> list[Batch]:
        """Return the batches of a partition as they lie in the log. Raises KafkaError for an unknown topic."""
        return await self._carry_out(records.batches(topic, partition))

    async def topics(self) -> dict[str, Topic]:
        """Return all topics by their names, those of the broker itself included."""
        return await self._carry_out(topics.topics())

    async def groups(self) -> dict[str, Group]:
        """Return all groups by their ids, with members, committed offsets and lag."""
        return await self._carry_out(groups.groups())

    async def transactions(self) -> dict[str, Transaction]:
        """Return all transactional ids with what is known of their last transactions."""
        return await self._carry_out(groups.transactions())


class BlockingVerbs:
    """For brokers elsewhere."""

    def _carry_out(self, steps: Steps[Result]) -> Result:
        raise NotImplementedError

    def create_topic(
        self, name: str, partitions: int = 1, *, replication_factor: int = -1, settings: Mapping[str, Setting] | None = None
    ) -> None:
        """Create a topic; clients can use it when this returns. Raises KafkaError, as TOPIC_ALREADY_EXISTS."""
        self._carry_out(topics.create_topic(name, partitions, replication_factor=replication_factor, settings=settings))

    def create_topics(self, path: Path | str) -> None:
        """Create the topics of a file of JSON or YAML. Raises OSError, ValueError, and KafkaError."""
        for topic in topics_of_file(path):
            self.create_topic(topic.name, topic.partitions, settings=topic.settings)

    def delete_topic(self, *names: str) -> None:
        """Delete topics. Raises KafkaError, as UNKNOWN_TOPIC_OR_PARTITION."""
        self._carry_out(topics.delete_topics(names))

    def produce(
        self,
        topic: str,
        *values: Text,
        key: Text = None,
        partition: int = 0,
        headers: Headers = (),
        timestamp_ms: int | None = None,
    ) -> int:
        """Write a record for each value, as one batch, and return the offset of the first. Texts are written in UTF-8.

        Creates the topic if the settings of the broker allow that. Raises KafkaError.
        """
        return self._carry_out(
            records.produce(topic, values, key=key, partition=partition, headers=headers, timestamp_ms=timestamp_ms)
        )

    def consume(self, topic: str, *, partition: int | None = None, committed: bool = False) -> list[Record]:
        """Return the records of a topic, or of one partition, that are there now; `committed`: without open and aborted ones.

        They are in the order of partitions and offsets. Raises KafkaError for an unknown topic.
        """
        return self._carry_out(records.consume(topic, partition=partition, committed=committed))

    def wait_for(
        self, topic: str, count: int, *, partition: int | None = None, committed: bool = False, timeout_s: float = records.READ_S
    ) -> list[Record]:
        """Return the records of a topic, or of one partition, as soon as there are `count`; the topic may come later.

        Raises TimeoutError, whose text shows what there is.
        """
        return self._carry_out(records.wait_for(topic, count, partition=partition, committed=committed, timeout_s=timeout_s))

    def batches(self, topic: str, partition: int = 0) -> list[Batch]:
        """Return the batches of a partition as they lie in the log. Raises KafkaError for an unknown topic."""
        return self._carry_out(records.batches(topic, partition))

    def topics(self) -> dict[str, Topic]:
        """Return all topics by their names, those of the broker itself included."""
        return self._carry_out(topics.topics())

    def groups(self) -> dict[str, Group]:
        """Return all groups by their ids, with members, committed offsets and lag."""
        return self._carry_out(groups.groups())

    def transactions(self) -> dict[str, Transaction]:
        """Return all transactional ids with what is known of their last transactions."""
        return self._carry_out(groups.transactions())
