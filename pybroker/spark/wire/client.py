"""A client of a cluster: it finds leaders, fetches batches as they lie in the log, and appends batches to a partition's end.

    client = WireClient("localhost:9092")
    found = client.fetch("orders", 0, offset=client.list_offset("orders", 0, timestamp=EARLIEST))
    for batch in batches(found.data): ...

The client retries for `retry_s` seconds what may succeed later: when a broker is away, or when a leader has moved. Every other
error of a broker, and a retry that does not succeed in time, is a PipelineError of one line with Kafka's name of the error. A
topic that is deleted and created again while the client knows it is an error, too.

Use a client in one thread only. It works with Apache Kafka 2.8 and later and with pybroker.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeVar, final

from pybroker.client.address import parse_address
from pybroker.failures import drop_frames
from pybroker.model import Offset, ProducerEpoch, ProducerId
from pybroker.protocol.api_keys import ApiKey
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages import create_partitions, create_topics, describe_configs, fetch, list_offsets, metadata, produce
from pybroker.protocol.messages.init_producer_id import InitProducerIdRequest
from pybroker.protocol.wire import ZERO_UUID
from pybroker.records.batch import PRODUCER_ID_AT
from pybroker.spark.errors import PipelineError
from pybroker.spark.wire.connection import Connection
from pybroker.spark.wire.errors import BrokerError, ConnectionLostError, check

if TYPE_CHECKING:
    from types import TracebackType

T = TypeVar("T")
Connect = Callable[[str, int], Any]

EARLIEST: Final = -2
LATEST: Final = -1
NO_LEADER: Final = -1
UNCOMMITTED: Final = 0
COMMITTED: Final = 1
SET_ON_TOPIC: Final = 1
"""The source of a setting in DescribeConfigs: the topic itself."""

_FETCH_BY_ID_SINCE: Final = 13
_PRODUCE_BY_ID_SINCE: Final = 13
_TOPIC_RESOURCE: Final = 2
_PAUSES_S: Final = (0.05, 0.1, 0.2, 0.5, 1.0)
_MISSING_S: Final = 5.0
"""How many seconds a topic may be unknown, because brokers learn of a new topic a little after its creation."""


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic as a broker describes it. `leaders` has the node id of each partition's leader, or NO_LEADER."""

    name: str
    topic_id: bytes
    leaders: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Fetched:
    """The batches that a partition's log has at and after an offset.

    Attributes:
        data: batches and messages of any magic. The first may have records before the offset, the last may be cut. The view is
            writable and belongs to the caller.
        aborted: (producer id, first offset) of the aborted transactions in it, if the fetch was for committed records only.
    """

    data: memoryview
    high_watermark: Offset
    last_stable_offset: Offset
    log_start_offset: Offset
    aborted: tuple[tuple[ProducerId, Offset], ...]


@dataclass(frozen=True, slots=True)
class TopicSetting:
    """The value of a topic's setting, and whether it is the topic's own."""

    value: str | None
    is_of_topic: bool
    """Whether the setting was set for this topic: it is neither the broker's nor a default."""


