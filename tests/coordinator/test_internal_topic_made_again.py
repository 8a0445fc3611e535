"""A coordinator whose topic is deleted and made again by one change of the metadata knows nothing of the topic before."""

from __future__ import annotations

from pathlib import Path

from pybroker.metadata.image import ImageDelta
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages.find_coordinator import FindCoordinatorRequest
from testing.scenes.api.groups import commit_request
from testing.scenes.api.whole import Whole
from tests.api.offset_transactions import GROUP, committed
from tests.api.transactions import Producer, broker


async def make_again(whole: Whole, name: str) -> None:
    """Delete a topic and create it again, and let the coordinators see this as one change."""
    for coordinator in (whole.groups, whole.transactions):
        whole.controller.unsubscribe(coordinator.apply_image)
    before = whole.controller.image
    await whole.controller.delete_topics([before.topics[name].topic_id])
    await whole.controller.create_missing_topics([name])
    after = whole.controller.image
    delta = ImageDelta(added=(after.topics[name],), removed=(before.topics[name],))
    for coordinator in (whole.groups, whole.transactions):
        for _ in coordinator.apply_image(before, after, delta):
            pass
        whole.controller.subscribe(coordinator.apply_image)


async def test_offsets_of_the_topic_before_are_gone(tmp_path: Path) -> None:
    whole = await broker(tmp_path, offsets_topic_num_partitions=2)
    await whole.ask(FindCoordinatorRequest(key=GROUP), 3)
    await whole.ask(commit_request(group_id=GROUP, partition=0, offset=5), 8)
    assert await committed(whole) == [5, -1]
    await make_again(whole, "__consumer_offsets")
    assert await committed(whole) == [-1, -1]
    await whole.ask(commit_request(group_id=GROUP, partition=0, offset=7), 8)
    whole.serve()
    assert await committed(whole) == [7, -1]


async def test_transactional_ids_of_the_topic_before_are_gone(tmp_path: Path) -> None:
    whole = await broker(tmp_path)
    producer = Producer(whole, 2)
    assert await producer.init() == ErrorCode.NONE
    before = producer.producer_id
    await make_again(whole, "__transaction_state")
    assert await producer.send(0, b"a") == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert await producer.init() == ErrorCode.NONE
    assert producer.producer_id != before
    assert await producer.send(0, b"a") == ErrorCode.NONE
    assert await producer.end(commit=True) == ErrorCode.NONE
