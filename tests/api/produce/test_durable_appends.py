"""`flush.messages`: no client learns of a record before it is durable, on a disk whose thread the test runs by hand."""

from __future__ import annotations

import asyncio
import errno
from pathlib import Path
from typing import Any

import pytest

from pybroker.api.handlers import produce
from pybroker.log.files.filesystem import Filesystem
from pybroker.log.log import Log
from pybroker.log.results import LastRun
from pybroker.model import TopicPartition
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages import incremental_alter_configs
from pybroker.protocol.messages.delete_groups import DeleteGroupsRequest
from pybroker.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from pybroker.protocol.messages.heartbeat import HeartbeatRequest
from pybroker.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from pybroker.protocol.messages.offset_fetch import OffsetFetchRequest
from pybroker.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from testing.error_codes import error_code
from testing.scenes.api import records
from testing.scenes.api.groups import GROUP, broker, commit_request, member
from testing.scenes.api.whole import Whole, settled
from testing.scenes.logs import Disk, HeldThread, stored

T = TopicPartition("t", 0)


async def slow_disk(folder: Path, **configs: str) -> tuple[Whole, HeldThread]:
    """Start a broker with a topic `t` of two partitions, on a disk that works when the test wants it."""
    whole = await Whole(folder).start()
    await whole.create("t", 2, **configs)
    return whole, held(whole)


def held(whole: Whole) -> HeldThread:
    (directory,), thread = whole.logs.directories, HeldThread()
    directory.run_in_thread = thread

    def go_offline(_directory: object) -> None:
        for log in whole.logs.all_logs():
            whole.replicas.mark_offline(log.topic_partition)

    directory.on_failure = go_offline
    return thread


def request(*values: bytes, acks: int = -1, partition: int = 0, timeout_ms: int = 1000, **fields: int) -> ProduceRequest:
    data: Any = records.batch_of_values(*values, **fields)
    topic = TopicProduceData(name="t", partition_data=[PartitionProduceData(index=partition, records=data)])
    return ProduceRequest(acks=acks, timeout_ms=timeout_ms, topic_data=[topic])


class Asked:
    """A request that was sent, and its response as soon as there is one."""

    def __init__(self, whole: Whole, message: Any, version: int = 9) -> None:
        self.whole, self.message, self.version = whole, message, version
        self.sent = whole.send(message, version)

    async def is_waiting(self) -> bool:
        await asyncio.sleep(0)  # results are reported in the loop's next turn
        return isinstance(self.sent, asyncio.Future) and not self.sent.done()

    async def response(self) -> Any:
        assert not await self.is_waiting()
        return self.whole.read(await settled(self.sent), self.message, self.version)

    async def produced(self) -> tuple[ErrorCode, int]:
        ((partition,),) = [topic.partition_responses for topic in (await self.response()).responses]
        return error_code(partition.error_code), partition.base_offset


def visible(whole: Whole, partition: int = 0) -> int:
    return whole.replicas.high_watermark(TopicPartition("t", partition))


async def fetched(whole: Whole, offset: int = 0) -> list[bytes | None]:
    wanted = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
    asked = FetchRequest(max_wait_ms=0, min_bytes=1, max_bytes=1 << 20, topics=[FetchTopic(topic="t", partitions=[wanted])])
    response = await whole.ask(asked, 11)
    return [value for _, value in records.read(bytes(response.responses[0].partitions[0].records or b""))]


@pytest.mark.parametrize("is_alone", [pytest.param(True, id="one partition"), pytest.param(False, id="several partitions")])
@pytest.mark.parametrize("acks", [1, -1])
async def test_the_response_and_the_record_wait_for_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, acks: int, is_alone: bool
) -> None:
    if not is_alone:
        monkeypatch.setattr(produce, "produce_one", lambda *_: None)  # as if no request were of one partition
    whole, disk = await slow_disk(tmp_path, flush_messages="1")
    asked = Asked(whole, request(b"a", acks=acks))
    assert await asked.is_waiting()
    assert await fetched(whole) == []
    latest = ListOffsetsTopic(name="t", partitions=[ListOffsetsPartition(partition_index=0, timestamp=-1)])
    response = await whole.ask(ListOffsetsRequest(replica_id=-1, topics=[latest]), 5)
    assert response.topics[0].partitions[0].offset == 0, "the end that consumers know"
    disk.run_next()
    assert await asked.produced() == (ErrorCode.NONE, 0)
    assert await fetched(whole) == [b"a"]
    assert disk.jobs == []


