"""Copies this broker's partitions from their leaders: follows the image, and moves the fetchers.

There are `num.replica.fetchers` fetchers for each leader, each with a connection of its own and one request under way.

Source: ReplicaFetcherManager, AbstractFetcherManager, ReplicaManager.applyLocalFollowersDelta.
"""

from __future__ import annotations

import asyncio
import logging
import zlib
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from pybroker.metadata.members import NO_BROKER_EPOCH
from pybroker.model import BrokerId, TopicPartition
from pybroker.replication.fetcher.fetcher import Followed, ReplicaFetcher, Request
from pybroker.sharing.loop import in_slices

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from pybroker.broker.periodic import Periodic
    from pybroker.clock import Clock
    from pybroker.config.broker import BrokerConfig
    from pybroker.metadata.control import ClusterControl
    from pybroker.metadata.controller import Controller
    from pybroker.metadata.image import ClusterImage, ImageDelta, TopicImage
    from pybroker.replication.peers import Peers
    from pybroker.replication.replica_manager import ReplicaManager

logger = logging.getLogger(__name__)

_Place = tuple[BrokerId, int]
GATHERING_MS: Final = 2
"""For how long added partitions are gathered before a request that waits is given up for them."""


def replicate(
    control: ClusterControl, controller: Controller, replicas: ReplicaManager, peers: Peers, periodic: Periodic
) -> Replication:
    """Begin to copy from other brokers, and to keep the ISRs of what this broker leads."""
    config = controller.config
    replicas.cluster.alter_isr, replicas.cluster.give_up = control.alter_isr, control.give_up
    control.step_down, control.lead_again = replicas.step_down, replicas.lead_again
    replication = Replication(replicas, peers, lambda: controller.config, controller.image)
    controller.subscribe(replication.follow)
    periodic.every(max(config.replica_lag_time_max_ms // 2, 1), lambda: in_slices(replicas.check_isr()))
    replication.start()
    return replication


class Replication:
    """The fetchers of a broker. `follow` is a listener of the image, after that of the replicas. Belongs to the loop.

    It owns `peers`, the connections to the other brokers.
    """

    def __init__(self, replicas: ReplicaManager, peers: Peers, config: Callable[[], BrokerConfig], image: ClusterImage) -> None:
        self._replicas, self.peers, self._config, self._clock = replicas, peers, config, replicas.clock
        self._image = image
        self._fetchers: dict[_Place, _Moving] = {}
        self._places: dict[TopicPartition, _Place] = {}

    def start(self) -> None:
        """Begin to copy."""
        for _ in self._assign(self._image.topics.values()):
            pass

    def stop(self) -> None:
        """Copy nothing any more, and end the connections to other brokers."""
        for moving in self._fetchers.values():
            moving.stop()
        self.peers.close()

    def follow(self, _old: ClusterImage, new: ClusterImage, delta: ImageDelta) -> Iterator[None] | None:
        """Copy what the image has this broker copy from now on."""
        self._image = new
        removed = [TopicPartition(topic.name, n) for topic in delta.removed for n in range(len(topic.partitions))]
        if delta.brokers_changed:
            return self._followed(removed, new.topics.values())
        if removed or delta.added or delta.changed:
            return self._followed(removed, [*delta.added, *(topic for _, topic in delta.changed)])
        return None

    def look_again(self) -> None:
        """Take notice that volumes have become full, or have room again."""
        for moving in self._fetchers.values():
            moving.fetcher.look_again()

    @property
    def lags(self) -> Iterator[tuple[TopicPartition, BrokerId, int]]:
        """Return how many records each copied partition is behind its leader."""
        for (leader, _), moving in list(self._fetchers.items()):  # the metrics are read in a thread
            for topic_partition, followed in list(moving.fetcher):
                yield topic_partition, leader, followed.lag

    @property
    def bytes_count(self) -> int:
        """The bytes that were copied since the start."""
        return sum(moving.fetcher.bytes_count for moving in list(self._fetchers.values()))

    def _followed(self, removed: Iterable[TopicPartition], topics: Iterable[TopicImage]) -> Iterator[None]:
        for topic_partition in removed:
            self._drop(topic_partition)
        yield from self._assign(topics)

    def _assign(self, topics: Iterable[TopicImage]) -> Iterator[None]:
        """Give each partition to the fetcher of its leader."""
        for topic in tuple(topics):
            for number, image in enumerate(topic.partitions):
                if len(image.replicas) > 1:
                    topic_partition = TopicPartition(topic.name, number)
                    partition = self._replicas.partitions.get(topic_partition)
                    if partition is None or partition.is_leader or image.leader not in self._image.brokers:
                        self._drop(topic_partition)
                    elif image.leader != self._image.broker_id:
                        self._copy(topic_partition, Followed(partition, topic.topic_id, image.leader_epoch), image.leader)
            yield

    def _copy(self, topic_partition: TopicPartition, followed: Followed, leader: BrokerId) -> None:
        config = self._config()
        place = leader, zlib.crc32(str(topic_partition).encode()) % config.num_replica_fetchers
        if self._places.get(topic_partition) != place:
            self._drop(topic_partition)
            self._places[topic_partition] = place
        moving = self._fetchers.get(place)
        if moving is None:
            moving = self._fetchers[place] = _Moving(
                ReplicaFetcher(leader, broker_id=self._image.broker_id, broker_epoch=self._broker_epoch, config=config),
                self.peers, self._clock, lane=f"fetcher-{place[1]}", timeout_ms=config.replica_socket_timeout_ms,
            )  # fmt: skip
        moving.add(topic_partition, followed)

    def _drop(self, topic_partition: TopicPartition) -> None:
        place = self._places.pop(topic_partition, None)
        if place is not None:
            self._fetchers[place].fetcher.remove(topic_partition)

    def _broker_epoch(self) -> int:
        broker = self._image.brokers.get(self._image.broker_id)
        return NO_BROKER_EPOCH if broker is None else broker.epoch


class _Moving:
    """A fetcher and its connections: one request after the other, as long as there is anything to copy.

    A request that waits for records does not hold up partitions that this leader has just begun to lead: it is given up, and the
    next one goes out on the other lane. So an election costs no follower the time of a wait.
    """

    def __init__(self, fetcher: ReplicaFetcher, peers: Peers, clock: Clock, *, lane: str, timeout_ms: int) -> None:
        self.fetcher = fetcher
        self._peers, self._clock, self._lane, self._timeout_ms = peers, clock, lane, timeout_ms
        self._timer: asyncio.TimerHandle | None = None
        self._adding: asyncio.TimerHandle | None = None
        self._number = 0  # of the request under way; one that was given up has another
        self._is_waiting = self._is_handling = self._is_stopped = False

    def add(self, topic_partition: TopicPartition, followed: Followed) -> None:
        """Copy a partition, from the next request on."""
        if self.fetcher.add(topic_partition, followed) and self._adding is None:
            self._adding = asyncio.get_running_loop().call_later(GATHERING_MS / 1000, self._added)

    def stop(self) -> None:
        """Send nothing any more."""
        self._is_stopped = True
        for timer in (self._timer, self._adding):
            if timer is not None:
                timer.cancel()

    def _added(self) -> None:
        self._adding = None
        if self._is_waiting:
            self._number += 1
            self._is_waiting = False
            self.fetcher.give_up()
        self._next()

    def _next(self) -> None:
        """Send the next request if it is due, or wait until it is."""
        if self._is_stopped or self._is_waiting or self._is_handling:
            return
        if self._timer is not None:
            self._timer.cancel()
        now_ms = self._clock.monotonic_ms()
        due_ms = self.fetcher.next_ms(now_ms)
        if due_ms is None:
            return
        request = self.fetcher.request(now_ms) if due_ms <= now_ms else None
        if request is None:
            self._timer = asyncio.get_running_loop().call_later(max(1, due_ms - now_ms) / 1000, self._next)
            return
        self._is_waiting = True
        done = partial(self._responded, request, self._number)
        lane = f"{self._lane}.{self._number % 2}"
        self._peers.send(self.fetcher.leader, request.message, done, lane=lane, timeout_ms=self._timeout_ms)

    def _responded(self, request: Request, number: int, response: Any | None) -> None:
        if self._is_stopped or number != self._number:
            return
        self._is_waiting, self._is_handling = False, True
        try:
            handled = in_slices(self.fetcher.handle(request, response, self._clock.monotonic_ms))
        except Exception as error:
            self._failed(error)
        else:
            if isinstance(handled, asyncio.Future):
                handled.add_done_callback(self._handled)
                return
        self._is_handling = False
        self._next()

    def _handled(self, done: asyncio.Future[None]) -> None:
        if not done.cancelled() and (error := done.exception()) is not None:
            self._failed(error)
        self._is_handling = False
        self._next()

    def _failed(self, error: BaseException) -> None:
        logger.error("A response of leader %d could not be followed, which is a bug", self.fetcher.leader, exc_info=error)
        self.fetcher.wait(self._clock.monotonic_ms())
