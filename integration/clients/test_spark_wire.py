"""The requests of Spark's Kafka connector to a broker, request by request and in the versions that it uses, without a JVM.

SPARK_ASKS was recorded between Spark 4.2.0 with kafka-clients 3.9.2 and a broker, when reading by topic, pattern, partitions,
time and isolation level, streaming, and writing. Each test plays one of these parts with the requests that were recorded, and
fails unless it has sent exactly these.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest

from pybroker.model import Offset, ProducerEpoch, ProducerId
from pybroker.protocol.api_keys import ApiKey
from pybroker.protocol.codec import decode, decode_response, encode, encode_request, response_class
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages.api_versions import ApiVersionsRequest
from pybroker.protocol.messages.consumer_protocol import ConsumerProtocolAssignment, ConsumerProtocolSubscription, TopicPartition
from pybroker.protocol.messages.describe_cluster import DescribeClusterRequest
from pybroker.protocol.messages.describe_topic_partitions import DescribeTopicPartitionsRequest, TopicRequest
from pybroker.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from pybroker.protocol.messages.find_coordinator import FindCoordinatorRequest
from pybroker.protocol.messages.get_telemetry_subscriptions import GetTelemetrySubscriptionsRequest
from pybroker.protocol.messages.init_producer_id import InitProducerIdRequest
from pybroker.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from pybroker.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from pybroker.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from pybroker.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from pybroker.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics
from pybroker.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from pybroker.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from pybroker.protocol.wire import ZERO_UUID
from pybroker.records.batch import Record, batches
from pybroker.records.build import build_batch
from pybroker.records.compression import CompressionType
from testing.clients.stock import unique
from testing.error_codes import error_code
from testing.process.broker import is_kafka
from testing.samples import T0_MS
from testing.wire import raw

Asked = tuple[ApiKey, int]

API_VERSIONS: Asked = (ApiKey.API_VERSIONS, 4)
METADATA: Asked = (ApiKey.METADATA, 12)
TELEMETRY: Asked = (ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, 0)
PRODUCE: Asked = (ApiKey.PRODUCE, 11)
INIT_PRODUCER_ID: Asked = (ApiKey.INIT_PRODUCER_ID, 5)
DESCRIBE_CLUSTER: Asked = (ApiKey.DESCRIBE_CLUSTER, 1)
DESCRIBE_TOPIC: Asked = (ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0)
LIST_OFFSETS: Asked = (ApiKey.LIST_OFFSETS, 9)
FETCH: Asked = (ApiKey.FETCH, 17)
FIND_COORDINATOR: Asked = (ApiKey.FIND_COORDINATOR, 6)
JOIN_GROUP: Asked = (ApiKey.JOIN_GROUP, 9)
SYNC_GROUP: Asked = (ApiKey.SYNC_GROUP, 5)
OFFSET_FETCH: Asked = (ApiKey.OFFSET_FETCH, 9)
LEAVE_GROUP: Asked = (ApiKey.LEAVE_GROUP, 5)

DRIVER = {API_VERSIONS, METADATA, DESCRIBE_CLUSTER, DESCRIBE_TOPIC}
EXECUTOR = {API_VERSIONS, METADATA, TELEMETRY, LIST_OFFSETS, FETCH}
SPARK_ASKS: dict[str, set[Asked]] = {
    "df.write": {API_VERSIONS, METADATA, TELEMETRY, INIT_PRODUCER_ID, PRODUCE},
    "spark.read, driver": DRIVER,
    "spark.read with times, driver": DRIVER | {LIST_OFFSETS},
    "spark.readStream, driver": DRIVER | {LIST_OFFSETS},
    "executor": EXECUTOR,
    # with spark.sql.streaming.kafka.useDeprecatedOffsetFetching, instead of the admin client
    "deprecated, driver": {
        API_VERSIONS, METADATA, TELEMETRY, LIST_OFFSETS, FIND_COORDINATOR, JOIN_GROUP, SYNC_GROUP, OFFSET_FETCH, LEAVE_GROUP,
    },
}  # fmt: skip
ALL = set().union(*SPARK_ASKS.values())

EARLIEST, LATEST = -2, -1
UNCOMMITTED, COMMITTED = 0, 1
PARTITIONS = 2
WAIT_S = 60
COME_AGAIN = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.LEADER_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
}


class Asker:
    """One of the connector's clients on a connection of its own, which notes what it sent."""

    def __init__(self, bootstrap: str, client_id: str) -> None:
        self._connection, self._client_id, self._correlation_id = raw.Connection(bootstrap), client_id, 0
        self.port = int(bootstrap.rpartition(":")[2])
        self.asked: set[Asked] = set()
        response = self(
            API_VERSIONS, ApiVersionsRequest(client_software_name="apache-kafka-java", client_software_version="3.9.2")
        )
        assert response.error_code == 0
        self.versions = {one.api_key: (one.min_version, one.max_version) for one in response.api_keys}

    def __call__(self, asked: Asked, request: Any) -> Any:
        api_key, version = asked
        self._correlation_id += 1
        parts = encode_request(request, version, correlation_id=self._correlation_id, client_id=self._client_id)
        self._connection.socket.sendall(b"".join(bytes(part) for part in parts))  # type: ignore[arg-type]  # no late parts
        size = int.from_bytes(self._connection.receive_exactly(4))
        frame = memoryview(self._connection.receive_exactly(size))
        correlation_id, response = decode_response(response_class(api_key), version, frame)
        assert correlation_id == self._correlation_id
        self.asked.add(asked)
        return response

    def settled(self, asked: Asked, request: Any, error: Callable[[Any], int]) -> Any:
        """Return the first response that does not ask the client to try again.

        A broker may create a topic, or an id, after a request for it.
        """
        end = time.monotonic() + WAIT_S
        while error(response := self(asked, request)) in COME_AGAIN:
            assert time.monotonic() < end, error_code(error(response)).name
            time.sleep(0.02)
        return response

    def close(self) -> None:
        self._connection.socket.close()

    def metadata(self, *topics: str, is_created: bool = True) -> Any:
        wanted = [MetadataRequestTopic(topic_id=ZERO_UUID, name=name) for name in topics]
        return self(METADATA, MetadataRequest(topics=wanted, allow_auto_topic_creation=is_created))

    def telemetry(self) -> None:
        """Subscribe to telemetry, because clients push metrics where a broker offers that.

        The broker's list of metrics is empty, so clients push none.
        """
        if (
            is_kafka() and ApiKey.GET_TELEMETRY_SUBSCRIPTIONS not in self.versions
        ):  # without a receiver Apache Kafka does not offer it
            self.asked.add(TELEMETRY)
            return
        response = self(TELEMETRY, GetTelemetrySubscriptionsRequest(client_instance_id=ZERO_UUID))
        assert (response.error_code, response.requested_metrics) == (0, [])
        assert response.client_instance_id != ZERO_UUID
        assert response.push_interval_ms > 0

    def list_offsets(
        self, topic: str, timestamp: int, partitions: Iterable[int], *, epoch: int = -1, isolation: int = UNCOMMITTED
    ) -> dict[int, tuple[int, int]]:
        """Return offset and timestamp by partition."""
        asks = [ListOffsetsPartition(partition_index=n, current_leader_epoch=epoch, timestamp=timestamp) for n in partitions]
        topics = [ListOffsetsTopic(name=topic, partitions=asks)]
        response = self(LIST_OFFSETS, ListOffsetsRequest(replica_id=-1, isolation_level=isolation, topics=topics))
        (found,) = response.topics
        assert found.name == topic
        assert all(one.error_code == 0 and one.leader_epoch in (-1, 0) for one in found.partitions)
        return {one.partition_index: (one.offset, one.timestamp) for one in found.partitions}

    def fetch(
        self, topic_id: bytes, partition: int, offset: int, *, session: tuple[int, int] = (0, 0), isolation: int = UNCOMMITTED
    ) -> Any:
        """Fetch a partition in a session, given by its id and epoch."""
        ask = FetchPartition(partition=partition, current_leader_epoch=0, fetch_offset=offset, partition_max_bytes=1 << 20)
        return self(
            FETCH,
            FetchRequest(
                max_wait_ms=500,
                min_bytes=1,
                max_bytes=50 << 20,
                isolation_level=isolation,
                session_id=session[0],
                session_epoch=session[1],
                topics=[FetchTopic(topic_id=topic_id, partitions=[ask])],
                forgotten_topics_data=[],
                rack_id="",
            ),
        )

    def describe(self, topic: str) -> Any:
        """Look at a topic as the driver does: the cluster, then the topic page by page."""
        cluster = self(DESCRIBE_CLUSTER, DescribeClusterRequest(include_cluster_authorized_operations=False))
        assert (cluster.error_code, cluster.error_message, cluster.endpoint_type) == (0, None, 1)
        assert [(one.host, one.port) for one in cluster.brokers] == [("127.0.0.1", self.port)]
        assert cluster.controller_id in [one.broker_id for one in cluster.brokers]
        response = self(DESCRIBE_TOPIC, DescribeTopicPartitionsRequest(topics=[TopicRequest(name=topic)]))
        assert response.next_cursor is None
        (found,) = response.topics
        return found


