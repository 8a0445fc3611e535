"""A member that joins a group of many members, topics and expressions holds the loop for short turns only, records included."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pybroker.coordinator.state.consumer_member import ConsumerMember
from pybroker.protocol import codec
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages.find_coordinator import FindCoordinatorRequest
from testing.scenes.api.groups import broker
from testing.scenes.api.whole import Whole
from testing.turns import run_watched
from tests.coordinator.consumer.test_heartbeat_limits import GROUP, beat, group_of, image_of, member

pytestmark = [
    pytest.mark.judges_time,
    pytest.mark.skipif(not codec.IS_NATIVE, reason="to encode such records in Python takes longer than a turn may"),
]

NAMES = [f"t{number}" for number in range(5_000)]
IMAGE = image_of(dict.fromkeys(NAMES, 1))


def other_topics() -> list[ConsumerMember]:
    return [member(number, *NAMES[: 4_000 + number]) for number in range(40)]


def all_topics() -> list[ConsumerMember]:
    return [member(number, *NAMES) for number in range(100)]


def expressions() -> list[ConsumerMember]:
    return [member(number, regex=f"t.?{number}") for number in range(300)]


@pytest.mark.parametrize("members", [other_topics, all_topics, expressions])
def test_a_member_joins_a_large_group(members: Callable[[], list[ConsumerMember]], tmp_path: Path) -> None:
    whole = asyncio.run(started(tmp_path))
    next(whole.groups.runtime.shards).consumer_groups[GROUP] = group_of(*members())

    async def main() -> list[int]:
        whole.call_soon = asyncio.get_running_loop().call_soon
        return [await joined(whole, name) for name in ("x", "y")]

    turns = run_watched(main)
    assert turns.result == [ErrorCode.NONE] * 2
    assert turns.long_texts() == []


async def started(folder: Path) -> Whole:
    whole = await broker(folder, message_max_bytes=10_000_000)
    await whole.ask(FindCoordinatorRequest(key="g"), 3)
    return whole


async def joined(whole: Whole, member_id: str) -> int:
    """Let a member join; return the code of the response."""
    response: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    join: dict[str, Any] = {"epoch": 0, "subscribed_topic_names": NAMES}
    whole.groups.runtime.write(0, lambda shard, _now_ms: beat(shard, IMAGE, member_id, **join), response.set_result)
    outcome = await response
    return int(getattr(outcome, "error_code", outcome))
