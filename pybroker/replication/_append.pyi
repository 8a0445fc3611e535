"""A produce request of the usual form in one call; `quick_append` has the twin that finds nothing usual."""

from collections.abc import Callable

from pybroker.model import TopicPartition
from pybroker.protocol.messages.produce import (
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from pybroker.replication.fetch_data import PartitionProduceResult
from pybroker.replication.replica_manager import ReplicaManager

def produce_one(
    manager: ReplicaManager,
    topic: TopicProduceData,
    blank_response: ProduceResponse,
    blank_topic: TopicProduceResponse,
    blank_partition: PartitionProduceResponse,
    answer_one: Callable[[TopicPartition, PartitionProduceResult], PartitionProduceResponse],
) -> ProduceResponse | None:
    """Append what a request, of a version without topic ids, has for the one partition of its only topic, and answer.

    The blanks are objects of the classes to answer with; `answer_one` is asked for failures. None when the request, the partition
    or the records are not usual: then nothing was changed, and the general path has it.
    """