Ask = Callable[[str], Asker]


@pytest.fixture
def asker(bootstrap: str) -> Iterator[Ask]:
    """Connect as one of the clients of a Spark job: `asker("adminclient-1")`."""
    made: list[Asker] = []

    def connect(client_id: str) -> Asker:
        made.append(Asker(bootstrap, client_id))
        return made[-1]

    yield connect
    for one in made:
        one.close()


def lz4_batch(count: int, *, producer: tuple[int, int] = (-1, -1), sequence: int = -1, first: int = 0) -> bytes:
    """Return records `first` to `first + count`, 10 ms apart, with headers, in a codec that Spark's sink is often given."""
    made = [expected(first + number)._replace(offset=Offset(number)) for number in range(count)]
    producer_id, epoch = producer
    data = build_batch(
        made,
        compression=CompressionType.LZ4,
        producer_id=ProducerId(producer_id),
        producer_epoch=ProducerEpoch(epoch),
        base_sequence=sequence,
    )
    return bytes(data)


def expected(number: int) -> Record:
    value = None if number % 7 == 3 else b"value %d " % number * 20
    headers = (("h", b"%d" % number), ("null", None)) if number % 2 else ()
    return Record(Offset(number), T0_MS + 10 * number, b"key-%d" % number, value, headers)