async def test_with_acks_0_only_the_consumer_waits(tmp_path: Path) -> None:
    whole, disk = await slow_disk(tmp_path, flush_messages="1")
    assert whole.send(request(b"a", acks=0), 9) is None
    assert await fetched(whole) == []
    disk.run_next()
    assert await fetched(whole) == [b"a"]


async def test_a_fetch_that_waits_completes_when_the_record_is_durable(tmp_path: Path) -> None:
    whole, disk = await slow_disk(tmp_path, flush_messages="1")
    wanted = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    topic = FetchTopic(topic="t", partitions=[wanted])
    fetch = Asked(whole, FetchRequest(max_wait_ms=500, min_bytes=1, max_bytes=1 << 20, topics=[topic]), 11)
    Asked(whole, request(b"a"))
    assert await fetch.is_waiting()
    disk.run_next()
    assert records.read(bytes((await fetch.response()).responses[0].partitions[0].records)) == [(0, b"a")]


async def test_the_append_that_completes_the_number_waits_and_what_comes_behind_it(tmp_path: Path) -> None:
    whole, disk = await slow_disk(tmp_path, flush_messages="3")
    first, second = Asked(whole, request(b"a", acks=1)), Asked(whole, request(b"b"))
    assert await first.produced() == (ErrorCode.NONE, 0)
    assert await second.produced() == (ErrorCode.NONE, 1)
    completing, behind = Asked(whole, request(b"c")), Asked(whole, request(b"d", acks=1))
    assert await completing.is_waiting()
    assert await behind.is_waiting(), "no client may read it before what lies in front of it"
    assert await fetched(whole) == [b"a", b"b"]
    disk.run_next()
    assert await completing.produced() == (ErrorCode.NONE, 2)
    assert await behind.produced() == (ErrorCode.NONE, 3)
    assert await fetched(whole) == [b"a", b"b", b"c", b"d"]
    assert disk.jobs == [], "the fourth begins to count again"


async def test_what_comes_while_the_disk_works_is_made_durable_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []
    monkeypatch.setattr(Filesystem, "sync", lambda _self, fd: synced.append(fd))
    whole, disk = await slow_disk(tmp_path, flush_messages="1")
    first = Asked(whole, request(b"a"))
    later = [Asked(whole, request(b"b")) for _ in range(20)]
    assert len(disk.jobs) == 1
    disk.run_next()
    assert await first.produced() == (ErrorCode.NONE, 0)
    assert visible(whole) == 1
    assert all([await asked.is_waiting() for asked in later])
    synced.clear()
    disk.run_next()
    assert len(synced) == 1, "one fsync of the data for all of them, and no other"
    assert [await asked.produced() for asked in later] == [(ErrorCode.NONE, offset) for offset in range(1, 21)]
    assert (visible(whole), disk.jobs) == (21, [])


async def test_each_partition_waits_for_itself(tmp_path: Path) -> None:
    whole, disk = await slow_disk(tmp_path, flush_messages="1")
    one, other = Asked(whole, request(b"a")), Asked(whole, request(b"b", partition=1))
    disk.run_next()
    assert not await one.is_waiting()
    assert await other.is_waiting()
    disk.run_next()
    assert await other.produced() == (ErrorCode.NONE, 0)


@pytest.mark.parametrize("acks", [1, -1])
async def test_a_batch_that_is_sent_again_waits_as_the_first_one_does(tmp_path: Path, acks: int) -> None:
    whole, disk = await slow_disk(tmp_path, flush_messages="1")
    producer = {"producer_id": 7, "producer_epoch": 0, "base_sequence": 0}
    first = Asked(whole, request(b"a", acks=acks, **producer))
    again = Asked(whole, request(b"a", acks=acks, **producer))
    assert await again.is_waiting()
    disk.run_next()
    assert await first.produced() == await again.produced() == (ErrorCode.NONE, 0)
    assert disk.jobs == [], "it was written once"
    late = Asked(whole, request(b"a", acks=acks, **producer))
    assert await late.produced() == (ErrorCode.NONE, 0)


