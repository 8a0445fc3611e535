"""Measures what groups cost: heartbeats, commits and fetches of offsets, the joining of many members, and loading at the start.

    python -m benchmarks.groups requests [--rounds 3] [--seconds 2] [--warm 12] [--only commit] [--no-kafka]
    python -m benchmarks.groups join [--members 100] [--rounds 5] [--no-kafka]
    python -m benchmarks.groups loading [--offsets 1000000] [--per-request 100] [--rounds 3] [--no-kafka]

`requests` measures as `small_requests` does: one generator sends the same bytes to both brokers, both are warm, and they take
turns. All connections speak for one member, whose session the heartbeats and commits prolong.

`join`: in each round all members of a new group send their first JoinGroup at once, each on its own connection, and continue as
clients do, with a heartbeat every 0.1 s. The time is from then until all have their assignment in one generation. The initial
delay is 0 for both brokers, so that other generations follow that of the first member.

`loading`: groups commit 100 partitions each, `--per-request` in a request; then the broker stops and starts again. The times are
from the process's start, and from its first response to Metadata, until a client can fetch the last group's offsets.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import time

from benchmarks import load, peers
from benchmarks.group_members import ClassicMember, Fellowship
from benchmarks.peers import Peer
from testing.clients.stock import create_topic
from testing.process import procstat
from testing.wire import raw
from testing.wire import raw_groups as groups
from testing.wire.raw_groups import Committed, Identity

TOPIC = "committed"
PARTITIONS = 100
SESSION_MS = 30 * 60_000  # the most that is allowed: the member must not die while another request is measured
SETTLE_S = 0.3
SHAPES = ((1, 1), (1, 64), (50, 1), (50, 16))  # connections, requests under way on each
NO_DELAY = {"group.initial.rebalance.delay.ms": "0"}
IN_FLIGHT = 20  # commits under way while offsets are written
ASK_S = 0.005
BEAT_S = 0.1


# --- Requests -------------------------------------------------------------------------------------------------------------------


def frames(bootstrap: str) -> dict[str, bytes]:
    """Return frames by what they ask for."""
    create_topic(bootstrap, TOPIC, PARTITIONS)
    groups.find_coordinator(bootstrap, "g")
    with raw.Connection(bootstrap) as connection:
        identity = groups.join_alone(connection, "g", session_ms=SESSION_MS)
        offsets = {partition: Committed(1_000_000 + partition, "") for partition in range(12)}
        assert not any(
            groups.parse_commit(groups.call(connection, groups.OFFSET_COMMIT, groups.commit_body(identity, TOPIC, offsets)))
        )
    one = {0: offsets[0]}

    def frame(key: int, body: bytes) -> bytes:
        return raw.request(key, groups.VERSIONS[key], body)

    return {
        "Heartbeat v3": frame(groups.HEARTBEAT, groups.heartbeat_body(identity)),
        "OffsetCommit v7, 1 partition": frame(groups.OFFSET_COMMIT, groups.commit_body(identity, TOPIC, one)),
        "OffsetCommit v7, 12 partitions": frame(groups.OFFSET_COMMIT, groups.commit_body(identity, TOPIC, offsets)),
        "OffsetFetch v5, 1 partition": frame(groups.OFFSET_FETCH, groups.fetch_offsets_body("g", TOPIC, one)),
        "OffsetFetch v5, 12 partitions": frame(groups.OFFSET_FETCH, groups.fetch_offsets_body("g", TOPIC, offsets)),
    }


def median_load(
    running: list[Peer], same: dict[str, bytes], shape: tuple[int, int], options: argparse.Namespace
) -> list[load.Load]:
    """Return the round with the median cost of each broker; the brokers take turns."""
    rounds: dict[str, list[load.Load]] = {peer.name: [] for peer in running}
    for _ in range(options.rounds):
        for peer in running:
            one = load.run(peer, same[peer.name], connections=shape[0], depth=shape[1], seconds=options.seconds, warm_s=SETTLE_S)
            rounds[peer.name].append(one)
    return [sorted(rounds[peer.name], key=lambda one: one.cpu_us)[options.rounds // 2] for peer in running]


def requests(options: argparse.Namespace) -> None:
    rows = []
    with peers.started(options, NO_DELAY) as running:
        by_peer = {peer.name: frames(peer.bootstrap) for peer in running}
        for request in by_peer[running[0].name]:
            if options.only.lower() not in request.lower():
                continue
            same = {peer.name: by_peer[peer.name][request] for peer in running}
            warm_s = options.warm
            for shape in SHAPES:
                for peer in running:
                    load.run(peer, same[peer.name], connections=shape[0], depth=max(shape[1], 16), seconds=0, warm_s=warm_s)
                warm_s = options.warm / 4
                measured = median_load(running, same, shape, options)
                costs = [max(one.cpu_us, 0.1) for one in measured]  # a busy machine may leave a broker no time at all
                ratio = [costs[1] / costs[0]] if len(costs) == 2 else []
                rows.append((request, *shape, *(f"{1e6 / cost:.0f}" for cost in costs), *ratio))
                peers.row(rows[-1])
    ratio_name = ["ours / Kafka's"] if len(running) == 2 else []
    header = ["request", "connections", "under way on each", *(f"{peer.name}, 1/CPU-s" for peer in running), *ratio_name]
    peers.table("Requests per CPU-second of the broker", header, rows)


# --- Joining --------------------------------------------------------------------------------------------------------------------


async def join_once(peer: Peer, group: str, count: int) -> tuple[float, float, int]:
    """Let a group join; return seconds and broker CPU seconds until all are Stable, and the generation in which that is."""
    fellowship = Fellowship(TOPIC, PARTITIONS)
    members = [ClassicMember(fellowship, peer.bootstrap, group, n, beat_s=BEAT_S) for n in range(count)]
    for member in members:
        await member.connect()
    began, cpu_before = time.monotonic(), procstat.cpu_s(peer.pid)
    for member in members:
        member.start()
    await fellowship.rest(members)
    seconds, cpu_s = time.monotonic() - began, procstat.cpu_s(peer.pid) - cpu_before
    generation = members[0].generation
    for member in members:  # and none leaves, because a member that leaves makes all others join again
        member.die()
    return seconds, cpu_s, generation


def join(options: argparse.Namespace) -> None:
    rows = []
    with peers.started(options, NO_DELAY) as running:
        peers.pin_client()
        for peer in running:
            create_topic(peer.bootstrap, TOPIC, PARTITIONS)
            groups.find_coordinator(peer.bootstrap)
        outcomes: dict[str, list[tuple[float, float, int]]] = {peer.name: [] for peer in running}
        for number in range(options.rounds + 2):  # two to warm up
            for peer in running:
                outcomes[peer.name].append(asyncio.run(join_once(peer, f"join{number}", options.members)))
                peers.row((peer.name, *outcomes[peer.name][-1]))
        rows = [(name, *map(statistics.median, zip(*measured[2:], strict=True))) for name, measured in outcomes.items()]
    header = ["broker", "seconds until all are Stable", "broker CPU-s", "generation then"]
    peers.table(f"Join of {options.members} members, medians of {options.rounds}", header, rows)


# --- Loading --------------------------------------------------------------------------------------------------------------------


def write_offsets(peer: Peer, count: int, per_request: int) -> list[str]:
    """Commit `count` offsets, by groups of `PARTITIONS` each; return the groups."""
    names = [f"group-{number}" for number in range(count // PARTITIONS)]
    under_way: list[int] = []
    with raw.Connection(peer.bootstrap) as connection:

        def finish() -> None:
            assert not any(groups.parse_commit(connection.receive(under_way.pop(0))))

        for first in range(0, PARTITIONS, per_request):
            offsets = {partition: Committed(1_000_000 + partition, "") for partition in range(first, first + per_request)}
            for name in names:
                body = groups.commit_body(Identity(name), TOPIC, offsets)
                under_way.append(connection.send(groups.OFFSET_COMMIT, groups.VERSIONS[groups.OFFSET_COMMIT], body))
                if len(under_way) > IN_FLIGHT:
                    finish()
        while under_way:
            finish()
    return names


def wait_until_loaded(peer: Peer, names: list[str]) -> None:
    """Ask until the broker returns the offsets of every group."""
    with raw.Connection(peer.bootstrap) as connection:
        for name in names:
            body = groups.fetch_offsets_body(name, TOPIC, range(PARTITIONS))
            while True:
                error, found = groups.parse_fetch_offsets(groups.call(connection, groups.OFFSET_FETCH, body))
                if not error:
                    break
                assert error in groups.COME_AGAIN, error
                time.sleep(ASK_S)
            assert {number: committed.offset for number, committed in found.items()} == {
                number: 1_000_000 + number for number in range(PARTITIONS)
            }


def one_of_each_partition(names: list[str], partition_count: int = 50) -> list[str]:
    """Return a group in each partition of the topic of offsets, by Java's hash."""
    chosen: dict[int, str] = {}
    for name in names:
        value = 0
        for letter in name.encode():
            value = (value * 31 + letter) & 0xFFFF_FFFF
        signed = value - (1 << 32) if value >> 31 else value
        chosen.setdefault(abs(signed) % partition_count, name)
    return list(chosen.values())


