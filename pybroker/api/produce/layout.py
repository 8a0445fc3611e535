"""The partitions of a Produce: which can be appended to, and what becomes of the others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pybroker.model import TopicId, TopicPartition
from pybroker.protocol.error_codes import ErrorCode
from pybroker.records import kernels
from pybroker.replication.produce_data import PartitionProduceResult

if TYPE_CHECKING:
    from collections.abc import Collection

    from pybroker.api.produce.response import Layout
    from pybroker.metadata.image import ClusterImage
    from pybroker.protocol.messages.produce import ProduceRequest
    from pybroker.replication.produce_data import ProduceResults

Entries = dict[TopicPartition, memoryview]
"""Records by their partitions."""

_NULL_RECORDS: Final = PartitionProduceResult(
    ErrorCode.INVALID_RECORD, error_message="The records of a partition must not be null"
)
_UNKNOWN_ID: Final = PartitionProduceResult(ErrorCode.UNKNOWN_TOPIC_ID)
_TOPIC_UNAUTHORIZED: Final = PartitionProduceResult(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
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

    def __init__(self, image: ClusterImage, request: ProduceRequest, *, has_topic_ids: bool) -> None:
        self.topics: Layout = []
        self.entries: Entries = {}
        self.transactional: Entries = {}
        self.refused: ProduceResults = {}
        entries, transactional, refused = self.entries, self.transactional, self.refused
        is_unauthorized = False
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
            for partition in topic.partition_data:
                topic_partition = TopicPartition(key, partition.index)
                asked.append(topic_partition)
                records: Any = partition.records  # the decoder makes a memoryview or None
                if not known:
                    refused[topic_partition] = _UNKNOWN_ID
                elif records is None:
                    refused[topic_partition] = _NULL_RECORDS
                else:
                    entries[topic_partition] = records
                if records is not None and kernels.is_of_transaction(records):
                    is_unauthorized = request.transactional_id is None
                    if known:
                        transactional[topic_partition] = records
        if is_unauthorized:
            self.forget_records()
            for _, _, asked in self.topics:
                refused.update(dict.fromkeys(asked, _UNAUTHORIZED))

    def refuse_entries(self, result: PartitionProduceResult) -> None:
        """Refuse all that could be appended, with the same result."""
        self.refused.update(dict.fromkeys(self.entries, result))
        self.entries.clear()

    def refuse_topics(self, names: Collection[str]) -> None:
        """Refuse every partition of topics that the client may not write to."""
        for name, _, asked in self.topics:
            if name in names:
                for topic_partition in asked:
                    self.entries.pop(topic_partition, None)
                    self.transactional.pop(topic_partition, None)
                    self.refused[topic_partition] = _TOPIC_UNAUTHORIZED

    def forget_records(self) -> None:
        """Let go of the records, which would keep the bytes of the request while it waits in the purgatory."""
        self.entries.clear()
        self.transactional.clear()


def forget_records(request: ProduceRequest) -> None:
    """Let go of the records of a request, whose names and numbers a response to an error still needs."""
    for topic in request.topic_data:
        for partition in topic.partition_data:
            partition.records = None