@pytest.mark.parametrize("acks", [1, -1])
async def test_a_failed_fsync_is_the_error_of_the_requests_that_wait_for_it(tmp_path: Path, acks: int) -> None:
    whole, disk = await slow_disk(tmp_path, flush_messages="1")
    asked, behind = Asked(whole, request(b"a", acks=acks)), Asked(whole, request(b"b", acks=acks))
    disk.run_next(OSError(errno.EIO, "bad sector"))
    assert (await asked.produced())[0] is ErrorCode.KAFKA_STORAGE_ERROR
    assert (await behind.produced())[0] is ErrorCode.KAFKA_STORAGE_ERROR
    assert whole.logs.directories[0].is_offline
    assert (await Asked(whole, request(b"c", acks=acks)).produced())[0] is ErrorCode.KAFKA_STORAGE_ERROR


@pytest.mark.parametrize("acks", [1, -1])
async def test_a_disk_that_takes_too_long(tmp_path: Path, acks: int) -> None:
    whole, disk = await slow_disk(tmp_path, flush_messages="1")
    asked = Asked(whole, request(b"a", acks=acks, timeout_ms=1000))
    whole.pass_time(999)
    assert await asked.is_waiting()
    whole.pass_time(2)
    assert (await asked.produced())[0] is ErrorCode.REQUEST_TIMED_OUT
    assert visible(whole) == 0
    disk.run_next()
    assert visible(whole) == 1, "it stays in the log"


async def test_a_topic_that_is_deleted_while_its_records_are_on_the_way(tmp_path: Path) -> None:
    whole, disk = await slow_disk(tmp_path, flush_messages="1")
    asked = Asked(whole, request(b"a", acks=1))
    await whole.controller.delete_topics([whole.controller.image.topics["t"].topic_id])
    assert (await asked.produced())[0] is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    while disk.jobs:
        disk.run_next()  # of files that are gone


async def test_flush_ms_holds_nothing_back(tmp_path: Path) -> None:
    whole, disk = await slow_disk(tmp_path, flush_ms="100")
    asked = Asked(whole, request(b"a"))
    assert await asked.produced() == (ErrorCode.NONE, 0)
    assert await fetched(whole) == [b"a"]
    whole.clock.advance(100)
    whole.logs.passes.flush_due(whole.clock.time_ms())
    assert len(disk.jobs) == 1


async def test_the_setting_is_changed_while_records_wait(tmp_path: Path) -> None:
    whole, disk = await slow_disk(tmp_path)
    assert await Asked(whole, request(b"a", acks=1)).produced() == (ErrorCode.NONE, 0)
    await configure(whole, "1")
    durable = Asked(whole, request(b"b", acks=1))
    assert await durable.is_waiting()
    await configure(whole, None)
    behind = Asked(whole, request(b"c", acks=1))
    assert await behind.is_waiting(), "what is in front of it is not visible"
    assert await fetched(whole) == [b"a"]
    disk.run_next()
    assert await durable.produced() == (ErrorCode.NONE, 1)
    assert await behind.produced() == (ErrorCode.NONE, 2)
    assert await Asked(whole, request(b"d", acks=1)).produced() == (ErrorCode.NONE, 3)
    assert disk.jobs == []


async def configure(whole: Whole, flush_messages: str | None) -> None:
    setting = incremental_alter_configs.AlterableConfig(
        name="flush.messages", config_operation=0 if flush_messages else 1, value=flush_messages
    )
    topic = incremental_alter_configs.AlterConfigsResource(resource_type=2, resource_name="t", configs=[setting])
    response = await whole.ask(incremental_alter_configs.IncrementalAlterConfigsRequest(resources=[topic]), 1)
    assert response.responses[0].error_code == ErrorCode.NONE


async def test_a_roll_while_records_wait(tmp_path: Path) -> None:
    whole, disk = await slow_disk(tmp_path, flush_messages="1", segment_bytes="200")
    asked = [Asked(whole, request(b"x" * 100)) for _ in range(4)]
    assert len(whole.replicas.partition_or_raise(T).log.segments) == 4
    while disk.jobs:
        assert await asked[-1].is_waiting()
        disk.run_next()
    assert [await one.produced() for one in asked] == [(ErrorCode.NONE, offset) for offset in range(4)]
    assert visible(whole) == 4


