"""Faults of links between the brokers, or between them and etcd, which are healed in the end.

Where a leader cannot reach a follower, the coordinator of a transaction cannot reach the leader of one of its partitions, and
the transaction waits: only numbers are demanded then.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from random import Random
from typing import Final

from confluent_kafka.admin import AdminClient

from testing.faults.clients import PYTHON_CLIENTS
from testing.faults.clusters import NUMBERS, TIMEOUT_S, Cluster
from testing.faults.faults import Fault, Work
from testing.faults.network import ETCD, WithLinks, host
from testing.waiting import until


def from_followers(cluster: Cluster, random: Random, work: Work) -> None:
    """Cut a broker off from the others, but not from etcd: what it leads refuses acks=all, and what the others lead continues."""
    with healed(cluster) as links:
        number = random.choice(NUMBERS)
        for other in NUMBERS:
            if other != number:
                links.links.cut_both(host(number), host(other))
        other = next(one for one in NUMBERS if one != number)
        until(lambda: has_shrunk(links.address(other), number), "the in-sync sets have shrunk", TIMEOUT_S)
    work()


def from_etcd(cluster: Cluster, random: Random, work: Work) -> None:
    """Cut a broker off from etcd alone."""
    with healed(cluster) as links:
        links.links.cut_both(host(random.choice(NUMBERS)), ETCD)
        work()


def to_etcd(cluster: Cluster, random: Random, work: Work) -> None:
    """Lose what a broker sends to etcd."""
    with healed(cluster) as links:
        links.links.cut(host(random.choice(NUMBERS)), ETCD)
        work()


def by_etcd(cluster: Cluster, random: Random, work: Work) -> None:
    """Lose the responses of etcd to a broker: its changes may be made, and it does not know."""
    with healed(cluster) as links:
        links.links.cut(ETCD, host(random.choice(NUMBERS)))
        work()


def one_way(cluster: Cluster, random: Random, work: Work) -> None:
    """Lose what one broker sends to another one."""
    with healed(cluster) as links:
        sender, receiver = random.sample(NUMBERS, 2)
        links.links.cut(host(sender), host(receiver))
        third = next(one for one in NUMBERS if one not in {sender, receiver})
        until(lambda: has_shrunk(links.address(third), sender, receiver), "the in-sync sets have shrunk", TIMEOUT_S)
    work()


def from_all(cluster: Cluster, random: Random, work: Work) -> None:
    """Cut a broker off from etcd and from the others."""
    with healed(cluster) as links:
        number = random.choice(NUMBERS)
        for other in (ETCD, *(host(one) for one in NUMBERS if one != number)):
            links.links.cut_both(host(number), other)
        work()


CUTS: Final[tuple[Fault, ...]] = (from_followers, from_etcd, to_etcd, by_etcd, one_way, from_all)


@contextmanager
def healed(cluster: Cluster) -> Iterator[WithLinks]:
    assert isinstance(cluster, WithLinks)
    try:
        yield cluster
    finally:
        cluster.links.heal()


def has_shrunk(address: str, *apart: int) -> bool:
    """Return whether, for a broker, the partitions that these lead, and to which a client always writes, have lost a follower."""
    topic = PYTHON_CLIENTS[0]
    found = AdminClient({"bootstrap.servers": address, "log_level": 2}).list_topics(topic, timeout=TIMEOUT_S)
    partitions = [one for one in found.topics[topic].partitions.values() if one.leader in apart]
    return all(len(one.isrs) < len(NUMBERS) for one in partitions)
