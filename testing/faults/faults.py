"""Faults of a run: a seed draws them, and each ends healed.

A fault calls `work` while it lasts, where the others must be able to continue: that returns when every client has written to
every partition, and most have ended a transaction, meanwhile.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import Final

from testing.faults.clusters import NUMBERS, Cluster, WithEtcd

Work = Callable[[], None]
SHORT_PAUSE_S: Final = 0.7
"""Less than a broker's session."""


def kill(cluster: Cluster, random: Random, work: Work) -> None:
    """Kill a broker."""
    number = random.choice(NUMBERS)
    cluster.kill(number)
    work()
    cluster.start(number)


def kill_two(cluster: Cluster, random: Random, work: Work) -> None:
    """Kill two brokers, so that no partition has two replicas, and start them again."""
    numbers = random.sample(NUMBERS, 2)
    for number in numbers:
        cluster.kill(number)
    cluster.start(*numbers)
    work()


def kill_two_one_comes_back(cluster: Cluster, random: Random, work: Work) -> None:
    """Kill two brokers one after the other, and work with one of them."""
    first, second = random.sample(NUMBERS, 2)
    cluster.kill(first)
    cluster.kill(second)
    cluster.start(first)
    work()
    cluster.start(second)


def pause(cluster: Cluster, random: Random, work: Work) -> None:
    """Pause a broker until its session has ended and others lead."""
    number = random.choice(NUMBERS)
    cluster.pause(number)
    try:
        work()
    finally:
        cluster.resume(number)


def pause_shortly(cluster: Cluster, random: Random, work: Work) -> None:
    """Pause a broker for less than its session."""
    number = random.choice(NUMBERS)
    cluster.pause(number)
    time.sleep(SHORT_PAUSE_S)  # nothing happens meanwhile that could be waited for
    cluster.resume(number)
    work()


def stop(cluster: Cluster, random: Random, work: Work) -> None:
    """Stop a broker as for a restart."""
    assert isinstance(cluster, WithEtcd)
    number = random.choice(NUMBERS)
    cluster.stop_one(number)
    work()
    cluster.start(number)


def kill_etcd_leader(cluster: Cluster, random: Random, work: Work) -> None:
    """Kill the member that leads etcd."""
    assert isinstance(cluster, WithEtcd)
    member = cluster.etcd_leader()
    member.kill()
    work()
    cluster.etcd.start(member)


def kill_etcd_leader_and_broker(cluster: Cluster, random: Random, work: Work) -> None:
    """Kill the member that leads etcd, and a broker."""
    assert isinstance(cluster, WithEtcd)
    number, member = random.choice(NUMBERS), cluster.etcd_leader()
    member.kill()
    cluster.kill(number)
    work()
    cluster.etcd.start(member)
    cluster.start(number)


def pause_etcd_leader(cluster: Cluster, random: Random, work: Work) -> None:
    """Pause the member that leads etcd."""
    assert isinstance(cluster, WithEtcd)
    member = cluster.etcd_leader()
    member.signal(signal.SIGSTOP)
    try:
        work()
    finally:
        member.signal(signal.SIGCONT)


Fault = Callable[[Cluster, Random, Work], None]
EVERYWHERE: Final[tuple[Fault, ...]] = (kill, kill_two, kill_two_one_comes_back, pause, pause_shortly)
WITH_ETCD: Final[tuple[Fault, ...]] = (*EVERYWHERE, stop, kill_etcd_leader, kill_etcd_leader_and_broker, pause_etcd_leader)


def drawn(kinds: Sequence[Fault], random: Random) -> Iterator[Fault]:
    """Yield faults without end. Each kind comes once before any comes again."""
    while True:
        shuffled = list(kinds)
        random.shuffle(shuffled)
        yield from shuffled
