"""Lets hundreds of members of one group come, leave and die at random; the group must come to rest each time.

    python -m benchmarks.group_soak [--members 500] [--rounds 3] [--seconds 20] [--protocol consumer] [--seed N] [--no-kafka]

In each round, for some seconds a member comes, leaves or dies every `--every` seconds. Then no member does, and the benchmark
measures how long it takes until all members that live are in one generation and own all partitions, each partition once. The
benchmark ends with an error if that state does not come, if a partition has two owners in one generation at any time, or if a
generation comes again. A member dies by breaking off its connection; the broker finds out after the member's session, 6 s.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import time

from benchmarks import peers
from benchmarks.group_members import ClassicMember, ConsumerMember, Fellowship, Member
from benchmarks.peers import Peer
from testing.clients.stock import create_topic
from testing.process import procstat
from testing.wire.raw_groups import find_coordinator

TOPIC = "soaked"
MEMBERS = {"classic": ClassicMember, "consumer": ConsumerMember}
STAY_S = 1.0  # at rest this long
SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "group.max.size": "100000",
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.session.timeout.ms": "6000",
    "group.consumer.min.heartbeat.interval.ms": "500",
    "group.consumer.heartbeat.interval.ms": "1000",
}
KAFKA_SETTINGS = {"group.coordinator.rebalance.protocols": "classic,consumer"}  # 3.9 has the new one off


class Soak:
    """The members of one group on one broker."""

    def __init__(self, peer: Peer, options: argparse.Namespace) -> None:
        self._peer, self._options = peer, options
        self._random = random.Random(options.seed)
        self._fellowship = Fellowship(TOPIC, options.partitions)
        kind = MEMBERS[options.protocol]
        self._members = [
            kind(self._fellowship, peer.bootstrap, "soak", number, beat_s=options.beat) for number in range(options.members)
        ]
        self.counts = {"came": 0, "left": 0, "died": 0}

    @property
    def _living(self) -> list[Member]:
        return [member for member in self._members if member.is_alive]

    async def run(self) -> list[tuple[object, ...]]:
        """Return a row for each round; in the first, all members come at once."""
        rows = [await self._measured("all come", self._all_come())]
        rows += [await self._measured(f"round {number + 1}", self._churn()) for number in range(self._options.rounds)]
        for member in self._living:
            member.die()
        return rows

    async def _measured(self, what: str, change) -> tuple[object, ...]:  # type: ignore[no-untyped-def]  # a coroutine
        cpu_before, generation = procstat.cpu_s(self._peer.pid), self._fellowship.generation
        self.counts = dict.fromkeys(self.counts, 0)
        await change
        began, living = time.monotonic(), self._living
        while True:
            await self._fellowship.rest(living)
            seconds, before = time.monotonic() - began, self._fellowship.generation
            await asyncio.sleep(STAY_S)
            if self._fellowship.is_at_rest(living) and self._fellowship.generation == before:
                break
        row = (
            self._peer.name, what, *self.counts.values(), len(living), self._fellowship.generation - generation, seconds,
            procstat.cpu_s(self._peer.pid) - cpu_before, procstat.memory_bytes(self._peer.pid) / 1e6,
        )  # fmt: skip
        peers.row(row)
        return row

    async def _all_come(self) -> None:
        for member in self._members:
            await self._come(member)

    async def _come(self, member: Member) -> None:
        await member.connect()
        member.start()
        self.counts["came"] += 1

    async def _churn(self) -> None:
        deadline = time.monotonic() + self._options.seconds
        while time.monotonic() < deadline:
            await asyncio.sleep(self._options.every)
            member = self._random.choice(self._members)
            if not member.is_alive:
                await self._come(member)
                continue
            member.raise_error()
            if self._random.random() < 0.5:
                await member.leave()
                self.counts["left"] += 1
            else:
                member.die()
                self.counts["died"] += 1


def main() -> None:
    parser = peers.arguments(__doc__)
    parser.add_argument("--members", type=int, default=500, help="members of the group (default: %(default)s)")
    parser.add_argument("--partitions", type=int, default=1000, help="partitions of the topic (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="rounds of changes (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=20, help="seconds of changes in a round (default: %(default)s)")
    parser.add_argument("--every", type=float, default=0.1, help="seconds between changes")
    parser.add_argument("--beat", type=float, default=1, help="seconds between heartbeats")
    parser.add_argument("--protocol", choices=[*MEMBERS], default="classic", help="the group's protocol (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="seed of the random changes (default: %(default)s)")
    options = peers.parsed(parser)
    rows = []
    with peers.folder(options) as path:
        for name in peers.names(options):
            peer = Peer(name, path / name.split()[-1])
            peer.start(SETTINGS | (KAFKA_SETTINGS if name == peers.KAFKA else {}))
            peers.pin_client()
            try:
                create_topic(peer.bootstrap, TOPIC, options.partitions if options.protocol == "consumer" else 1)
                find_coordinator(peer.bootstrap)
                rows += asyncio.run(Soak(peer, options).run())
            finally:
                peer.close()
    header = ["broker", "what", "came", "left", "died", "live at rest", "generations", "to rest, s", "CPU-s", "RSS, MB"]
    peers.table(f"{options.members} members of one {options.protocol} group, seed {options.seed}", header, rows)


if __name__ == "__main__":
    main()
