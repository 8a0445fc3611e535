"""ConsumerGroupDescribe in each version; tests/scenarios describes the behaviour of groups."""

from __future__ import annotations

from pathlib import Path

import pytest

from pybroker.api.nodes import GROUP_OPERATIONS
from pybroker.protocol.api_keys import ApiKey
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from testing.scenes.api.groups import GROUP, broker, join_request, member, versions
from tests.api.handlers.test_consumer_group_heartbeat import joining


@pytest.mark.parametrize("version", versions(ApiKey.CONSUMER_GROUP_DESCRIBE))
async def test_groups_are_described(version: int, tmp_path: Path) -> None:
    whole = await broker(tmp_path)
    await whole.ask(joining(instance_id="i", rack_id="r"), 1)
    request = ConsumerGroupDescribeRequest(group_ids=[GROUP, "none"], include_authorized_operations=True)
    group, none = (await whole.ask(request, version)).groups
    assert (group.error_code, group.group_id, group.group_state, group.assignor_name) == (0, GROUP, "Stable", "uniform")
    assert (group.group_epoch, group.assignment_epoch) == (1, 1)
    assert group.authorized_operations == GROUP_OPERATIONS
    (one,) = group.members
    assert (one.member_id, one.instance_id, one.rack_id, one.member_epoch) == ("m", "i", "r", 1)
    assert (one.client_id, one.client_host, one.subscribed_topic_names) == ("test", "/", ["t"])
    assert one.subscribed_topic_regex in {None, ""}
    assert one.member_type == (1 if version >= 1 else -1)
    (topic,) = one.assignment.topic_partitions
    assert (topic.topic_name, topic.partitions) == ("t", [0, 1])
    assert one.target_assignment == one.assignment
    assert (none.error_code, none.group_id, bool(none.error_message)) == (ErrorCode.GROUP_ID_NOT_FOUND, "none", True)


async def test_a_classic_group_is_not_described(tmp_path: Path) -> None:
    whole = await broker(tmp_path)
    await member(whole)
    (group,) = (await whole.ask(ConsumerGroupDescribeRequest(group_ids=[GROUP]), 1)).groups
    assert group.error_code == ErrorCode.GROUP_ID_NOT_FOUND


async def test_members_of_both_protocols_are_distinguished(tmp_path: Path) -> None:
    whole = await broker(tmp_path)
    await whole.ask(joining(), 1)
    assert (await whole.ask(join_request(), 3)).error_code == 0
    (group,) = (await whole.ask(ConsumerGroupDescribeRequest(group_ids=[GROUP]), 1)).groups
    assert sorted(one.member_type for one in group.members) == [0, 1]