def produce_request(topic: str, data: dict[int, bytes]) -> ProduceRequest:
    parts = [PartitionProduceData(index=number, records=memoryview(one)) for number, one in data.items()]
    return ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=[TopicProduceData(name=topic, partition_data=parts)])


def produced(response: Any, topic: str) -> dict[int, tuple[int, int]]:
    """Return error and first offset by partition."""
    (found,) = response.responses
    assert found.name == topic
    assert all(one.record_errors == [] for one in found.partition_responses)
    return {one.index: (one.error_code, one.base_offset) for one in found.partition_responses}


@pytest.fixture
def written(bootstrap: str, new_topic: Callable[..., str]) -> str:
    """Create a topic of two partitions with records 0 to 99 in the first and 0 to 9 in the second."""
    topic = new_topic(PARTITIONS)
    writer = Asker(bootstrap, "producer-1")
    try:
        response = writer(PRODUCE, produce_request(topic, {0: lz4_batch(60), 1: lz4_batch(10)}))
        assert produced(response, topic) == {0: (0, 0), 1: (0, 0)}
        assert produced(writer(PRODUCE, produce_request(topic, {0: lz4_batch(40, first=60)})), topic) == {0: (0, 60)}
    finally:
        writer.close()
    return topic


def topic_id_of(asker: Asker, topic: str) -> bytes:
    """Return the id by which Fetch names the topic, as an executor gets it when it finds its partitions' leaders."""
    response = asker.metadata(topic)
    nodes = {one.node_id: (one.host, one.port) for one in response.brokers}
    (found,) = response.topics
    assert (found.error_code, found.name, found.is_internal) == (0, topic, False)
    assert sorted(one.partition_index for one in found.partitions) == list(range(PARTITIONS))
    for one in found.partitions:
        assert nodes[one.leader_id] == ("127.0.0.1", asker.port)
        assert (one.error_code, one.leader_epoch, one.offline_replicas) == (0, 0, [])
        assert one.replica_nodes == one.isr_nodes == [one.leader_id]
    assert found.topic_id != ZERO_UUID
    return bytes(found.topic_id)


def fetched(response: Any, topic_id: bytes, partition: int) -> tuple[Any, list[Record]]:
    """Return the one partition of a response, and its records."""
    assert response.error_code == 0
    (topic,) = response.responses
    assert topic.topic_id == topic_id
    (found,) = topic.partitions
    assert (found.partition_index, found.error_code, found.log_start_offset, found.preferred_read_replica) == (
        partition,
        0,
        0,
        -1,
    )
    for one in batches(found.records):
        one.ensure_valid()
    return found, [record for one in batches(found.records) for record in one.records()]


