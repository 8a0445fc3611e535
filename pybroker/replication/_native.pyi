"""The three loops of a fetch over its partitions; `_pure` has the same functions."""

from collections.abc import Callable, Mapping, Sequence

from pybroker.metrics.broker_metrics import BrokerMetrics
from pybroker.model import TopicId, TopicPartition
from pybroker.protocol.messages.fetch import FetchableTopicResponse, FetchResponse, FetchTopic, PartitionData
from pybroker.replication.fetch_data import FetchIsolation, FetchParams, FetchPartition, FetchPartitionData, FetchResults
from pybroker.replication.partition import Partition

def wanted_partitions(topics: Sequence[FetchTopic], names: Callable[[TopicId], str | None] | None) -> list[FetchPartition]:
    """What the topics of a request ask for. `names` finds a topic's name by its id; None where topics are named."""

def read_partitions(
    partitions: Mapping[TopicPartition, Partition],
    params: FetchParams,
    wanted_partitions: Sequence[FetchPartition],
    read_one: Callable[[FetchParams, FetchPartition, int, bool], FetchPartitionData],
) -> FetchResults:
    """Read one partition after the other within the limits of `params`; `read_one` knows every case."""

def answered_topics(
    results: FetchResults,
    metrics: BrokerMetrics,
    is_plain: bool,
    answer_one: Callable[[FetchPartition, FetchPartitionData], PartitionData],
    blank_topic: FetchableTopicResponse,
    blank_partition: PartitionData,
    copied_max: int,
    copied_sum_max: int,
) -> list[FetchableTopicResponse]:
    """What is answered for each partition, by topics, and counted; slices of up to `copied_max` bytes are copied until they are
    `copied_sum_max` together.

    `answer_one` knows every case, and counts it; with `is_plain` it is asked for errors, aborted transactions and diverging
    epochs only. The blanks are objects of the classes to answer with.
    """

def read_at_once(
    partitions: Mapping[TopicPartition, Partition],
    topics: Sequence[FetchTopic],
    names: Callable[[TopicId], str | None] | None,
    isolation: FetchIsolation,
    bytes_left: int,
    bytes_needed: int,
    metrics: BrokerMetrics,
    blank_response: FetchResponse,
    blank_topic: FetchableTopicResponse,
    blank_partition: PartitionData,
    copied_max: int,
    copied_sum_max: int,
) -> FetchResponse | None:
    """The three loops in one go, for a client without a session, if all that it asks for is usual, and at least `bytes_needed`.

    Else None, and nothing was counted: the request is handled as any other. That is always what the pure twin says.
    """
