"""Every case in which a waiting fetch completes, and the cases in which it continues to wait."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pybroker.api.produce.appends import Appends
from pybroker.log.leader_epoch_cache import EpochEndOffset
from pybroker.log.segments.file_records import FileRecords
from pybroker.model import LeaderEpoch, Offset, TopicPartition
from pybroker.protocol.error_codes import ErrorCode, KafkaError
from pybroker.replication.delayed_fetch import DelayedFetch
from pybroker.replication.fetch_data import FetchPartitionData
from pybroker.replication.fetching import is_enough
from testing.scenes.no_wake_up import never
from testing.scenes.replication.scene import ReplicaScene, params, wanted


def waiting(**more: Any) -> tuple[ReplicaScene, list[object]]:
    """Start a fetch at the end of `t`, whose log has 100 bytes in epoch 1, that waits for 500 ms."""
    scene = ReplicaScene()
    scene.topic("t", leader_epoch=1, replicas=(1, 2), isr=(1,))
    scene.produce("t", 100)
    scene.log("t").epochs = [EpochEndOffset(LeaderEpoch(1), Offset(1))]
    responses = scene.fetch(params(max_wait_ms=500), wanted("t", 1, **more))
    assert responses == []
    assert scene.manager.fetch_purgatory.delayed == 1
    return scene, responses  # type: ignore[return-value]


def error(responses: list[Any]) -> ErrorCode:
    (((_, data),),) = responses
    return data.error_code


CASES: dict[str, tuple[Callable[[ReplicaScene], object], ErrorCode]] = {
    "A: another leads": (
        lambda s: s.topic("t", leader=2, leader_epoch=1, replicas=(1, 2)),
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ),
    "B: the replica moved away": (
        lambda s: s.topic("t", leader=2, leader_epoch=2, replicas=(2,)),
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ),
    "C: the topic was deleted": (lambda s: s.remove("t"), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    "D: its directory failed": (lambda s: s.manager.mark_offline(TopicPartition("t", 0)), ErrorCode.KAFKA_STORAGE_ERROR),
}


@pytest.mark.parametrize("case", CASES)
def test_cases_that_end_in_an_error(case: str) -> None:
    scene, responses = waiting()
    happens, expected = CASES[case]
    happens(scene)
    assert error(responses) == expected
    assert scene.manager.fetch_purgatory.delayed == 0


def test_case_d_found_out_by_looking() -> None:
    scene = ReplicaScene()
    scene.topic("t")
    scene.produce("t", 100, 100)
    scene.log("t").producers.first_unstable_offset = 0
    responses = scene.fetch(params(max_wait_ms=500, is_read_committed=True), wanted("t", 0))
    scene.log("t").error = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR)
    scene.manager.fetch_purgatory.check_and_complete(TopicPartition("t", 0))
    assert error(responses) == ErrorCode.KAFKA_STORAGE_ERROR


def test_case_e_a_fenced_epoch() -> None:
    scene, responses = waiting(current_leader_epoch=1)
    scene.topic("t", leader_epoch=2, replicas=(1, 2), isr=(1,))
    assert error(responses) == ErrorCode.FENCED_LEADER_EPOCH


def test_case_f_the_log_rolled_and_went_on() -> None:
    scene = ReplicaScene()
    scene.topic("t")
    scene.produce("t", 100)
    responses = scene.fetch(params(max_wait_ms=500, min_bytes=1000), wanted("t", 0))
    scene.log("t").roll()
    scene.produce("t", 100)
    ((_, data),) = responses[0]
    assert data.records is not None
    assert data.records.size == 100, "the rest of the old segment, though less than asked for"


def test_not_case_f_the_log_just_rolled() -> None:
    scene, responses = waiting()
    scene.log("t").roll()
    scene.manager.fetch_purgatory.check_and_complete(TopicPartition("t", 0))
    assert responses == []
    scene.produce("t", 1)
    assert error(responses) == ErrorCode.NONE


def test_case_f_the_log_was_truncated_to_before_the_offset() -> None:
    scene, responses = waiting()
    scene.log("t").truncate_to(0)
    scene.partition("t").high_watermark_metadata = scene.log("t").end_offset_metadata
    scene.manager.fetch_purgatory.check_and_complete(TopicPartition("t", 0))
    assert error(responses) == ErrorCode.OFFSET_OUT_OF_RANGE


def test_not_case_f_an_open_transaction_hides_the_offset() -> None:
    scene = ReplicaScene()
    scene.topic("t")
    scene.produce("t", 100, 100)
    scene.log("t").producers.first_unstable_offset = 0
    responses = scene.fetch(params(max_wait_ms=500, is_read_committed=True), wanted("t", 1))
    assert responses == []
    scene.produce("t", 100)
    assert responses == [], "more of the open transaction is nothing to read"
    scene.log("t").producers.first_unstable_offset = None
    scene.produce("t", 50)
    ((_, data),) = responses[0]
    assert data.records is not None
    assert data.records.size == 250


def test_case_g_the_bytes_of_all_partitions_each_up_to_its_limit() -> None:
    scene = ReplicaScene()
    scene.topic("t", 3)
    asked = [wanted("t", 0, 100, number) for number in range(3)]
    responses = scene.fetch(params(max_wait_ms=500, min_bytes=250), *asked)
    scene.produce("t", 99, 99, 99, partition=0)  # counts as 100
    scene.produce("t", 100, partition=1)
    assert responses == []
    reads = [scene.log("t", number).reads for number in range(3)]
    scene.produce("t", 49, partition=2)
    assert responses == []
    assert reads == [scene.log("t", number).reads for number in range(3)], "deciding reads nothing"
    scene.produce("t", 1, partition=2)
    assert [data.records.size if data.records else 0 for _, data in responses[0]] == [100, 100, 50]
    assert [partition for partition, _ in responses[0]] == asked


def test_case_g_with_the_high_watermark_of_a_follower_not_with_the_log_end() -> None:
    scene = ReplicaScene()
    scene.topic("t", replicas=(1, 2))
    responses = scene.fetch(params(max_wait_ms=500), wanted("t", 0))
    scene.fetch(params(replica_id=2), wanted("t", 0))
    scene.produce("t", 100)
    assert responses == []
    scene.fetch(params(replica_id=2), wanted("t", 1))
    assert error(responses) == ErrorCode.NONE


def test_case_h_a_truncation_that_the_fetcher_must_follow() -> None:
    scene, responses = waiting(last_fetched_epoch=1)
    scene.manager.fetch_purgatory.check_and_complete(TopicPartition("t", 0))
    assert responses == []
    scene.log("t").epochs = [EpochEndOffset(LeaderEpoch(0), Offset(1))]
    scene.manager.fetch_purgatory.check_and_complete(TopicPartition("t", 0))
    (((_, data),),) = responses  # type: ignore[misc]
    assert data.diverging_epoch == (0, 1)  # type: ignore[has-type]


def test_its_time_comes() -> None:
    scene, responses = waiting()
    scene.pass_time(499)
    assert responses == []
    scene.pass_time(1)
    (((_, data),),) = responses  # type: ignore[misc]
    assert (data.error_code, data.high_watermark, data.records) == (ErrorCode.NONE, 1, None)  # type: ignore[has-type]
    assert scene.manager.consumer_fetch_expirations == 1
    scene.produce("t", 100)
    assert len(responses) == 1
    assert scene.manager.fetch_purgatory.watched == 0


def test_a_follower_that_waits_gets_new_records_beyond_the_high_watermark() -> None:
    scene = ReplicaScene()
    scene.topic("t", replicas=(1, 2))
    responses = scene.fetch(params(max_wait_ms=500, replica_id=2), wanted("t", 0))
    scene.produce("t", 100)
    assert error(responses) == ErrorCode.NONE
    scene.fetch(params(max_wait_ms=500, replica_id=2), wanted("t", 1))
    scene.pass_time(500)
    assert scene.manager.follower_fetch_expirations == 1


@pytest.mark.parametrize(
    "ask",
    [
        lambda s: s.fetch(params(max_wait_ms=0), wanted("t", 1)),
        lambda s: s.fetch(params(max_wait_ms=500, min_bytes=0), wanted("t", 1)),
        lambda s: s.fetch(params(max_wait_ms=500), wanted("t", 0)),
        lambda s: s.fetch(params(max_wait_ms=500), wanted("t", 1), wanted("t", 9)),
        lambda s: s.fetch(params(max_wait_ms=500), wanted("absent", 0), wanted("absent", 1)),
        lambda s: s.fetch(params(max_wait_ms=500)),
        lambda s: s.fetch(params(max_wait_ms=500), wanted("t", 1, last_fetched_epoch=2)),
    ],
    ids=["no wait", "no bytes wanted", "enough there", "an error", "all unknown", "no partitions", "a diverging epoch"],
)
def test_what_completes_at_once(ask: Callable[[ReplicaScene], list[object]]) -> None:
    scene = ReplicaScene()
    scene.topic("t")
    scene.produce("t", 100)
    scene.log("t").epochs = [EpochEndOffset(LeaderEpoch(1), Offset(1))]
    assert len(ask(scene)) == 1
    assert scene.manager.fetch_purgatory.delayed == 0


def test_a_first_batch_that_is_only_too_large_for_a_later_partition_does_not_count_as_read() -> None:
    scene = ReplicaScene()
    scene.topic("t", 2)
    scene.produce("t", 10, partition=0)
    scene.produce("t", 500, partition=1)
    responses = scene.fetch(params(max_wait_ms=500, min_bytes=100, max_bytes=200), wanted("t", 0), wanted("t", 0, partition=1))
    assert len(responses) == 1, "its bytes are available to the next request"


@pytest.mark.parametrize("is_created", [False, True])
def test_not_case_c_a_partition_that_was_unknown_from_the_start(is_created: bool) -> None:
    scene = ReplicaScene()
    scene.topic("t")
    scene.produce("t", 100)
    responses: list[Any] = scene.fetch(params(max_wait_ms=500), wanted("t", 1), wanted("later", 0))
    scene.manager.fetch_purgatory.check_and_complete(TopicPartition("t", 0))
    assert responses == []
    if is_created:
        scene.topic("later")
    scene.manager.fetch_purgatory.check_and_complete(TopicPartition("t", 0))
    assert len(responses) == is_created
    if not is_created:
        scene.produce("t", 100)
    (((_, first), (_, second)),) = responses
    assert first.error_code == 0
    assert second.error_code == (ErrorCode.NONE if is_created else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


@pytest.mark.parametrize("is_named_twice", [False, True])
def test_a_fetch_of_many_partitions_looks_only_at_the_partition_that_changed(
    monkeypatch: pytest.MonkeyPatch, is_named_twice: bool
) -> None:
    scene, looks = ReplicaScene(), list[str]()
    scene.topic("t", 50)
    look_at = DelayedFetch._look_at

    def noted(self: DelayedFetch, one: Any, start: Any) -> int:
        looks.append(f"{one.topic_partition}")
        return look_at(self, one, start)

    monkeypatch.setattr(DelayedFetch, "_look_at", noted)
    asked = [wanted("t", 0, partition=number) for number in range(50)] + [wanted("t", 0)] * is_named_twice
    responses = scene.fetch(params(max_wait_ms=500, min_bytes=250), *asked)
    assert is_named_twice or len(looks) == 50, "each once"
    looks.clear()
    scene.produce("t", 100, partition=7)
    scene.produce("t", 100, partition=9)
    assert responses == []
    scene.produce("t", 50, partition=7)
    assert len(responses) == 1
    assert is_named_twice or looks == ["t-7", "t-9", "t-7"]


@pytest.mark.parametrize("event", ["removed", "failed"])
def test_a_fetch_that_remembers_ends_with_an_event_of_another_kind(event: str) -> None:
    scene = ReplicaScene()
    scene.topic("t", 50)
    scene.topic("other")
    asked = [*(wanted("t", 0, partition=number) for number in range(50)), wanted("other", 0)]
    responses = scene.fetch(params(max_wait_ms=500, min_bytes=250), *asked)
    scene.produce("t", 100, partition=7)
    assert responses == []
    if event == "removed":
        scene.remove("other")
    else:
        scene.manager.mark_offline(TopicPartition("other", 0))
    assert len(responses) == 1


@pytest.mark.parametrize(
    ("parts", "bytes_readable"),
    [
        (["usual"], 0),
        (["unknown"], 1 << 32),
        (["unknown", "usual"], 0),
        (["read"], 10),
        (["read", "read"], 20),
        ([], 1 << 32),
        (["usual", "fenced"], 1 << 32),
        (["unknown", "fenced"], 1 << 32),
    ],
)
def test_when_a_response_need_not_wait(parts: list[str], bytes_readable: int) -> None:
    kinds = {
        "usual": FetchPartitionData(),
        "unknown": FetchPartitionData(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        "read": FetchPartitionData(records=FileRecords(None, 0, 10)),  # type: ignore[arg-type]  # nothing reads it
        "fenced": FetchPartitionData(ErrorCode.FENCED_LEADER_EPOCH),
    }
    results = [(wanted("t", 0), kinds[name]) for name in parts]
    assert is_enough(params(max_wait_ms=0), results)
    for min_bytes in (1, 10, 11, 20, 21, 2**31 - 1):
        assert is_enough(params(max_wait_ms=1, min_bytes=min_bytes), results) == (bytes_readable >= min_bytes)


def test_an_append_to_many_partitions_wakes_those_that_wait_in_slices() -> None:
    scene, turns = ReplicaScene(), list[Callable[[], None]]()
    scene.topic("t", 20)
    responses = [scene.fetch(params(max_wait_ms=500), wanted("t", 0, partition=number)) for number in range(20)]
    scene.timer.slice_s = 0.0
    scene.timer._call_at = lambda when_ms, work: turns.append(work) or never(when_ms, work)
    appends = Appends(scene.manager, 1, {TopicPartition("t", number): memoryview(bytes(100)) for number in range(20)})
    assert appends.run()
    assert sum(map(len, responses)) == 1
    while turns:
        turns.pop(0)()
    assert [len(one) for one in responses] == [1] * 20
