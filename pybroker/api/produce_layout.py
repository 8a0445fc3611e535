"""The partitions of a Produce: which can be appended to, and what becomes of the others.

A request of many partitions is looked through in steps, and what it has left is let go in steps, too: to free a million objects
at once is one long step.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pybroker.api.produce_response import STEP_PARTITIONS
from pybroker.model import TopicId, TopicPartition
from pybroker.protocol.error_codes import ErrorCode
from pybroker.records import kernels
from pybroker.replication.produce_data import PartitionProduceResult
from pybroker.slicing import emptied

if TYPE_CHECKING:
    from collections.abc import Generator

    from pybroker.api.produce_response import Layout
    from pybroker.metadata.image import ClusterImage
    from pybroker.protocol.messages.produce import ProduceRequest
    from pybroker.replication.produce_data import ProduceResults

LARGE_PRODUCE_PARTITIONS: Final = 1 << 13
"""A request of more partitions is handled in steps."""

Entries = dict[TopicPartition, memoryview]
"""Records by their partitions."""

_NULL_RECORDS: Final = PartitionProduceResult(
    ErrorCode.INVALID_RECORD, error_message="The records of a partition must not be null"
)
_UNKNOWN_ID: Final = PartitionProduceResult(ErrorCode.UNKNOWN_TOPIC_ID)
_UNAUTHORIZED: Final = PartitionProduceResult(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)


class ProduceLayout:
    """The parts of a request.

    Attributes:
        topics: the topics and partitions of the response, in the request's order.
        entries: the records to append.
        transactional: those of them that belong to a transaction.
        refused: the results of the other partitions.
    """

    __slots__ = ("entries", "refused", "topics", "transactional")

    def __init__(self) -> None:
        self.topics: Layout = []
        self.entries: Entries = {}
        self.transactional: Entries = {}
        self.refused: ProduceResults = {}

    def steps(self, image: ClusterImage, request: ProduceRequest, *, has_topic_ids: bool) -> Generator[None, None, None]:
        """Look at each partition, and yield between some of them."""
        entries, transactional, refused = self.entries, self.transactional, self.refused
        is_unauthorized = False
        left = STEP_PARTITIONS
        for topic in request.topic_data:
            name, topic_id = topic.name, topic.topic_id
            known = True
            if has_topic_ids:
                found = image.topics_by_id.get(TopicId(topic_id))
                known, name = found is not None, "" if found is None else found.name
            # Partitions of unknown ids are identified by the id's bytes, which no topic's name can equal.
            key = name if known else topic_id.hex(" ")
            asked: list[TopicPartition] = []
            self.topics.append((name, TopicId(topic_id), asked))
            left -= 1
            if not left:
                left = STEP_PARTITIONS
                yield
            for partition in topic.partition_data:
                topic_partition = TopicPartition(key, partition.index)
                asked.append(topic_partition)
                records: Any = partition.records  # the decoder makes a memoryview or None
                is_transactional = records is not None and kernels.is_of_transaction(records)
                if is_transactional and request.transactional_id is None:
                    is_unauthorized = True
                if not known:
                    refused[topic_partition] = _UNKNOWN_ID
                elif records is None:
                    refused[topic_partition] = _NULL_RECORDS
                else:
                    entries[topic_partition] = records
                    if is_transactional:
                        transactional[topic_partition] = records
                left -= 1
                if not left:
                    left = STEP_PARTITIONS
                    yield
        if is_unauthorized:
            yield from self._refuse_all()

    def _refuse_all(self) -> Generator[None, None, None]:
        yield from emptied(self.entries, self.transactional, self.refused)
        left = STEP_PARTITIONS
        for _, _, asked in self.topics:
            for topic_partition in asked:
                self.refused[topic_partition] = _UNAUTHORIZED
                left -= 1
                if not left:
                    left = STEP_PARTITIONS
                    yield

    def refuse_entries(self, result: PartitionProduceResult) -> Generator[None, None, None]:
        """Refuse all that could be appended, with the same result."""
        for count, topic_partition in enumerate(self.entries, start=1):
            self.refused[topic_partition] = result
            if not count % STEP_PARTITIONS:
                yield
        yield from emptied(self.entries)

    def forget_records(self, request: ProduceRequest) -> Generator[None, None, None]:
        """Let go of the records, those that the request has too: they would keep its bytes while it waits in the purgatory."""
        yield from emptied(self.entries, self.transactional)
        yield from forget_records(request)

    def discard(self, results: ProduceResults) -> Generator[None, None, None]:
        """Let go of the results and of what is here."""
        yield from emptied(self.entries, self.transactional, self.refused, results)
        for _, _, asked in self.topics:
            yield from emptied(asked)
        yield from emptied(self.topics)


def forget_records(request: ProduceRequest) -> Generator[None, None, None]:
    """Let go of the records of a request, whose names and numbers a response to an error still needs."""
    left = STEP_PARTITIONS
    for topic in request.topic_data:
        for partition in topic.partition_data:
            partition.records = None
            left -= 1
            if not left:
                left = STEP_PARTITIONS
                yield


def is_large(request: ProduceRequest) -> bool:
    """Return whether a request has too many partitions, or topics, for one turn."""
    topics = request.topic_data
    return len(topics) > LARGE_PRODUCE_PARTITIONS or sum(len(topic.partition_data) for topic in topics) > LARGE_PRODUCE_PARTITIONS
