"""Measures what an authorizer with 10,000 ACLs adds to a request, in the dispatcher of one process, without a network.

    python -m benchmarks.acls [--acls 10000] [--rounds 5] [--requests 2000]

Each kind of request is handled by a broker without an authorizer and by one whose ACLs are about other topics and other
principals, but for the few that allow the client: half of them are literal, half prefixed. The rounds alternate, and of each
the least time counts. "changed" is a request whose decision is not known yet, as after a change of ACLs.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import time
from pathlib import Path
from typing import Any

from pybroker.config.acl_settings import AUTHORIZERS
from pybroker.metadata.acl_changes import create_acls
from pybroker.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from pybroker.protocol.messages.heartbeat import HeartbeatRequest
from pybroker.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from pybroker.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from pybroker.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from pybroker.security.acl.binding import Acl, AclOperation, PatternType, PermissionType, ResourcePattern, ResourceType
from testing.scenes.api.records import batch_of_values
from testing.scenes.api.whole import Whole, frame_of

CLIENT = "User:client"
TOPIC = "orders"
LIMIT_US = 2.0


def requests() -> dict[str, tuple[Any, int]]:
    records = PartitionProduceData(index=0, records=batch_of_values(b"v" * 100))
    wanted = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=4096)
    offsets = ListOffsetsTopic(name=TOPIC, partitions=[ListOffsetsPartition(partition_index=0, timestamp=-1)])
    return {
        "Fetch": (FetchRequest(max_bytes=4096, session_epoch=-1, topics=[FetchTopic(topic=TOPIC, partitions=[wanted])]), 11),
        "Metadata": (MetadataRequest(topics=[MetadataRequestTopic(name=TOPIC)]), 9),
        "ListOffsets": (ListOffsetsRequest(replica_id=-1, topics=[offsets]), 5),
        "Produce": (
            ProduceRequest(acks=1, timeout_ms=1000, topic_data=[TopicProduceData(name=TOPIC, partition_data=[records])]),
            9,
        ),
        "Heartbeat": (HeartbeatRequest(group_id="readers", generation_id=1, member_id="m"), 3),
    }


def some_acls(count: int) -> list[Acl]:
    def acl(kind: ResourceType, name: str, principal: str, operation: AclOperation, pattern: PatternType) -> Acl:
        return Acl(ResourcePattern(kind, name, pattern), principal, "*", operation, PermissionType.ALLOW)

    others = [
        acl(
            ResourceType.TOPIC,
            f"other-{number}" if number % 2 else TOPIC[: 1 + number % 6],
            f"User:{number}",
            AclOperation.ALL,
            PatternType.LITERAL if number % 2 else PatternType.PREFIXED,
        )
        for number in range(count)
    ]
    own = [acl(ResourceType.TOPIC, TOPIC, CLIENT, AclOperation.ALL, PatternType.LITERAL)]
    return [*others, *own, acl(ResourceType.GROUP, "readers", CLIENT, AclOperation.READ, PatternType.LITERAL)]


async def broker(folder: Path, acls: int) -> Whole:
    settings: dict[str, Any] = {"authorizer_class_name": AUTHORIZERS[0]} if acls else {}
    whole = await Whole(folder, offsets_topic_num_partitions=1, **settings).start()
    await whole.create(TOPIC)
    if acls:
        wanted = some_acls(acls)
        for start in range(0, len(wanted), 5_000):
            await create_acls(whole.controller, wanted[start : start + 5_000])
    whole.connection.principal, whole.connection.peer_host = CLIENT, "10.0.0.1"
    return whole


def time_us(whole: Whole, request: Any, version: int, count: int, *, changed: bool) -> float:
    """Return how long a request takes, in us."""
    frames = [frame_of(request, version) for _ in range(count)]
    handle, connection, authorizer = whole.dispatcher.handle, whole.connection, whole.services.authorizer
    began = time.thread_time_ns()
    for frame in frames:
        if changed and authorizer is not None:
            authorizer.acls = whole.controller.image.acls
        handle(connection, frame)
    return (time.thread_time_ns() - began) / count / 1_000


async def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.acls", description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--acls", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--requests", type=int, default=2_000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        plain = await broker(Path(folder) / "plain", 0)
        guarded = await broker(Path(folder) / "guarded", options.acls)
        for name, (request, version) in requests().items():
            least: dict[str, float] = {}
            for _ in range(options.rounds):
                for kind, whole, changed in (("none", plain, False), ("acls", guarded, False), ("changed", guarded, True)):
                    took = time_us(whole, request, version, options.requests, changed=changed)
                    least[kind] = min(took, least.get(kind, took))
            added = least["acls"] - least["none"]
            print(
                f"{name:12} without {least['none']:6.2f} us, with {options.acls} ACLs {least['acls']:6.2f} us: {added:+.2f} us"
                f" (at most {LIMIT_US}); changed {least['changed'] - least['none']:+.2f} us",
                flush=True,
            )


if __name__ == "__main__":
    asyncio.run(main())
