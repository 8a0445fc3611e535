"""A declaration gives its class constructors, defaults and equality."""

from __future__ import annotations

from typing import cast

import pytest

from pybroker.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchPartition,
    FetchResponse,
    LeaderIdAndEpoch,
    PartitionData,
)
from pybroker.protocol.messages.metadata import MetadataResponsePartition
from pybroker.protocol.schema import NO_VERSIONS, VERSION_MAX, Versions, schema_of
from testing.scenes.messages import CLASSES, full


@pytest.mark.parametrize(
    ("text", "lowest", "highest"), [("0-13", 0, 13), ("3+", 3, VERSION_MAX), ("7", 7, 7), ("0+", 0, VERSION_MAX)]
)
def test_versions_are_in_kafkas_notation(text: str, lowest: int, highest: int) -> None:
    versions = Versions.parse(text)
    assert versions == (lowest, highest)
    assert versions.has(lowest)
    assert versions.has(highest)
    assert not versions.has(lowest - 1)
    assert not versions.has(highest + 1)


def test_none_is_no_version() -> None:
    assert Versions.parse("none") is NO_VERSIONS
    assert not NO_VERSIONS.has(0)


def test_every_field_has_kafkas_default() -> None:
    partition = FetchPartition()
    assert partition.current_leader_epoch == -1
    assert partition.high_watermark == 2**63 - 1
    assert partition.replica_directory_id == bytes(16)
    assert PartitionData().records is None
    assert PartitionData().aborted_transactions == []
    assert FetchResponse() == FetchResponse(responses=[], throttle_time_ms=0)


def test_lists_are_new_for_every_message() -> None:
    one = MetadataResponsePartition()
    one.replica_nodes.append(1)
    assert MetadataResponsePartition().replica_nodes == []


def test_the_default_of_a_struct_is_shared_and_refuses_changes() -> None:
    one, other = PartitionData(), PartitionData()
    assert one.current_leader is other.current_leader
    assert one.current_leader == LeaderIdAndEpoch()
    with pytest.raises(AttributeError, match="assign a new LeaderIdAndEpoch"):
        one.current_leader.leader_id = 5
    one.current_leader = LeaderIdAndEpoch(leader_id=5)
    assert other.current_leader.leader_id == -1


def test_constructors_take_known_names_only() -> None:
    with pytest.raises(TypeError):
        FetchResponse(unknown=1)  # type: ignore[call-arg]  # what is refused
    with pytest.raises(TypeError):
        FetchResponse(0)  # type: ignore[call-arg]  # what is refused
    with pytest.raises(AttributeError):
        FetchResponse().unknown = 1  # type: ignore[attr-defined]  # what is refused


@pytest.mark.parametrize("cls", CLASSES)
def test_messages_are_equal_by_value_and_show_it(cls: type) -> None:
    version = schema_of(cls).versions.highest
    message = full(cls, version)
    assert message == full(cls, version)
    assert message != cls() or not schema_of(cls).fields
    assert message != object()
    assert repr(message).startswith(f"{cls.__name__}(")
    with pytest.raises(TypeError):
        hash(message)


def test_messages_of_different_classes_differ() -> None:
    ours, other = cast(object, FetchResponse()), FetchableTopicResponse()
    assert ours != other