def test_every_version_that_spark_uses_is_offered(asker: Ask) -> None:
    offered = asker("adminclient-1").versions
    wanted = sorted(ALL - {TELEMETRY} if is_kafka() else ALL)
    assert [asked for asked in wanted if not offered[asked[0]][0] <= asked[1] <= offered[asked[0]][1]] == []


def test_the_sink_writes_a_batch_once(asker: Ask, new_topic: Callable[..., str]) -> None:
    topic, ask = new_topic(PARTITIONS), asker("producer-1")
    topic_id_of(ask, topic)
    ask.telemetry()
    wanted = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=0x7FFFFFFF)
    started = ask.settled(INIT_PRODUCER_ID, wanted, lambda response: int(response.error_code))
    assert (started.error_code, started.producer_epoch) == (0, 0)
    assert started.producer_id >= 0
    me = (started.producer_id, 0)
    first = produce_request(topic, {1: lz4_batch(5, producer=me, sequence=0), 0: lz4_batch(3, producer=me, sequence=0)})
    response = ask(PRODUCE, first)
    assert produced(response, topic) == {1: (0, 0), 0: (0, 0)}
    assert (response.throttle_time_ms, response.node_endpoints) == (0, [])
    assert produced(ask(PRODUCE, first), topic) == {1: (0, 0), 0: (0, 0)}, "sent again, written once"
    second = produce_request(topic, {0: lz4_batch(4, producer=me, sequence=3, first=3)})
    response = ask(PRODUCE, second)
    assert produced(response, topic) == {0: (0, 3)}
    assert response.responses[0].partition_responses[0].log_append_time_ms == -1, "the records keep their times"
    gap = produce_request(topic, {0: lz4_batch(1, producer=me, sequence=8), 1: lz4_batch(1, producer=me, sequence=5)})
    assert produced(ask(PRODUCE, gap), topic) == {0: (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1), 1: (0, 5)}
    assert ask.asked == SPARK_ASKS["df.write"]
    reader = asker("consumer-1")
    assert reader.list_offsets(topic, LATEST, range(PARTITIONS)) == {0: (7, -1), 1: (6, -1)}


def test_the_sink_creates_a_topic_by_writing_to_it(asker: Ask) -> None:
    ask, topic = asker("producer-1"), unique("made")
    wanted = MetadataRequest(topics=[MetadataRequestTopic(topic_id=ZERO_UUID, name=topic)], allow_auto_topic_creation=True)
    (found,) = ask.settled(METADATA, wanted, lambda response: int(response.topics[0].error_code)).topics
    assert (found.error_code, [one.leader_epoch for one in found.partitions]) == (0, [0])
    assert produced(ask(PRODUCE, produce_request(topic, {0: lz4_batch(1)})), topic) == {0: (0, 0)}


def test_the_driver_of_a_batch_read_finds_partitions_and_offsets(asker: Ask, written: str) -> None:
    ask = asker("adminclient-1")
    no_topics = ask.metadata()
    assert no_topics.topics == [], "asked for none"
    assert [(one.host, one.port, one.rack) for one in no_topics.brokers] == [("127.0.0.1", ask.port, None)]
    assert no_topics.controller_id == no_topics.brokers[0].node_id
    assert len(no_topics.cluster_id) == 22
    everything = ask(METADATA, MetadataRequest(topics=None))  # for a pattern
    assert (0, written, PARTITIONS) in [(one.error_code, one.name, len(one.partitions)) for one in everything.topics]
    found = ask.describe(written)
    assert (found.error_code, found.name, found.is_internal) == (0, written, False)
    assert bytes(found.topic_id) == topic_id_of(ask, written)
    leader = no_topics.controller_id
    assert [(one.partition_index, one.leader_id, one.leader_epoch) for one in found.partitions] == [
        (0, leader, 0),
        (1, leader, 0),
    ]
    assert all(one.replica_nodes == one.isr_nodes == [leader] for one in found.partitions)
    missing = ask.describe(unique("nowhere"))
    assert (missing.error_code, missing.partitions) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, [])
    assert ask.asked == SPARK_ASKS["spark.read, driver"]