def loading(options: argparse.Namespace) -> None:
    rows = []
    with peers.folder(options) as path:
        for name in peers.names(options):
            peer = Peer(name, path / name.split()[-1], heap="2G")
            peer.start()
            measured = []
            try:
                create_topic(peer.bootstrap, TOPIC, PARTITIONS)
                groups.find_coordinator(peer.bootstrap)
                began, cpu_before = time.monotonic(), procstat.cpu_s(peer.pid)
                names = write_offsets(peer, options.offsets, options.per_request)
                print(f"{name}: written in {time.monotonic() - began:.1f} s", flush=True)
                written_cpu_s = procstat.cpu_s(peer.pid) - cpu_before
                asked = one_of_each_partition(names)
                for _ in range(options.rounds):
                    peer.close()
                    began = time.monotonic()
                    peer.start()
                    wait_until_loaded(peer, asked)
                    seconds, cpu_s = time.monotonic() - began, procstat.cpu_s(peer.pid)
                    memory = procstat.memory_bytes(peer.pid) / 1e6
                    measured.append((seconds, seconds - peer.start_s, cpu_s, memory))
                    peers.row((name, *measured[-1]))
                wait_until_loaded(peer, names)  # all are what they should be
            finally:
                peer.close()
            rows.append((name, *map(statistics.median, zip(*measured, strict=True)), written_cpu_s))
    header = [
        "broker",
        "start to all loaded, s",
        "of this after Metadata, s",
        "CPU-s until loaded",
        "RSS, MB",
        "CPU-s to write them",
    ]
    peers.table(f"{options.offsets} committed offsets, medians of {options.rounds}", header, rows)


def main() -> None:
    parser = peers.arguments(__doc__)
    parser.add_argument("what", choices=["requests", "join", "loading"], help="what to measure")
    parser.add_argument("--rounds", type=int, default=3, help="rounds, of which the median counts (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=2, help="with `requests`, seconds of a round (default: %(default)s)")
    parser.add_argument(
        "--warm", type=float, default=12, help="with `requests`, seconds that warm each broker up (default: %(default)s)"
    )
    parser.add_argument("--only", default="", help="with `requests`, take only those with this in their names")
    parser.add_argument("--members", type=int, default=100, help="with `join`, members of a group (default: %(default)s)")
    parser.add_argument("--offsets", type=int, default=1_000_000, help="with `loading`, offsets to commit (default: %(default)s)")
    parser.add_argument(
        "--per-request", type=int, default=PARTITIONS, help="with `loading`, offsets in a commit (default: %(default)s)"
    )
    options = peers.parsed(parser)
    {"requests": requests, "join": join, "loading": loading}[options.what](options)


if __name__ == "__main__":
    main()
