"""The first request creates the offsets topic; groups are spread over its partitions as in Kafka."""

from __future__ import annotations

from pathlib import Path

import pytest

from pybroker.coordinator.hashing import partition_of
from pybroker.coordinator.offset_loops import java_hash
from pybroker.model import GroupId
from pybroker.protocol.api_keys import ApiKey
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages.find_coordinator import FindCoordinatorRequest
from testing.scenes.api.groups import versions
from testing.scenes.api.whole import Whole

VERSIONS = versions(ApiKey.FIND_COORDINATOR)


@pytest.mark.parametrize("version", VERSIONS)
async def test_the_first_question_makes_the_topic(version: int, tmp_path: Path) -> None:
    whole = await Whole(tmp_path, offsets_topic_num_partitions=7).start()
    request = FindCoordinatorRequest(key="g") if version < 4 else FindCoordinatorRequest(coordinator_keys=["g", "h", "g"])
    for _ in range(2):
        response = await whole.ask(request, version)
        found = [response] if version < 4 else response.coordinators
        assert [(c.error_code, c.node_id, c.host, c.port) for c in found] == [(0, 1, "127.0.0.1", 9092)] * len(found)
        if version >= 4:
            assert [c.key for c in found] == ["g", "h", "g"]
    assert len(whole.controller.image.topics["__consumer_offsets"].partitions) == 7
    assert whole.controller.image.topics["__consumer_offsets"].configs["cleanup.policy"] == "compact"


@pytest.mark.parametrize("version", VERSIONS[1:])
@pytest.mark.parametrize(("key_type", "code"), [(2, ErrorCode.INVALID_REQUEST), (9, ErrorCode.INVALID_REQUEST)])
async def test_what_has_no_coordinator_is_refused_for_good(version: int, key_type: int, code: ErrorCode, tmp_path: Path) -> None:
    whole = await Whole(tmp_path).start()
    if version < 4:
        response = await whole.ask(FindCoordinatorRequest(key="x", key_type=key_type), version)
    else:
        (response,) = (await whole.ask(FindCoordinatorRequest(coordinator_keys=["x"], key_type=key_type), version)).coordinators
    assert (response.error_code, response.node_id, response.port) == (code, -1, -1)
    assert response.error_message
    assert not code.is_retriable
    assert "__consumer_offsets" not in whole.controller.image.topics


async def test_a_topic_that_cannot_be_made_is_tried_again_later(tmp_path: Path) -> None:
    whole = await Whole(tmp_path, offsets_topic_replication_factor=2).start()
    response = await whole.ask(FindCoordinatorRequest(key="g"), 1)
    assert response.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE


@pytest.mark.parametrize(
    ("text", "value", "partition"),  # by Java
    [
        ("", 0, 0),
        ("g", 103, 3),
        ("console-consumer-4711", 836489572, 22),
        ("Grüße 🎉", 412023574, 24),
        ("polygenelubricants", -(2**31), 0),  # which has no absolute value
    ],
)
def test_the_partition_is_by_the_hash_of_java(text: str, value: int, partition: int) -> None:
    assert java_hash(text) == value
    assert partition_of(GroupId(text), 50) == partition
