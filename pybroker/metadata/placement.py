"""Chooses the brokers of the replicas of a new topic.

Rules
    Leaders are on the live brokers in turn, from a random start, so that topics with one partition are not all on one broker. The
    replicas of a partition are spread over the racks, also in turn. A broker never has two replicas of one partition.
    A broker that is not live gets replicas only where its rack has no live broker left, and never as the first one. A broker that
    stops gets none.
    After as many partitions as there are live brokers, the order is drawn again. So when a broker dies, its leaders move to all
    the others, and not to its neighbour.

Example
    Brokers 1, 2, 3, drawn order 2, 3, 1, 3 partitions, 2 replicas: [2, 3], [3, 1], [1, 2].

Source: StripedReplicaPlacer, ClusterControlManager.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from pybroker.protocol.error_codes import ErrorCode, KafkaError

if TYPE_CHECKING:
    from random import Random

    from pybroker.metadata.members import BrokerRegistration
    from pybroker.model import BrokerId


def place_replicas(
    registered: Mapping[BrokerId, BrokerRegistration], *, partition_count: int, replication_factor: int, random: Random
) -> list[tuple[BrokerId, ...]]:
    """Return the replicas of each partition, the preferred leader first. Raises INVALID_REPLICATION_FACTOR with too few
    brokers, or with none that is live.
    """
    usable = [one for _, one in sorted(registered.items()) if not one.is_stopping]
    if replication_factor > len(usable):
        raise _refusal(
            replication_factor,
            f"The target replication factor of {replication_factor} cannot be reached because only {len(usable)} broker(s) are "
            "registered.",
        )
    live_count = sum(one.is_live for one in usable)
    if not live_count:
        raise _refusal(replication_factor, "All brokers are currently fenced or in controlled shutdown.")
    if len(usable) == 1:
        return [(usable[0].broker_id,)] * partition_count
    racks = _Racks(usable, random)
    placed: list[tuple[BrokerId, ...]] = []
    while len(placed) < partition_count:
        if placed:
            racks.draw()
        placed += [racks.place(replication_factor, turn=turn) for turn in range(min(live_count, partition_count - len(placed)))]
    return placed


def _refusal(replication_factor: int, reason: str) -> KafkaError:
    text = f"Unable to replicate the partition {replication_factor} time(s): {reason}"
    return KafkaError(ErrorCode.INVALID_REPLICATION_FACTOR, text)


class _Turns:
    """Brokers of a rack in an order. Each turn begins with the next one, and takes each broker once."""

    __slots__ = ("_first", "_taken", "_turn", "brokers")

    def __init__(self) -> None:
        self.brokers: list[BrokerId] = []
        self._first, self._taken, self._turn = -1, 0, -1

    def next(self, turn: int) -> BrokerId | None:
        """Return the next broker of the turn; None when it has no more."""
        brokers = self.brokers
        if turn != self._turn and brokers:
            self._first, self._taken, self._turn = (self._first + 1) % len(brokers), 0, turn
        if self._taken == len(brokers) or turn != self._turn:
            return None
        self._taken += 1
        return brokers[(self._first + self._taken - 1) % len(brokers)]

    def draw(self, random: Random) -> None:
        """Draw another order, and begin again."""
        random.shuffle(self.brokers)
        self._first, self._turn = -1, -1


class _Racks:
    """The brokers by their racks: of each, those that are live, and the others. Brokers without a rack are one rack."""

    __slots__ = ("_offset", "_racks", "_random")

    def __init__(self, brokers: list[BrokerRegistration], random: Random) -> None:
        by_name: dict[str, tuple[_Turns, _Turns]] = {}
        for broker in brokers:
            live, away = by_name.setdefault(broker.rack or "", (_Turns(), _Turns()))
            (live if broker.is_live else away).brokers.append(broker.broker_id)
        self._racks, self._random = [by_name[name] for name in sorted(by_name)], random
        self._offset = random.randrange(len(self._racks))
        self.draw()

    def draw(self) -> None:
        """Draw another order of the racks and of the brokers in them."""
        self._random.shuffle(self._racks)
        for kinds in self._racks:
            for one in kinds:
                one.draw(self._random)

    def place(self, replication_factor: int, *, turn: int) -> tuple[BrokerId, ...]:
        """Return the replicas of one partition: the first rack that has a live broker has the leader, the next racks follow."""
        racks, count = self._racks, len(self._racks)
        first = index = self._offset
        self._offset = (self._offset + 1) % count
        while (leader := racks[first][0].next(turn)) is None:
            first = (first + 1) % count
        replicas, skipped = [leader], first
        while len(replicas) < replication_factor:
            if index == skipped:
                skipped = -1  # it has the leader; after one round it is a rack like the others
            else:
                live, away = racks[index]
                broker = live.next(turn)
                broker = away.next(turn) if broker is None else broker
                if broker is not None:
                    replicas.append(broker)
            index = (index + 1) % count
        return tuple(replicas)
