"""CreatePartitions in every version: what grows has its logs at once, what is refused stays as it is."""

from __future__ import annotations

from pathlib import Path

import pytest

from pybroker.model import TopicPartition
from pybroker.protocol.codec import message_versions
from pybroker.protocol.error_codes import ErrorCode, KafkaError
from pybroker.protocol.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from testing.scenes.api.whole import Whole

VERSIONS = range(message_versions(37)[1] + 1)


def topic(name: str, count: int, *assignments: list[int]) -> CreatePartitionsTopic:
    given = [CreatePartitionsAssignment(broker_ids=brokers) for brokers in assignments] or None
    return CreatePartitionsTopic(name=name, count=count, assignments=given)


@pytest.mark.parametrize("version", VERSIONS)
async def test_good_and_bad_topics(tmp_path: Path, version: int) -> None:
    whole = await Whole(tmp_path).start()
    for name in ("grows", "placed", "same", "less", "unknown-broker", "few", "twice"):
        await whole.create(name, 2)
    request = CreatePartitionsRequest(
        topics=[
            topic("grows", 4),
            topic("placed", 3, [1]),
            topic("same", 2),
            topic("less", 1),
            topic("nope", 3),
            topic("unknown-broker", 3, [7]),
            topic("few", 4, [1]),
            topic("twice", 5),
            topic("twice", 6),
        ]
    )
    response = await whole.ask(request, version)
    assert {result.name: result.error_code for result in response.results} == {
        "grows": 0,
        "placed": 0,
        "same": ErrorCode.INVALID_PARTITIONS,
        "less": ErrorCode.INVALID_PARTITIONS,
        "nope": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        "unknown-broker": ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        "few": ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        "twice": ErrorCode.INVALID_REQUEST,
    }
    assert all((result.error_message is None) == (result.error_code == 0) for result in response.results)
    counts = {name: len(image.partitions) for name, image in whole.controller.image.topics.items()}
    assert counts == {"grows": 4, "placed": 3, "same": 2, "less": 2, "unknown-broker": 2, "few": 2, "twice": 2}
    for name, count in counts.items():
        assert [whole.logs.get(TopicPartition(name, number)) is not None for number in range(count + 1)] == [True] * count + [
            False
        ]
    assert (tmp_path / "grows-3").is_dir()


@pytest.mark.parametrize("version", VERSIONS)
async def test_validate_only(tmp_path: Path, version: int) -> None:
    whole = await Whole(tmp_path).start()
    await whole.create("t")
    before = whole.controller.image
    response = await whole.ask(CreatePartitionsRequest(topics=[topic("t", 4), topic("u", 1)], validate_only=True), version)
    assert [result.error_code for result in response.results] == [0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert whole.controller.image is before


async def test_too_many_are_refused(tmp_path: Path) -> None:
    whole = await Whole(tmp_path).start()
    await whole.create("t")
    (result,) = (await whole.ask(CreatePartitionsRequest(topics=[topic("t", 2**31 - 1)]), 3)).results
    assert result.error_code == ErrorCode.POLICY_VIOLATION


async def test_when_a_log_cannot_be_made_the_topic_is_as_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = await Whole(tmp_path).start()
    await whole.create("t")
    create = whole.logs.create

    def failing(topic_partition: TopicPartition, *arguments: object, **options: object) -> object:
        if topic_partition.partition == 2:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR)
        return create(topic_partition, *arguments, **options)  # type: ignore[arg-type]  # as it was called

    monkeypatch.setattr(type(whole.logs), "create", lambda _self, *arguments, **options: failing(*arguments, **options))
    (result,) = (await whole.ask(CreatePartitionsRequest(topics=[topic("t", 4)]), 3)).results
    assert result.error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert len(whole.controller.image.topics["t"].partitions) == 1
    assert [log.topic_partition for log in whole.logs.all_logs()] == [TopicPartition("t", 0)]