def test_the_driver_of_a_batch_read_finds_offsets_between_two_times(asker: Ask, written: str) -> None:
    ask, both = asker("adminclient-1"), range(PARTITIONS)
    ask.describe(written)
    (found,) = ask.metadata(written, is_created=False).topics
    assert found.error_code == 0
    assert ask.list_offsets(written, 0, both) == {0: (0, T0_MS), 1: (0, T0_MS)}
    assert ask.list_offsets(written, T0_MS + 45, both) == {0: (5, T0_MS + 50), 1: (5, T0_MS + 50)}
    assert ask.list_offsets(written, T0_MS + 650, both) == {0: (65, T0_MS + 650), 1: (-1, -1)}, (
        "in the second batch; none is as late"
    )
    assert ask.asked == SPARK_ASKS["spark.read with times, driver"]
    (found,) = ask.metadata(unique("nowhere"), is_created=False).topics
    assert found.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    nowhere = ListOffsetsTopic(name=written, partitions=[ListOffsetsPartition(partition_index=PARTITIONS, timestamp=LATEST)])
    (topic,) = ask(LIST_OFFSETS, ListOffsetsRequest(replica_id=-1, isolation_level=0, topics=[nowhere])).topics
    assert [one.error_code for one in topic.partitions] == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]


def test_the_driver_of_a_stream_sees_the_log_grow(asker: Ask, written: str) -> None:
    ask, both = asker("adminclient-1"), range(PARTITIONS)
    ask.describe(written)
    ask.metadata(written, is_created=False)
    assert ask.list_offsets(written, EARLIEST, both) == {0: (0, -1), 1: (0, -1)}
    assert ask.list_offsets(written, LATEST, both) == {0: (100, -1), 1: (10, -1)}
    asker("producer-1")(PRODUCE, produce_request(written, {1: lz4_batch(15, first=10)}))
    assert ask.list_offsets(written, LATEST, both) == {0: (100, -1), 1: (25, -1)}
    assert ask.asked == SPARK_ASKS["spark.readStream, driver"]


@pytest.mark.parametrize("isolation", [UNCOMMITTED, COMMITTED], ids=["read_uncommitted", "read_committed"])
def test_an_executor_reads_its_range(asker: Ask, written: str, isolation: int) -> None:
    ask = asker("consumer-spark-kafka-relation-executor-1")
    topic_id = topic_id_of(ask, written)
    ask.telemetry()
    for _ in range(3):  # an executor asks this often, before and after it reads
        assert ask.list_offsets(written, EARLIEST, [0], epoch=0, isolation=isolation) == {0: (0, -1)}
        assert ask.list_offsets(written, LATEST, [0], epoch=0, isolation=isolation) == {0: (100, -1)}
    first = ask.fetch(topic_id, 0, 0, isolation=isolation)
    found, records = fetched(first, topic_id, 0)
    assert records == [expected(number) for number in range(100)]
    assert (found.high_watermark, found.last_stable_offset) == (100, 100)
    assert found.aborted_transactions == (None if isolation == UNCOMMITTED else [])
    assert first.session_id != 0
    assert first.node_endpoints == []
    # the next fetch of the session begins where the records ended, and returns what was appended since
    asker("producer-1")(PRODUCE, produce_request(written, {0: lz4_batch(5, first=100)}))
    second = ask.fetch(topic_id, 0, 100, session=(first.session_id, 1), isolation=isolation)
    assert second.session_id == first.session_id
    found, records = fetched(second, topic_id, 0)
    assert records == [expected(number) for number in range(100, 105)]
    nothing = ask.fetch(topic_id, 0, 105, session=(first.session_id, 2), isolation=isolation)
    assert (nothing.error_code, nothing.session_id, nothing.responses) == (0, first.session_id, [])
    # a task that begins in the middle of a batch gets the whole batch
    _, records = fetched(ask.fetch(topic_id, 0, 70, isolation=isolation), topic_id, 0)
    assert [record.offset for record in records] == list(range(60, 105))
    assert ask.asked == SPARK_ASKS["executor"]


