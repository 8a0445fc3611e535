"""Clients are held to their quotas: the throttle times in responses, and for how long a connection is not read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pybroker.metadata.quota_changes import QuotaChange, alter_quotas
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages.api_versions import ApiVersionsRequest
from pybroker.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from pybroker.protocol.messages.delete_topics import DeleteTopicsRequest
from pybroker.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from pybroker.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from pybroker.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from testing.scenes.api.records import batch_of_values
from testing.scenes.api.whole import Whole


class Holder:
    """The connection: keeps the throttle times."""

    has_next_request = False

    def __init__(self) -> None:
        self.throttled: list[int] = []

    def throttle(self, throttle_ms: int) -> None:
        self.throttled.append(throttle_ms)

    def hold_request(self, size: int) -> bool:
        return False

    def release_request(self) -> None:
        pass


async def scene(tmp_path: Path, **quotas: float) -> tuple[Whole, Holder]:
    whole = await Whole(tmp_path).start()
    await whole.create("t")
    holder = Holder()
    whole.connection.holder = holder
    await set_quotas(whole, **quotas)
    return whole, holder


async def set_quotas(whole: Whole, **quotas: float | None) -> None:
    assert await alter_quotas(whole.controller, [QuotaChange([("client-id", "test")], list(quotas.items()))]) == [None]


def produce(size: int, acks: int = 1) -> ProduceRequest:
    records = memoryview(bytearray(batch_of_values(bytes(size))))
    partition = PartitionProduceData(index=0, records=records)
    return ProduceRequest(acks=acks, timeout_ms=1000, topic_data=[TopicProduceData(name="t", partition_data=[partition])])


def fetch(**fields: Any) -> FetchRequest:
    partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    topic = FetchTopic(topic="t", partitions=[partition])
    whole = {"max_wait_ms": 0, "min_bytes": 0, "max_bytes": 1 << 20, "topics": [topic], "session_epoch": -1}
    return FetchRequest(**{**whole, **fields})


async def test_the_throttle_times_of_a_producer_are_those_of_kafka(tmp_path: Path) -> None:
    whole, holder = await scene(tmp_path, producer_byte_rate=100)
    request = produce(1000)
    size = len(batch_of_values(bytes(1000)))
    times = []
    for _ in range(3):
        response = await whole.ask(request, 9)
        assert response.responses[0].partition_responses[0].error_code == 0
        times.append(response.throttle_time_ms)
    expected = [max(0, round((count * size / 10 - 100) / 100 * 10_000)) for count in (1, 2, 3)]
    assert times == expected
    assert times[-1] > 0
    assert holder.throttled == [one for one in times if one]


async def test_a_produce_like_the_one_before_is_counted_without_being_decoded(tmp_path: Path) -> None:
    whole, holder = await scene(tmp_path, producer_byte_rate=150, request_percentage=1e9)
    times = [(await whole.ask(produce(1000), 9)).throttle_time_ms for _ in range(3)]
    assert whole.connection.repeated.uses == 2
    assert times[0] == 0 < times[1] < times[2]
    assert holder.throttled == times[1:]
    whole.connection.lose()
    assert whole.connection.repeated is None, "nothing that refers to a connection outlives it"


async def test_a_producer_without_responses_waits_too(tmp_path: Path) -> None:
    whole, holder = await scene(tmp_path, producer_byte_rate=10)
    assert await whole.ask(produce(1000, acks=0), 9) is None
    assert holder.throttled


async def test_a_consumer_above_its_quota_gets_nothing_and_loses_nothing(tmp_path: Path) -> None:
    whole, holder = await scene(tmp_path, consumer_byte_rate=150)
    await whole.ask(produce(1000), 9)
    first = await whole.ask(fetch(), 12)
    assert (first.throttle_time_ms, len(first.responses)) == (0, 1)
    second = await whole.ask(fetch(), 12)
    assert second.throttle_time_ms == holder.throttled[0] > 0
    assert second.responses == []
    whole.pass_time(11_000)
    assert len((await whole.ask(fetch(), 12)).responses) == 1


async def test_a_follower_is_exempt(tmp_path: Path) -> None:
    whole, holder = await scene(tmp_path, consumer_byte_rate=1, request_percentage=1e-9)
    await set_quotas(whole, request_percentage=None)
    await whole.ask(produce(1000), 9)
    assert (await whole.ask(fetch(replica_id=2), 12)).throttle_time_ms == 0
    assert holder.throttled == []


async def test_the_time_of_the_loop_is_counted_for_every_api_up_to_a_window(tmp_path: Path) -> None:
    whole, holder = await scene(tmp_path, request_percentage=1e-6)
    response = await whole.ask(ApiVersionsRequest(client_software_name="a", client_software_version="1"), 3)
    assert (response.throttle_time_ms, holder.throttled) == (1000, [1000])


async def test_a_response_that_was_kept_is_counted_and_throttled_as_another(tmp_path: Path) -> None:
    whole, holder = await scene(tmp_path, request_percentage=1e9)
    request = MetadataRequest(topics=[MetadataRequestTopic(name="t")])
    whole_response = [await whole.ask(request, 9) for _ in range(2)]
    assert whole_response[0] == whole_response[1]
    assert whole.services.usage is not None
    whole.services.usage.of("User:ANONYMOUS", "test").time_throttle_ms(10**20, whole.clock.monotonic_ms())
    throttled = await whole.ask(request, 9)
    assert (throttled.throttle_time_ms, holder.throttled) == (1000, [1000])
    throttled.throttle_time_ms = 0
    assert throttled == whole_response[0]


async def test_a_change_is_in_force_with_the_next_request(tmp_path: Path) -> None:
    whole, holder = await scene(tmp_path)
    for _ in range(3):
        await whole.ask(produce(1000), 9)
    assert (whole.services.usage, holder.throttled) == (None, [])
    await set_quotas(whole, producer_byte_rate=1)
    assert (await whole.ask(produce(1000), 9)).throttle_time_ms > 0
    await set_quotas(whole, producer_byte_rate=10_000_000)
    assert (await whole.ask(produce(1000), 9)).throttle_time_ms == 0
    await set_quotas(whole, producer_byte_rate=None)
    assert whole.services.usage is None
    assert (await whole.ask(produce(1000), 9)).throttle_time_ms == 0


@pytest.mark.parametrize(("version", "is_strict"), [(5, False), (6, True)])
async def test_changes_of_partitions_wait(tmp_path: Path, version: int, *, is_strict: bool) -> None:
    whole, holder = await scene(tmp_path, controller_mutation_rate=1)
    request = CreateTopicsRequest(
        topics=[CreatableTopic(name=f"new-{number}", num_partitions=8, replication_factor=1) for number in range(3)]
    )
    response = await whole.ask(request, version)
    codes = {one.name: one.error_code for one in response.topics}
    last = ErrorCode.THROTTLING_QUOTA_EXCEEDED if is_strict else ErrorCode.NONE
    assert codes == {"new-0": 0, "new-1": 0, "new-2": last}
    owed_ms = 5000 if is_strict else 13_000
    assert (response.throttle_time_ms, holder.throttled) == (owed_ms, [owed_ms])
    whole.pass_time(owed_ms)
    deleted = await whole.ask(DeleteTopicsRequest(topic_names=["new-0"]), 5)
    assert [one.error_code for one in deleted.responses] == [0]