async def test_records_of_the_last_run_are_durable_before_they_are_served(tmp_path: Path) -> None:
    """Assert that a producer that sends unacknowledged records again gets its response at once, and consumers the records."""
    whole, _ = await slow_disk(tmp_path / "a", flush_messages="1")
    log = whole.replicas.partition_or_raise(T).log
    producer = {"producer_id": 7, "producer_epoch": 0, "base_sequence": 0}
    Asked(whole, request(b"a", **producer))
    assert (log.recovery_point, log.log_end_offset) == (0, 1)
    log.release()
    again = type(log).open(T, log.topic_id, log.config, log.log_directory, log.services, LastRun(was_clean=False))
    assert again.recovery_point == 1, "the start has synced them"
    disk = held(whole)
    whole.replicas._own.on_moved(T, again)
    assert disk.jobs == []
    assert await Asked(whole, request(b"a", acks=1, **producer)).produced() == (ErrorCode.NONE, 0)
    assert await fetched(whole) == [b"a"]


async def test_committed_offsets_wait_for_the_disk(tmp_path: Path) -> None:
    """Assert the same for OffsetCommit, for every request that reads committed offsets, and for descriptions of the group."""
    whole = await broker(tmp_path, log_flush_interval_messages=1)
    assert (await whole.ask(commit_request(offset=4), 8)).topics[0].partitions[0].error_code == ErrorCode.NONE
    disk = held(whole)
    committed = Asked(whole, commit_request(offset=5), 8)
    read = Asked(whole, OffsetFetchRequest(group_id=GROUP, topics=None), 7)
    deleted = Asked(whole, DeleteGroupsRequest(groups_names=[GROUP]), 2)
    assert await committed.is_waiting()
    assert await read.is_waiting()
    assert await deleted.is_waiting()
    disk.run_all()
    assert (await committed.response()).topics[0].partitions[0].error_code == ErrorCode.NONE
    assert (await read.response()).topics[0].partitions[0].committed_offset == 5
    assert (await deleted.response()).results[0].error_code == ErrorCode.NONE


async def test_a_heartbeat_waits_for_what_the_group_wrote_before(tmp_path: Path) -> None:
    whole = await broker(tmp_path, log_flush_interval_messages=1)
    member_id = await member(whole)
    disk = held(whole)
    committed = Asked(whole, commit_request(offset=5, generation_id_or_member_epoch=1, member_id=member_id), 8)
    heartbeat = Asked(whole, HeartbeatRequest(group_id=GROUP, generation_id=1, member_id=member_id), 2)
    assert await heartbeat.is_waiting()
    disk.run_all()
    assert (await committed.response()).topics[0].partitions[0].error_code == ErrorCode.NONE
    assert (await heartbeat.response()).error_code == ErrorCode.NONE


async def test_a_commit_whose_fsync_fails_is_no_commit(tmp_path: Path) -> None:
    whole = await broker(tmp_path, log_flush_interval_messages=1)
    disk = held(whole)
    committed = Asked(whole, commit_request(offset=5), 8)
    read = Asked(whole, OffsetFetchRequest(group_id=GROUP, topics=None), 7)
    disk.run_next(OSError(errno.EIO, "bad sector"))
    assert (await committed.response()).topics[0].partitions[0].error_code == ErrorCode.NOT_COORDINATOR
    assert (await read.response()).error_code == ErrorCode.NOT_COORDINATOR


async def test_a_move_that_is_faster_than_the_flush_of_the_old_log_settles_what_waits(tmp_path: Path) -> None:
    """Assert that the record is durable with the copy in the other directory, whatever the old disk reports later."""
    whole, _ = await slow_disk(tmp_path, flush_messages="1")
    partition = whole.replicas.partition(T)
    assert not isinstance(partition, ErrorCode)
    old, disk = partition.log, held(whole)
    asked = Asked(whole, request(b"a"))
    assert await asked.is_waiting()
    other = Disk(tmp_path / "other", flush_messages=1)
    copy = Log.create(T, old.topic_id, old.config, other.directory, other.services)
    copy.append_as_follower(memoryview(bytearray(stored(old))), 0)
    whole.replicas._own.on_moved(T, copy)
    assert await asked.produced() == (ErrorCode.NONE, 0)
    assert visible(whole) == 1
    disk.run_all()
    assert visible(whole) == 1
    copy.close()
