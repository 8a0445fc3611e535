"""Transactions whose records are refused for a while, as on a full volume, end all the same."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

import pytest

from pybroker.log.log import Log
from pybroker.model import TopicPartition
from pybroker.protocol.error_codes import ErrorCode, KafkaError
from testing.scenes.api.whole import Whole
from tests.api.transactions import Producer, broker, fetched

NONE = ErrorCode.NONE


@contextmanager
def refusing(whole: Whole, topic: str) -> Iterator[None]:
    """Let every append to a topic be refused, as on a full volume."""
    append = Log.append_as_leader

    def refuse(log: Log, *args: object) -> object:
        if log.topic_partition.topic == topic:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR)
        return append(log, *args)  # type: ignore[arg-type]

    with mock.patch.object(Log, "append_as_leader", refuse):
        yield


async def last_stable(whole: Whole) -> tuple[int, int]:
    _, data = await fetched(whole, 0, committed=True)
    return data.last_stable_offset, data.high_watermark


async def opened(folder: Path, version: int) -> tuple[Whole, Producer]:
    """Return a broker, and a producer with an open transaction that has a record."""
    whole = await broker(folder)
    producer = Producer(whole, version)
    assert await producer.init(timeout_ms=10_000) == NONE
    if version == 1:
        assert await producer.add(0) == [NONE]
    assert await producer.send(0, b"a") == NONE
    return whole, producer


@pytest.mark.parametrize("version", [1, 2])
async def test_the_time_of_a_transaction_runs_on_when_its_end_was_refused(tmp_path: Path, version: int) -> None:
    whole, producer = await opened(tmp_path, version)
    with refusing(whole, "__transaction_state"):
        assert await producer.end(commit=True) == ErrorCode.NOT_COORDINATOR
    assert await last_stable(whole) == (0, 1)
    whole.pass_time(11_000)
    assert await last_stable(whole) == (2, 2)


async def test_the_abort_by_timeout_comes_when_its_record_can_be_written(tmp_path: Path) -> None:
    whole, _ = await opened(tmp_path, 2)
    with refusing(whole, "__transaction_state"):
        whole.pass_time(12_000)
        assert await last_stable(whole) == (0, 1)
    whole.pass_time(1_000)
    assert await last_stable(whole) == (2, 2)


async def test_a_marker_that_waits_does_not_go_to_a_new_topic_of_the_name(tmp_path: Path) -> None:
    whole, producer = await opened(tmp_path, 2)
    with refusing(whole, "t"):
        assert await producer.end(commit=True) == NONE
    await whole.controller.delete_topics([whole.controller.image.topics["t"].topic_id])
    await whole.create("t", 2)
    whole.pass_time(1_000)
    assert await producer.init() == NONE
    assert whole.replicas.partition_or_raise(TopicPartition("t", 0)).log.log_end_offset == 0