def test_an_executor_gets_the_error_that_it_expects(asker: Ask, written: str) -> None:
    ask = asker("consumer-spark-kafka-relation-executor-1")
    topic_id = topic_id_of(ask, written)

    def error(response: Any) -> tuple[int, int]:
        ((found,),) = [one.partitions for one in response.responses]
        return response.error_code, found.error_code

    assert error(ask.fetch(topic_id, 0, 101)) == (0, ErrorCode.OFFSET_OUT_OF_RANGE)
    assert error(ask.fetch(topic_id, PARTITIONS, 0)) == (0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    assert error(ask.fetch(uuid.uuid4().bytes, 0, 0)) == (0, ErrorCode.UNKNOWN_TOPIC_ID)
    assert ask.fetch(topic_id, 0, 0, session=(12345, 1)).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def versioned(content: ConsumerProtocolSubscription | ConsumerProtocolAssignment) -> bytes:
    """Encode what a member sends to the others, with its version, 3, in front."""
    return b"\0\3" + b"".join(bytes(part) for part in encode(content, 3))  # type: ignore[arg-type]  # no late parts


def test_the_driver_with_deprecated_offset_fetching_uses_a_group(asker: Ask, written: str) -> None:
    """Play a consumer in a group of its own, which it leaves at the end."""
    ask, group = asker("consumer-spark-kafka-source-driver-0-1"), unique("spark-kafka-source")
    topic_id_of(ask, written)
    ask.telemetry()
    where = FindCoordinatorRequest(key_type=0, coordinator_keys=[group])
    (found,) = ask.settled(FIND_COORDINATOR, where, lambda response: int(response.coordinators[0].error_code)).coordinators
    assert (found.error_code, found.key, found.host, found.port) == (0, group, "127.0.0.1", ask.port)
    subscription = versioned(ConsumerProtocolSubscription(topics=[written]))
    protocols = [JoinGroupRequestProtocol(name=name, metadata=subscription) for name in ("range", "cooperative-sticky")]

    def join(member: str) -> Any:
        request = JoinGroupRequest(
            group_id=group, session_timeout_ms=45_000, rebalance_timeout_ms=300_000, member_id=member,
            protocol_type="consumer", protocols=protocols, reason="",
        )  # fmt: skip
        return ask.settled(JOIN_GROUP, request, lambda response: int(response.error_code))

    named = join("")
    assert named.error_code == ErrorCode.MEMBER_ID_REQUIRED
    joined = join(named.member_id)
    assert (joined.error_code, joined.generation_id, joined.protocol_name, joined.skip_assignment) == (0, 1, "range", False)
    member = named.member_id
    assert member == joined.member_id == joined.leader
    assert [(one.member_id, bytes(one.metadata)) for one in joined.members] == [(joined.leader, subscription)]
    mine = ConsumerProtocolAssignment(assigned_partitions=[TopicPartition(topic=written, partitions=[0, 1])])
    assignment = versioned(mine)
    synced = ask(
        SYNC_GROUP,
        SyncGroupRequest(
            group_id=group, generation_id=1, member_id=member, protocol_type="consumer", protocol_name="range",
            assignments=[SyncGroupRequestAssignment(member_id=member, assignment=assignment)],
        ),
    )  # fmt: skip
    assert (synced.error_code, synced.protocol_type, synced.protocol_name) == (0, "consumer", "range")
    assert decode(ConsumerProtocolAssignment, 3, memoryview(synced.assignment), 2) == mine
    wanted = OffsetFetchRequestGroup(group_id=group, topics=[OffsetFetchRequestTopics(name=written, partition_indexes=[1, 0])])
    (offsets,) = ask(OFFSET_FETCH, OffsetFetchRequest(groups=[wanted], require_stable=True)).groups
    assert (offsets.group_id, offsets.error_code, [one.name for one in offsets.topics]) == (group, 0, [written])
    committed = [(one.partition_index, one.committed_offset, one.error_code) for one in offsets.topics[0].partitions]
    assert sorted(committed) == [(0, -1, 0), (1, -1, 0)], "nothing is committed: the position comes from ListOffsets"
    assert ask.list_offsets(written, EARLIEST, [1, 0], epoch=0) == {0: (0, -1), 1: (0, -1)}
    assert ask.list_offsets(written, LATEST, [1, 0], epoch=0) == {0: (100, -1), 1: (10, -1)}
    leaving = MemberIdentity(member_id=member, reason="the consumer is being closed")
    left = ask(LEAVE_GROUP, LeaveGroupRequest(group_id=group, members=[leaving]))
    assert (left.error_code, [(one.member_id, one.error_code) for one in left.members]) == (0, [(member, 0)])
    assert ask.asked == SPARK_ASKS["deprecated, driver"]
