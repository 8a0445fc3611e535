"""Messages are freed without what belongs to something else."""

from __future__ import annotations

from typing import Any

import pytest

from pybroker.protocol.codec import decode, dissolve, encode
from pybroker.protocol.messages.metadata import MetadataResponse, MetadataResponsePartition, MetadataResponseTopic
from testing.scenes.messages import CLASSES, full, versions_of


def metadata(*topics: MetadataResponseTopic) -> MetadataResponse:
    return MetadataResponse(topics=[*topics])


def topic(*partitions: MetadataResponsePartition) -> MetadataResponseTopic:
    return MetadataResponseTopic(name="t", partitions=[*partitions])


def test_what_belongs_to_something_else_stays_as_it_is() -> None:
    replicas = [1, 2, 3]
    partition = MetadataResponsePartition(partition_index=7, replica_nodes=replicas, isr_nodes=[4])
    kept, listed = topic(partition), topic(MetadataResponsePartition())
    partitions = listed.partitions
    held = [metadata(topic(partition), kept, listed, topic())]
    del listed
    dissolve(held, 12)
    assert (held, replicas, partition.replica_nodes, partition.isr_nodes) == ([], [1, 2, 3], replicas, [4])
    assert (kept.name, kept.partitions, len(partitions)) == ("t", [partition], 1)


def test_a_message_that_is_kept_is_left_alone() -> None:
    message = metadata(topic(MetadataResponsePartition(isr_nodes=[1])))
    dissolve([message], 12)
    assert message.topics[0].partitions[0].isr_nodes == [1]


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_every_message_can_be_freed(cls: type[Any]) -> None:
    for version in versions_of(cls):
        held = [full(cls, version)]
        dissolve(held, version)
        assert held == []
        decoded = decode(cls, version, memoryview(b"".join(encode(full(cls, version), version))))  # type: ignore[arg-type]
        held = [decoded]
        del decoded
        dissolve(held, version)
        assert held == []
