"""A topic can be used as soon as its creation has a response, at every broker that leads a part of it."""

from __future__ import annotations

import random
from pathlib import Path

from pybroker.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from pybroker.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from pybroker.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from pybroker.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from pybroker.tools.admin import Admin
from pybroker.tools.target import Target
from testing.process.several import SeveralBrokers

TOPICS = 60
TIMEOUT_MS = 30_000


def test_every_leader_knows_a_new_topic_and_new_partitions_when_they_are_reported(tmp_path: Path) -> None:
    chosen = random.Random(7)
    with SeveralBrokers(tmp_path, 3) as brokers:
        admins = {number: Admin(Target(one, {})) for number, one in enumerate(brokers.bootstrap.split(","), start=1)}
        refused = []

        def use(name: str, asked: int) -> None:
            """Ask each leader for the end of what it leads."""
            (topic,) = admins[asked].ask(MetadataRequest(topics=[MetadataRequestTopic(name=name)]), 9).topics
            for partition in topic.partitions:
                one = ListOffsetsPartition(partition_index=partition.partition_index, timestamp=-1)
                request = ListOffsetsRequest(topics=[ListOffsetsTopic(name=name, partitions=[one])])
                found = admins[partition.leader_id].ask(request, 5).topics[0].partitions[0]
                if found.error_code:
                    refused.append((name, partition.partition_index, found.error_code))

        for number in range(TOPICS):
            name, asked = f"t{number}", chosen.choice(list(admins))
            new = CreatableTopic(name=name, num_partitions=3, replication_factor=chosen.choice([1, 3]))
            (made,) = admins[asked].ask(CreateTopicsRequest(topics=[new], timeout_ms=TIMEOUT_MS), 7).topics
            assert made.error_code == 0, made.error_message
            use(name, asked)
            more = CreatePartitionsTopic(name=name, count=6, assignments=None)
            (grown,) = admins[asked].ask(CreatePartitionsRequest(topics=[more], timeout_ms=TIMEOUT_MS), 3).results
            assert grown.error_code == 0, grown.error_message
            use(name, asked)
        assert refused == []
        for admin in admins.values():
            admin.__exit__()
