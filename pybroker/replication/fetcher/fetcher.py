"""The partitions that a broker copies from one other broker: the next request, and what a response means.

Order (KIP-74)
    The leader reads partitions in the order of the request, until the response is full: `replica.fetch.response.max.bytes` bounds
    it for any number of partitions, but a batch that is larger than every limit comes alone. A partition that had records goes to
    the end of the order, here and in the leader's half of the session, so none starves.

Cost
    A request looks at the partitions that may want something else than the leader knows: those of which the last response had
    records, and those that were added. All are looked at every LOOK_AGAIN_MS, because the start of a log moves by itself.

Errors
    A partition whose leader refuses it waits for `replica.fetch.backoff.ms`, and then is asked about again, unless the image has
    named another leader by then. Others are not held up. A fetch from before the leader's first record asks for that, and
    the follower begins there.

Source: AbstractFetcherThread, ReplicaFetcherThread, RemoteLeaderEndPoint; KIP-74, KIP-101, KIP-227, KIP-595, KIP-903.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from pybroker.model import LeaderEpoch, Offset, TopicPartition
from pybroker.protocol.codec import maker
from pybroker.protocol.error_codes import ErrorCode, KafkaError
from pybroker.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, PartitionData, ReplicaState
from pybroker.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from pybroker.replication import following
from pybroker.replication.fetcher.session import FetchSession

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pybroker.config.broker import BrokerConfig
    from pybroker.model import BrokerId, TopicId
    from pybroker.replication.fetcher.session import Key
    from pybroker.replication.partition import Partition
    from pybroker.sharing.work import Work

logger = logging.getLogger(__name__)

_NONE: Final = ErrorCode.NONE
_OUT_OF_RANGE: Final = ErrorCode.OFFSET_OUT_OF_RANGE
_EARLIEST: Final = -2
LOOK_AGAIN_MS: Final = 10_000
_CODES: Final = {int(code): code for code in ErrorCode}
_new_partition: Final = maker(
    FetchPartition,
    "partition",
    "current_leader_epoch",
    "fetch_offset",
    "last_fetched_epoch",
    "log_start_offset",
    "partition_max_bytes",
)
_QUIET: Final = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
        ErrorCode.KAFKA_STORAGE_ERROR,
    }
)
"""Errors that come while the two brokers do not have the same image yet, or that the leader's log shows."""


class Followed:
    """A partition that is copied. `leader_epoch` is the one in which this leader leads it; `is_asked`: a request has named it."""

    __slots__ = ("is_asked", "lag", "leader_epoch", "partition", "ready_ms", "topic_id")

    def __init__(self, partition: Partition, topic_id: TopicId, leader_epoch: LeaderEpoch) -> None:
        self.partition, self.topic_id, self.leader_epoch = partition, topic_id, leader_epoch
        self.ready_ms = 0
        self.is_asked = False
        self.lag = 0

    @property
    def is_current(self) -> bool:
        """Whether the replica still is a follower in this leader epoch."""
        partition = self.partition
        return partition.leader_epoch == self.leader_epoch and not partition.is_leader


class Request(NamedTuple):
    """A request, and the partitions that it names, as they were then."""

    message: FetchRequest | ListOffsetsRequest
    followed: dict[TopicPartition, Followed]


