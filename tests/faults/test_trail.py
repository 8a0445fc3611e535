"""The last requests are remembered by what they name, and handled as if nothing looked at them."""

from __future__ import annotations

import pytest

from pybroker.faults.trail import Trail
from pybroker.network.context import ConnectionContext
from pybroker.protocol.messages.heartbeat import HeartbeatRequest
from pybroker.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from testing.scenes.api.whole import frame_of

CONNECTION = ConnectionContext(connection_id=5)


def handler(_connection: ConnectionContext, frame: memoryview) -> bytes:
    return bytes(frame)


def test_a_request_is_remembered_and_handled() -> None:
    trail = Trail()
    frame = frame_of(MetadataRequest(topics=[MetadataRequestTopic(name="orders")]), 9, client_id="app")
    assert trail.watching(handler, lambda _: None)(CONNECTION, frame) == bytes(frame)
    (seen,) = trail.all()
    assert (seen.api, seen.version, seen.client_id, seen.connection, seen.topics) == ("Metadata", 9, "app", 5, ("orders",))
    trail.clear()
    assert trail.all() == []


def test_only_the_last_requests_are_kept() -> None:
    trail = Trail(length=3)
    handle = trail.watching(handler, lambda _: None)
    for number in range(5):
        handle(CONNECTION, frame_of(HeartbeatRequest(group_id=f"g{number}", generation_id=1, member_id="m"), 3, client_id=None))
    assert [seen.groups for seen in trail.all()] == [("g2",), ("g3",), ("g4",)]
    assert {seen.client_id for seen in trail.all()} == {""}


@pytest.mark.parametrize("data", ["", "0012", "7fff0000000000010000", "00030009000000010000ffff", "0003 7fff 00000001 0000"])
def test_what_cannot_be_read_is_left_to_the_broker(data: str) -> None:
    trail, frame = Trail(), memoryview(bytearray(bytes.fromhex(data)))
    assert trail.watching(handler, lambda _: None)(CONNECTION, frame) == bytes(frame)
    assert [seen.api for seen in trail.all()] in ([], ["Metadata"])
