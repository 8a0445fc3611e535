"""The table of marker results in docs/design/transactions.md, row by row, and how a marker that is refused is sent again."""

from __future__ import annotations

import itertools
import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

import pytest

from pybroker.coordinator.transaction.markers import MarkerWriter
from pybroker.coordinator.transaction.state import Marker, State
from pybroker.model import ProducerEpoch, TopicPartition
from pybroker.protocol.error_codes import ErrorCode
from testing.scenes.api.whole import Whole
from tests.api.transactions import Producer, broker

TABLE = Path(__file__).parents[3] / "docs" / "design" / "transactions.md"
_ROW = re.compile(r"^\| (?P<code>any other|[A-Z_]+) \| (?P<effect>done|sent again|fenced) \|", re.MULTILINE)
ANY_OTHER = ErrorCode.CORRUPT_MESSAGE
PARTITION = TopicPartition("t", 0)
NONE = ErrorCode.NONE


def rows() -> list[tuple[ErrorCode, str]]:
    found = [(row["code"], row["effect"]) for row in _ROW.finditer(TABLE.read_text())]
    return [(ANY_OTHER if code == "any other" else ErrorCode[code], effect) for code, effect in found]


@contextmanager
def responding(code: ErrorCode, partition: TopicPartition = PARTITION) -> Iterator[list[int]]:
    """Let every marker of a partition get a result without being written; yields a list of the times at which it was sent."""
    sent: list[int] = []
    write = MarkerWriter.write

    def respond(self: MarkerWriter, where: TopicPartition, marker: Marker, done: object) -> None:
        if where != partition:
            write(self, where, marker, done)  # type: ignore[arg-type]
            return
        sent.append(self._clock.time_ms())
        done(where, code)  # type: ignore[operator]

    with mock.patch.object(MarkerWriter, "write", respond):
        yield sent


async def opened(folder: Path) -> tuple[Whole, Producer]:
    """Return a broker, and a producer with an open transaction that has a record in both partitions."""
    whole = await broker(folder)
    producer = Producer(whole, 2)
    assert await producer.init() == NONE
    for partition in (0, 1):
        assert await producer.send(partition, b"a") == NONE
    return whole, producer


def state(whole: Whole, producer: Producer) -> State:
    return next(shard.transactions[producer.tid].state for shard in whole.transactions.runtime.shards if shard.transactions)


def is_open(whole: Whole, partition: int) -> bool:
    return bool(whole.replicas.partition_or_raise(TopicPartition("t", partition)).log.producers.ongoing)


@pytest.mark.parametrize(("code", "effect"), rows())
async def test_a_result_has_the_effect_of_the_table(tmp_path: Path, code: ErrorCode, effect: str) -> None:
    whole, producer = await opened(tmp_path)
    with responding(code) as sent:
        assert await producer.end(commit=True) == NONE
        first = state(whole, producer), len(sent)
    whole.pass_time(60_000)
    then = state(whole, producer), is_open(whole, 0)
    assert not is_open(whole, 1)
    prepared, complete = State.PREPARE_COMMIT, State.COMPLETE_COMMIT
    expected = {
        "done": (complete, complete, True),
        "sent again": (prepared, complete, False),
        "fenced": (prepared, prepared, True),
    }
    assert (first[0], *then) == expected[effect]
    assert first[1] == 1
    whole.serve()  # the coordinator is loaded again
    assert state(whole, producer) is complete
    assert is_open(whole, 0) == (effect == "done")


async def test_an_epoch_is_refused_for_good_only_where_a_transaction_of_the_producer_is_open(tmp_path: Path) -> None:
    whole, producer = await opened(tmp_path)
    producers = whole.replicas.partition_or_raise(PARTITION).log.producers
    producers.ongoing.clear()  # as after a later transaction, which a lost machine has left in this partition alone
    entry = next(iter(producers.producers.values()))
    producers.producers[entry.producer_id] = entry._replace(producer_epoch=ProducerEpoch(7), transaction_first_offset=-1)  # type: ignore[arg-type]
    assert await producer.end(commit=True) == NONE
    assert state(whole, producer) is State.COMPLETE_COMMIT


def test_the_table_has_all_that_kafka_distinguishes() -> None:
    assert len(rows()) == len({code for code, _ in rows()}) >= 12
    assert {effect for _, effect in rows()} == {"done", "sent again", "fenced"}


async def test_a_marker_that_is_refused_is_sent_again_less_and_less_often(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    whole, producer = await opened(tmp_path)
    with responding(ErrorCode.KAFKA_STORAGE_ERROR) as sent:
        assert await producer.end(commit=True) == NONE
        for _ in range(200):
            whole.clock.advance(100)
            whole.timer.advance()
        pauses = [later - earlier for earlier, later in itertools.pairwise(sent)]
        assert pauses == [100, 200, 400, 800, 1_600, *[3_200] * (len(pauses) - 5)]
        assert len(pauses) == 10
    lines = [record for record in caplog.records if "cannot take the marker" in record.getMessage()]
    assert [record.levelname for record in lines] == ["WARNING", *["DEBUG"] * 10]
    whole.pass_time(10_000)
    assert state(whole, producer) is State.COMPLETE_COMMIT
    caplog.clear()
    assert await producer.send(0, b"b") == NONE
    with responding(ErrorCode.KAFKA_STORAGE_ERROR) as sent:  # it is another cause, because markers were taken in between
        assert await producer.end(commit=True) == NONE
        whole.clock.advance(100)
        whole.timer.advance()
        assert len(sent) == 2
    assert [record.levelname for record in caplog.records if "cannot take" in record.getMessage()] == ["WARNING", "DEBUG"]
