"""kill -9 at random moments while members join and offsets are committed: what was acknowledged is there, and nothing older."""

from __future__ import annotations

import random
import struct
import threading
import time
from collections.abc import Callable

from testing.clients.stock import create_topic
from testing.process.broker import BrokerProcess
from testing.wire import raw
from testing.wire import raw_groups as groups
from testing.wire.raw_groups import Committed, Identity

TOPIC = "crashed"
PARTITIONS = 4
COMMITTERS = 2
BUDGET_S = 20
ROUNDS_MIN = 5  # on the slowest machine
SESSION_MS = 600_000
FENCED_INSTANCE_ID = 82


class Worker:
    """A thread that does one thing after the other on a connection of its own until the broker ends. Each round has a new one."""

    def __init__(self, bootstrap: str) -> None:
        self.count = 0
        self.error: BaseException | None = None
        self._bootstrap = bootstrap
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def join(self) -> None:
        self._thread.join(60)
        assert not self._thread.is_alive()
        if self.error is not None:
            raise self.error

    def step(self, connection: raw.Connection) -> None:
        raise NotImplementedError

    def _run(self) -> None:
        try:
            with raw.Connection(self._bootstrap) as connection:
                while True:
                    self.step(connection)
                    self.count += 1
        except (ConnectionError, struct.error):
            pass  # killed
        except BaseException as error:
            self.error = error


class Offsets:
    """The commits of one group: the last acknowledged offset of each partition, and the one that is under way."""

    def __init__(self, group: str) -> None:
        self.group = group
        self.next = 0
        self.acknowledged: dict[int, int] = {}
        self.under_way: dict[int, int] = {}

    def check(self, connection: raw.Connection) -> None:
        body = groups.fetch_offsets_body(self.group, TOPIC, range(PARTITIONS))
        error, found = groups.parse_fetch_offsets(groups.call(connection, groups.OFFSET_FETCH, body))
        assert error == 0
        for partition, committed in found.items():
            acknowledged = self.acknowledged.get(partition, -1)
            assert committed.offset in (acknowledged, self.under_way.get(partition, acknowledged)), (self.group, partition)
            assert committed.metadata == (f"text {committed.offset}" if committed.offset >= 0 else "")
            self.acknowledged[partition] = committed.offset  # what was under way may have arrived: then it stays
        self.under_way.clear()


class Committer(Worker):
    def __init__(self, bootstrap: str, offsets: Offsets) -> None:
        super().__init__(bootstrap)
        self._offsets = offsets

    def step(self, connection: raw.Connection) -> None:
        offsets, number = self._offsets, self._offsets.next
        offsets.next += 1
        partitions = [p for p in range(PARTITIONS) if (number >> p) & 1] or [0]
        offsets.under_way = dict.fromkeys(partitions, number)
        body = groups.commit_body(
            Identity(offsets.group), TOPIC, {partition: Committed(number, f"text {number}") for partition in partitions}
        )
        assert not any(groups.parse_commit(groups.call(connection, groups.OFFSET_COMMIT, body)))
        offsets.acknowledged |= offsets.under_way
        offsets.under_way = {}


class Joiner(Worker):
    """A static member that starts again and again: in a group that exists, the response promises the member's new id."""

    def __init__(self, bootstrap: str, members: dict[str, Identity], fenced: list[Identity]) -> None:
        super().__init__(bootstrap)
        self._members, self._fenced = members, fenced

    def step(self, connection: raw.Connection) -> None:
        group = f"static{self.count % 3}" if self.count % 4 else f"new{len(self._members)}"
        identity = groups.join_alone(connection, group, session_ms=SESSION_MS, instance="i")
        if (before := self._members.get(group)) is not None:
            assert identity.generation >= before.generation
            self._fenced.append(before)
        self._members[group] = identity


def check_members(connection: raw.Connection, members: dict[str, Identity], fenced: list[Identity]) -> None:
    """Check the members.

    The one join that was under way may have arrived, too. Then its group knows the instance by an id that no client got.
    """
    replaced = []
    for identity in members.values():
        error = groups.parse_heartbeat(groups.call(connection, groups.HEARTBEAT, groups.heartbeat_body(identity)))
        assert error in (0, FENCED_INSTANCE_ID), (identity, error)
        replaced += [identity] if error else []
    assert len(replaced) <= 1, replaced
    for identity in replaced:
        del members[identity.group]  # until it joins again, which may be rounds later
    for identity in fenced:
        error = groups.parse_heartbeat(groups.call(connection, groups.HEARTBEAT, groups.heartbeat_body(identity)))
        assert error == FENCED_INSTANCE_ID, (identity, error)
    fenced.clear()


def test_what_was_acknowledged_survives_kills(start_broker: Callable[..., BrokerProcess]) -> None:
    rng = random.Random(9)
    broker = start_broker({"offsets.topic.segment.bytes": "100000", "offsets.topic.num.partitions": "4"})
    create_topic(broker.bootstrap, TOPIC, PARTITIONS)
    committed = [Offsets(f"g{number}") for number in range(COMMITTERS)]
    members: dict[str, Identity] = {}
    fenced: list[Identity] = []
    rounds, counts, deadline = 0, [0, 0], time.monotonic() + BUDGET_S
    while rounds < ROUNDS_MIN or time.monotonic() < deadline:
        groups.find_coordinator(broker.bootstrap, "g0")
        for group in [*(one.group for one in committed), *members]:
            groups.find_coordinator(broker.bootstrap, group)
        with raw.Connection(broker.bootstrap) as connection:
            for one in committed:
                one.check(connection)
            check_members(connection, members, fenced)
        workers = [*(Committer(broker.bootstrap, one) for one in committed), Joiner(broker.bootstrap, members, fenced)]
        for worker in workers:
            worker.start()
        time.sleep(rng.random() * 0.5)  # a random moment, not an event that a test waits for
        broker.kill()
        for worker in workers:
            worker.join()
        counts[0] += sum(worker.count for worker in workers[:-1])
        counts[1] += workers[-1].count
        rounds += 1
        broker.start()
    assert counts[0] > 10 * rounds, "commits were acknowledged"
    assert counts[1] > rounds, "members joined"