class ReplicaFetcher:
    """Copies partitions from one leader; one request at a time is under way. Belongs to the loop.

    `broker_epoch` returns that of this broker, by which the leader knows its present life.
    """

    __slots__ = (
        "_behind",
        "_broker_epoch",
        "_broker_id",
        "_by_id",
        "_changed",
        "_config",
        "_followed",
        "_look_again_ms",
        "_resting",
        "_session",
        "bytes_count",
        "leader",
        "ready_ms",
    )

    def __init__(self, leader: BrokerId, *, broker_id: BrokerId, broker_epoch: Callable[[], int], config: BrokerConfig) -> None:
        self.leader = leader
        self._broker_id, self._broker_epoch, self._config = broker_id, broker_epoch, config
        self._followed: dict[TopicPartition, Followed] = {}  # in the order of reading
        self._by_id: dict[Key, TopicPartition] = {}
        self._changed: dict[TopicPartition, None] = {}  # since they were named last
        self._resting: dict[TopicPartition, Followed] = {}  # until their `ready_ms`
        self._behind: dict[TopicPartition, Followed] = {}  # the leader's log begins behind their end
        self._look_again_ms = 0
        self._session = FetchSession()
        self.ready_ms = 0
        """No request is due before this time: the leader did not respond."""
        self.bytes_count = 0

    def __iter__(self) -> Iterator[tuple[TopicPartition, Followed]]:
        """Return the partitions that are copied."""
        return iter(self._followed.items())

    def add(self, topic_partition: TopicPartition, followed: Followed) -> bool:
        """Copy a partition from the next request on. Returns False if it is copied already, in the same leader epoch."""
        before = self._followed.get(topic_partition)
        if before is not None and (before.partition, before.leader_epoch) == (followed.partition, followed.leader_epoch):
            return False
        if before is not None and before.topic_id != followed.topic_id:
            self.remove(topic_partition)
        self._followed[topic_partition] = followed
        self._by_id[followed.topic_id, topic_partition.partition] = topic_partition
        self._resting.pop(topic_partition, None)
        self._behind.pop(topic_partition, None)
        self._changed[topic_partition] = None
        return True

    def remove(self, topic_partition: TopicPartition) -> None:
        """Copy a partition no more; a response that is under way does nothing to it."""
        followed = self._followed.pop(topic_partition, None)
        if followed is not None:
            key = followed.topic_id, topic_partition.partition
            del self._by_id[key]
            self._session.forget(key)
            for some in (self._resting, self._behind, self._changed):
                some.pop(topic_partition, None)

    def next_ms(self, now_ms: int) -> int | None:
        """Return when the next request is due; None if there is nothing to copy."""
        if not self._followed:
            return None
        resting = self._resting.values()
        of_partitions = min(one.ready_ms for one in resting) if len(resting) == len(self._followed) else 0
        return max(now_ms, self.ready_ms, of_partitions)

    def request(self, now_ms: int) -> Request | None:
        """Return the next request; None if every partition waits. A log on a full volume only follows the start of the leader's,
        which may make room.
        """
        for key, one in list(self._resting.items()):
            if one.ready_ms <= now_ms:
                del self._resting[key]
                self._changed[key] = None
        if len(self._resting) == len(self._followed):
            return None
        behind = {key: one for key, one in self._behind.items() if key not in self._resting and one.is_current}
        for one in behind.values():
            one.is_asked = True
        return Request(_starts_wanted(behind, self._broker_id), behind) if behind else self._fetch(now_ms)

    def _fetch(self, now_ms: int) -> Request | None:
        """Return a request for records; None if it would be about nothing."""
        session, config = self._session, self._config
        if session.is_new or now_ms >= self._look_again_ms:
            self._look_again_ms = now_ms + LOOK_AGAIN_MS
            looked_at, self._changed = [key for key in self._followed if key not in self._resting], {}
        else:
            looked_at, self._changed = list(self._changed), {}
        topics: list[FetchTopic] = []
        named: dict[TopicPartition, Followed] = {}
        for key in looked_at:
            one = self._followed[key]
            if not one.is_current:  # another image is on its way to this fetcher
                session.forget((one.topic_id, key.partition))
                continue
            log = one.partition.log
            if log.log_directory.room.is_full:  # a fetch from the end of a log that takes no more would bring it into the ISR
                self._behind[key] = one
                session.forget((one.topic_id, key.partition))
                continue
            state = one.leader_epoch, log.log_end_offset, following.last_epoch(one.partition), log.log_start_offset
            if session.name((one.topic_id, key.partition), state):
                named[key] = one
                one.is_asked = True
                if not topics or topics[-1].topic_id != one.topic_id:  # the order is that of reading, so a topic may come again
                    topics.append(FetchTopic(topic_id=one.topic_id, partitions=[]))
                topics[-1].partitions.append(_new_partition(key.partition, *state, config.replica_fetch_max_bytes))
        if session.is_new and not named:
            return None
        message = FetchRequest(
            replica_state=ReplicaState(replica_id=self._broker_id, replica_epoch=self._broker_epoch()),
            max_wait_ms=config.replica_fetch_wait_max_ms,
            min_bytes=config.replica_fetch_min_bytes,
            max_bytes=config.replica_fetch_response_max_bytes,
            session_id=session.session_id,
            session_epoch=session.epoch,
            topics=topics,
            forgotten_topics_data=session.forgotten(),
        )
        return Request(message, named)

    def look_again(self) -> None:
        """Look at all partitions for the next request, because a volume has become full or has room again."""
        self._look_again_ms = 0

    def give_up(self) -> None:
        """Forget the request that is under way, whose response will not be handled."""
        self._session.begin_again()

    def wait(self, now_ms: int) -> None:
        """Send the next request after a pause, because something went wrong with the last one."""
        self._session.begin_again()
        self.ready_ms = now_ms + self._config.replica_fetch_backoff_ms

    def handle(self, request: Request, response: Any | None, now_ms: Callable[[], int]) -> Work[None]:
        """Follow a response, or none: the leader could not be reached, or did not respond in time."""
        self.ready_ms = 0
        if response is None:
            self.wait(now_ms())
        elif isinstance(request.message, ListOffsetsRequest):
            self._start(request, response, now_ms())
        elif response.error_code:
            self.wait(now_ms())
        else:
            self._session.responded(response.session_id)
            for topic in response.responses:
                for data in topic.partitions:
                    key = self._by_id.get((topic.topic_id, data.partition_index))
                    followed = None if key is None else self._followed.get(key)
                    if key is not None and followed is not None and followed.is_asked and followed.is_current:
                        self._take(key, followed, data, now_ms())
                    yield None

    def _take(self, key: TopicPartition, followed: Followed, data: PartitionData, now_ms: int) -> None:
        """Follow what the leader has responded for one partition."""
        code, partition = _code(data.error_code), followed.partition
        diverging = data.diverging_epoch
        try:
            if code is _OUT_OF_RANGE:
                self._behind[key] = followed
            elif code is not _NONE:
                self._wait(key, followed, code, now_ms)
            elif diverging.epoch >= 0 or diverging.end_offset >= 0:
                before = partition.log.log_end_offset
                self._changed[key] = None
                following.truncate(partition, epoch=LeaderEpoch(diverging.epoch), end_offset=Offset(diverging.end_offset))
                logger.info(
                    "The replica of %s here dropped its records from offset %d to %d, which leader %d does not have, and copies "
                    "the leader's", key, partition.log.log_end_offset, before, self.leader,
                )  # fmt: skip
            else:
                if data.records:
                    self._changed[key] = None
                size = following.append(partition, data, now_ms)
                followed.lag = max(0, data.high_watermark - partition.log.log_end_offset)
                if size:
                    self.bytes_count += size
                    self._followed[key] = self._followed.pop(key)
        except KafkaError as error:
            self._wait(key, followed, error.code, now_ms, error.message)

    def _wait(self, key: TopicPartition, followed: Followed, code: ErrorCode, now_ms: int, text: str = "") -> None:
        self._rest(key, followed, now_ms)
        level = logging.DEBUG if code in _QUIET else logging.WARNING
        reason = f"{code.name}: {text}" if text else code.name
        logger.log(level, "%s cannot be copied from leader %d now, which is tried again: %s", key, self.leader, reason)

    def _rest(self, key: TopicPartition, followed: Followed, now_ms: int) -> None:
        """Ask about a partition again after a pause."""
        followed.ready_ms = now_ms + self._config.replica_fetch_backoff_ms
        self._resting[key] = followed
        self._changed.pop(key, None)
        self._session.forget((followed.topic_id, key.partition))

    def _start(self, request: Request, response: Any, now_ms: int) -> None:
        """Begin where the leader's logs begin, if that is behind the end of this broker's, or this broker's have nothing."""
        for topic in response.topics:
            for data in topic.partitions:
                key = TopicPartition(topic.name, data.partition_index)
                followed = request.followed.get(key)
                if followed is None or self._followed.get(key) is not followed or not followed.is_current:
                    continue
                self._behind.pop(key, None)
                self._rest(key, followed, now_ms)  # a log in range by now is asked about later
                if data.error_code:
                    self._wait(key, followed, _code(data.error_code), now_ms)
                    continue
                try:
                    self._start_one(key, followed, Offset(data.offset))
                except KafkaError as error:
                    self._wait(key, followed, error.code, now_ms, error.message)

    def _start_one(self, key: TopicPartition, followed: Followed, log_start_offset: Offset) -> None:
        partition, log = followed.partition, followed.partition.log
        # a log without records or epochs has nothing that the leader could compare, and may end behind an unclean leader's end
        has_nothing = log.log_end_offset == log.log_start_offset and following.last_epoch(partition) < 0
        if log.log_end_offset < log_start_offset or has_nothing:
            logger.info(
                "The replica of %s here copies leader %d from offset %d, where the leader's log begins",
                key,
                self.leader,
                log_start_offset,
            )
            following.start_at(partition, log_start_offset)
            del self._resting[key]
            self._changed[key] = None
        elif log.log_start_offset < log_start_offset <= partition.high_watermark:
            log.increment_log_start_offset(log_start_offset, high_watermark=partition.high_watermark)


def _code(code: int) -> ErrorCode:
    return _CODES.get(code, ErrorCode.UNKNOWN_SERVER_ERROR)


def _starts_wanted(behind: dict[TopicPartition, Followed], broker_id: BrokerId) -> ListOffsetsRequest:
    topics: dict[str, list[ListOffsetsPartition]] = {}
    for (topic, number), one in behind.items():
        asked = ListOffsetsPartition(partition_index=number, current_leader_epoch=one.leader_epoch, timestamp=_EARLIEST)
        topics.setdefault(topic, []).append(asked)
    return ListOffsetsRequest(
        replica_id=broker_id, topics=[ListOffsetsTopic(name=name, partitions=partitions) for name, partitions in topics.items()]
    )