@final
class WireClient:
    """A client of the cluster behind `host:port[,host:port]`. It sends no request before the first call needs it."""

    def __init__(
        self,
        bootstrap: str,
        *,
        retry_s: float = 60.0,
        timeout_s: float = 30.0,
        connect: Connect | None = None,
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.bootstrap = bootstrap
        self._addresses = parse_addresses(bootstrap)
        self._retry_s, self._timeout_s = retry_s, timeout_s
        self._connect: Connect = connect or (lambda host, port: Connection(host, port, timeout_s=timeout_s))
        self._sleep, self._clock = sleep, clock
        self._connections: dict[tuple[str, int], Any] = {}
        self._nodes: dict[int, tuple[str, int]] = {}
        self._topics: dict[str, Topic] = {}
        self._ids: dict[str, bytes] = {}
        self._cluster_id: str | None = None
        self._controller_id = NO_LEADER

    def __enter__(self) -> WireClient:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections."""
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    # --- Topics -----------------------------------------------------------------------------------------------------------------

    def cluster_id(self) -> str:
        """Return the cluster id."""
        if self._cluster_id is None:
            self.retrying(lambda: self.refresh([]))
        return self._cluster_id or ""

    def topics(self, names: Iterable[str] | None = None) -> dict[str, Topic]:
        """Return those of these topics that exist, as they are now; with None, all topics but the internal ones."""
        wanted = None if names is None else list(names)
        return self.retrying(lambda: self.refresh(wanted))

    def topic(self, name: str) -> Topic:
        """Return a topic as it is now. Raises PipelineError if it does not appear within some seconds."""
        deadline = self._clock() + _MISSING_S
        for pause in pauses():
            found = self.topics([name]).get(name)
            if found is not None:
                return found
            if self._clock() >= deadline:
                break
            self._sleep(pause)
        raise PipelineError(f"no topic {name} at {self.bootstrap}")

    def create_topic(self, name: str, partitions: int, settings: Mapping[str, str] | None = None) -> None:
        """Create a topic and wait until it appears. If it exists already, do nothing."""
        configs = [create_topics.CreatableTopicConfig(name=key, value=value) for key, value in (settings or {}).items()]
        topic = create_topics.CreatableTopic(
            name=name, num_partitions=partitions, replication_factor=-1, assignments=[], configs=configs
        )
        what = f"cannot create topic {name} at {self.bootstrap}"

        def make() -> None:
            response = self._controller().call(create_topics.CreateTopicsRequest(topics=[topic], timeout_ms=self._timeout_ms))
            [result] = response.topics
            if result.error_code != ErrorCode.TOPIC_ALREADY_EXISTS:
                check(what, result.error_code, result.error_message)

        self.retrying(make)
        self.topic(name)

    def create_partitions(self, name: str, count: int) -> None:
        """Add partitions to a topic until it has `count`, which must be more than it has."""
        topic = create_partitions.CreatePartitionsTopic(name=name, count=count, assignments=None)
        what = f"cannot give topic {name} {count} partitions at {self.bootstrap}"

        def make() -> None:
            request = create_partitions.CreatePartitionsRequest(topics=[topic], timeout_ms=self._timeout_ms)
            [result] = self._controller().call(request).results
            check(what, result.error_code, result.error_message)

        self.retrying(make)

    def settings(self, name: str) -> dict[str, TopicSetting]:
        """Return all settings of a topic."""
        resource = describe_configs.DescribeConfigsResource(
            resource_type=_TOPIC_RESOURCE, resource_name=name, configuration_keys=None
        )
        what = f"cannot read the settings of topic {name} at {self.bootstrap}"

        def attempt() -> dict[str, TopicSetting]:
            [result] = self.any_broker().call(describe_configs.DescribeConfigsRequest(resources=[resource])).results
            check(what, result.error_code, result.error_message)
            return {one.name: TopicSetting(one.value, one.config_source == SET_ON_TOPIC) for one in result.configs}

        return self.retrying(attempt)

    # --- Records ----------------------------------------------------------------------------------------------------------------

    def list_offset(self, topic: str, partition: int, *, timestamp: int, isolation: int = UNCOMMITTED) -> Offset:
        """Return an offset of a partition: EARLIEST, LATEST, or that of the first record at or after a time in ms.

        LATEST with COMMITTED is the last stable offset: the log ends there for a reader of committed records. For a time, the
        result is -1 when there is no record of that time or later.
        """
        wanted = list_offsets.ListOffsetsPartition(partition_index=partition, timestamp=timestamp)
        request = list_offsets.ListOffsetsRequest(
            replica_id=-1,
            isolation_level=isolation,
            topics=[list_offsets.ListOffsetsTopic(name=topic, partitions=[wanted])],
            timeout_ms=self._timeout_ms,
        )
        what = f"cannot list the offsets of {topic}-{partition} at {self.bootstrap}"

        def attempt() -> Offset:
            [found] = self.leader(topic, partition).call(request).topics[0].partitions
            check(what, found.error_code)
            return Offset(found.offset)

        return self.retrying(attempt, topic)

    def fetch(
        self,
        topic: str,
        partition: int,
        *,
        offset: Offset,
        max_bytes: int = 8 << 20,
        min_bytes: int = 1,
        wait_ms_max: int = 500,
        isolation: int = UNCOMMITTED,
    ) -> Fetched:
        """Fetch about `max_bytes` of batches from `offset`, as they lie in the log; at least one batch if there is any.

        The broker waits until there are `min_bytes`, or until `wait_ms_max` has passed. Raises BrokerError, most often
        OFFSET_OUT_OF_RANGE.
        """
        what = f"{topic}-{partition} at {self.bootstrap} cannot be read from offset {offset}"

        def attempt() -> Fetched:
            leader = self.leader(topic, partition)
            known, is_by_id = self._topics[topic], leader.version_of(ApiKey.FETCH) >= _FETCH_BY_ID_SINCE
            wanted = fetch.FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=max_bytes)
            request = fetch.FetchRequest(
                max_wait_ms=min(wait_ms_max, self._timeout_ms // 2),
                min_bytes=min_bytes,
                max_bytes=max_bytes,
                isolation_level=isolation,
                session_epoch=-1,
                topics=[
                    fetch.FetchTopic(
                        topic="" if is_by_id else topic, topic_id=known.topic_id if is_by_id else ZERO_UUID, partitions=[wanted]
                    )
                ],
            )
            response = leader.call(request)
            check(what, response.error_code)
            [found] = response.responses[0].partitions
            check(what, found.error_code)
            aborted = tuple((one.producer_id, one.first_offset) for one in found.aborted_transactions or ())
            data = memoryview(b"") if found.records is None else found.records
            return Fetched(data, found.high_watermark, found.last_stable_offset, found.log_start_offset, aborted)

        return self.retrying(attempt, topic)

    def produce(self, topic: str, partition: int, batch: bytes | bytearray | memoryview, *, acks: int = -1) -> Offset:
        """Append a batch, whose base offset must be 0, and return the base offset that it got.

        If the connection breaks before the response arrives, the client sends the batch again only if the batch has a producer
        id and a sequence. The broker recognises it by these, unless it has restarted meanwhile and the records' timestamps are
        more than a day old.
        """
        what = f"cannot write to {topic}-{partition} at {self.bootstrap}"
        is_known = int.from_bytes(batch[PRODUCER_ID_AT : PRODUCER_ID_AT + 8], signed=True) >= 0

        def attempt() -> Offset:
            leader = self.leader(topic, partition)
            self.send_batch(leader, topic, partition, batch, acks=acks)
            try:
                return produced_offset(leader.receive(), what)
            except ConnectionLostError as error:
                self.drop(leader)
                if is_known:
                    raise
                raise PipelineError(f"{what}: {error}; it is not known whether the batch has arrived") from error

        return self.retrying(attempt, topic)

    def send_batch(
        self, leader: Any, topic: str, partition: int, batch: bytes | bytearray | memoryview, *, acks: int = -1
    ) -> None:
        """Send a Produce request without waiting for its response, which `produced_offset` reads."""
        assert acks, "a request without acks has no response"
        is_by_id = leader.version_of(ApiKey.PRODUCE) >= _PRODUCE_BY_ID_SINCE
        topic_id = self._topics[topic].topic_id if is_by_id else ZERO_UUID
        data = produce.TopicProduceData(
            name="" if is_by_id else topic,
            topic_id=topic_id,
            partition_data=[produce.PartitionProduceData(index=partition, records=batch)],
        )
        leader.send(produce.ProduceRequest(acks=acks, timeout_ms=self._timeout_ms, topic_data=[data]))

    def init_producer_id(self) -> tuple[ProducerId, ProducerEpoch]:
        """Return a producer id and epoch that no other producer has."""
        what = f"cannot get a producer id at {self.bootstrap}"

        def attempt() -> tuple[ProducerId, ProducerEpoch]:
            request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=self._timeout_ms)
            response = self.any_broker().call(request)
            check(what, response.error_code)
            return response.producer_id, response.producer_epoch

        return self.retrying(attempt)

    # --- Connections ------------------------------------------------------------------------------------------------------------

    def leader(self, topic: str, partition: int) -> Any:
        """Return a connection to the leader of a partition. Raises PipelineError when there is no such partition."""
        known = self._topics.get(topic) or self.topic(topic)
        if partition >= len(known.leaders):
            raise PipelineError(
                f"topic {topic} at {self.bootstrap} has {len(known.leaders)} partitions, so it has no partition {partition}"
            )
        node = known.leaders[partition]
        if node not in self._nodes:
            raise BrokerError(f"{topic}-{partition} at {self.bootstrap}", ErrorCode.LEADER_NOT_AVAILABLE)
        return self._connection(self._nodes[node])

    def any_broker(self) -> Any:
        """Return a connection to any broker that responds. Raises ConnectionLostError when none does."""
        last: ConnectionLostError | None = None
        for address in [*self._connections, *self._addresses, *self._nodes.values()]:
            try:
                return self._connection(address)
            except ConnectionLostError as error:
                last = drop_frames(error)
        assert last is not None, "there is at least one address"
        try:
            raise last
        finally:
            del last  # else this frame and the exception keep each other

    def drop(self, connection: Any) -> None:
        """Close a connection; the next request connects again."""
        connection.close()
        self._connections = {address: one for address, one in self._connections.items() if one is not connection}

    def retrying(self, attempt: Callable[[], T], topic: str | None = None) -> T:
        """Call `attempt`, and call it again while that may help. `topic` is the topic whose leader `attempt` asks, if any."""
        deadline: float | None = None
        for pause in pauses():
            try:
                if deadline is not None and topic is not None and topic not in self.refresh([topic]):
                    self._topics.pop(topic, None)
                return attempt()
            except (ConnectionLostError, BrokerError) as error:
                if isinstance(error, BrokerError) and not error.is_retriable:
                    raise
                if isinstance(error, ConnectionLostError):
                    self.close()
                now = self._clock()
                deadline = now + self._retry_s if deadline is None else deadline
                if now + pause > deadline:
                    raise gave_up(error, self._retry_s) from error
                self._sleep(pause)
        raise AssertionError("`pauses` never ends")

    @property
    def _timeout_ms(self) -> int:
        return int(self._timeout_s * 1000)

    def _connection(self, address: tuple[str, int]) -> Any:
        connection = self._connections.get(address)
        if connection is None:
            connection = self._connections[address] = self._connect(*address)
        return connection

    def _controller(self) -> Any:
        self.refresh([])
        return self._connection(self._nodes[self._controller_id]) if self._controller_id in self._nodes else self.any_broker()

    def refresh(self, names: list[str] | None) -> dict[str, Topic]:
        """Ask for brokers and topics and remember them. Return the topics."""
        wanted = None if names is None else [metadata.MetadataRequestTopic(name=name) for name in names]
        response = self.any_broker().call(metadata.MetadataRequest(topics=wanted, allow_auto_topic_creation=False))
        check(f"cannot list the topics at {self.bootstrap}", response.error_code)
        self._cluster_id = response.cluster_id
        self._controller_id = response.controller_id
        self._nodes = {one.node_id: (one.host, one.port) for one in response.brokers}
        found: dict[str, Topic] = {}
        for one in response.topics:
            if one.error_code in {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.INVALID_TOPIC_EXCEPTION}:
                continue
            if one.is_internal and names is None:
                continue
            if one.error_code != ErrorCode.LEADER_NOT_AVAILABLE:
                check(f"topic {one.name} at {self.bootstrap}", one.error_code)
            leaders = {partition.partition_index: partition.leader_id for partition in one.partitions}
            topic = Topic(one.name, one.topic_id, tuple(leaders.get(number, NO_LEADER) for number in range(len(leaders))))
            self._remember(topic)
            found[topic.name] = topic
        return found

    def _remember(self, topic: Topic) -> None:
        if self._ids.setdefault(topic.name, topic.topic_id) != topic.topic_id:
            raise PipelineError(f"topic {topic.name} at {self.bootstrap} was deleted and created again while the job ran")
        self._topics[topic.name] = topic


def produced_offset(response: Any, what: str) -> Offset:
    """Return the base offset in a ProduceResponse with one partition. Raises BrokerError."""
    [found] = response.responses[0].partition_responses
    check(what, found.error_code, found.error_message)
    return Offset(found.base_offset)


def gave_up(error: PipelineError, seconds: float) -> PipelineError:
    """Return the error of an attempt that was repeated in vain for `seconds`."""
    return PipelineError(f"{error}, for {seconds:g} s; run the same command again to continue")


def parse_addresses(bootstrap: str) -> list[tuple[str, int]]:
    """Return host and port of each address. Raises PipelineError."""
    found = []
    for one in bootstrap.split(","):
        try:
            found.append(parse_address(one))
        except ValueError:
            raise PipelineError(f"{one.strip()!r} is not an address of a broker: it must be HOST:PORT") from None
    return found


def pauses() -> Iterator[float]:
    """Yield the seconds to wait before each retry, without end."""
    yield from _PAUSES_S
    while True:
        yield _PAUSES_S[-1]
