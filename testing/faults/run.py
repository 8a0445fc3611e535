"""A run: clients work, faults happen one after the other, everything heals, and the clients read it all."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Final

from confluent_kafka import ConsumerGroupTopicPartitions, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from testing.clients.sequences.roles import END, METADATA_AGE_MS
from testing.faults import replicas
from testing.faults.checker import problems
from testing.faults.clients import PARTITIONS, PYTHON_CLIENTS, Clients, Seen, Where

if TYPE_CHECKING:
    from testing.faults.clusters import Cluster
    from testing.faults.faults import Fault

STEP_S: Final = 90
"""The limit of a step. A client that must wait for its own timeouts takes some tens of seconds."""
NUMBERS_PER_STEP: Final = 15


@dataclass(slots=True)
class Result:
    problems: list[str] = field(default_factory=list)
    faults: dict[str, int] = field(default_factory=dict)
    clients: list[Seen] = field(default_factory=list)
    topics: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        faults = ", ".join(f"{count} x {name}" for name, count in self.faults.items())
        lines = [f"{sum(self.faults.values())} faults: {faults}"]
        for one in self.clients:
            ends = {end: list(one.outcomes.values()).count(end) for end in ("committed", "aborted", "unknown")}
            counts = ", ".join(f"{count} {end}" for end, count in ends.items())
            lines.append(f"{one.name}: {one.sent} numbers, {len(one.failed)} failed; transactions: {counts}")
        return "\n".join([*lines, *self.problems])


def kinds_of(random: Random) -> list[str]:
    """Return all clients, with the protocols of their groups drawn."""
    kinds = [*PYTHON_CLIENTS, "java"]
    for index in (0, -1):
        kinds[index] += random.choice(("", "-consumer"))
    return kinds


def run(
    cluster: Cluster,
    kinds: list[str],
    faults: Iterable[Fault],
    random: Random,
    *,
    rate: float = 40,
    note: Callable[[str], None] = lambda _: None,
) -> Result:
    """Let faults happen to a cluster while clients of these kinds work, and return what was seen and what is wrong.

    `rate` is that of each client, in numbers a second. Raises AssertionError if anything takes too long: clients that cannot
    write, replicas that do not come into sync.
    """
    result = Result()
    clients = Clients(kinds, cluster.bootstrap, rate, cluster.folder / "clients")
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 2})
    for created in admin.create_topics([NewTopic(topic, PARTITIONS, 3) for topic in clients.topics]).values():
        created.result(STEP_S)
    try:
        note("clients start")
        clients.start()
        clients.advance(NUMBERS_PER_STEP, STEP_S, "all clients write before the first fault")
        for fault in faults:
            name = fault.__name__
            note(name)
            result.faults[name] = result.faults.get(name, 0) + 1
            fault(cluster, random, partial(clients.advance, NUMBERS_PER_STEP, STEP_S, f"all clients write after {name}"))
            cluster.become_whole()
            time.sleep(2 * METADATA_AGE_MS / 1000)  # in which every client learns that all brokers are live
        note("clients end")
        clients.stop_writing(STEP_S)
        write_ends(cluster.bootstrap, clients.topics)
        result.topics, result.clients = clients.topics, clients.read_all(STEP_S)
        groups = {one.name: committed(cluster.bootstrap, f"{one.name}-group") for one in result.clients}
        result.problems = problems(result.clients, groups)
    finally:
        clients.close()
    replicas.agree(cluster)
    return result


def write_ends(bootstrap: str, topics: Iterable[str]) -> None:
    """Write the last record of each partition."""
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all"})
    for topic in topics:
        for number in range(PARTITIONS):
            producer.produce(topic, END, partition=number)
    assert producer.flush(STEP_S) == 0


def committed(bootstrap: str, group: str) -> dict[Where, int]:
    """Return the committed offsets of a group."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 2})
    found = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])[group].result(STEP_S)
    return {(one.topic, one.partition): one.offset for one in found.topic_partitions}
