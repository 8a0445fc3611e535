"""Fetch responds with the same bytes and counts the same with the native loops and with the pure loops."""

from __future__ import annotations

import asyncio
import dataclasses
import gc
import itertools
import os
import random
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from pybroker.api.dispatch import Dispatcher
from pybroker.log.results import AppendOrigin
from pybroker.metrics.broker_metrics import BrokerMetrics, TopicMetrics
from pybroker.model import CoordinatorEpoch, Offset, ProducerEpoch, TopicPartition
from pybroker.protocol.codec import encode_request
from pybroker.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic
from pybroker.records.control import ControlType, TransactionMarker, build_transaction_marker
from pybroker.replication.fetch_session import FetchSessionCache
from testing.scenes.api import records
from testing.scenes.api.whole import Whole, collected
from testing.scenes.replication.appended import append_records
from testing.scenes.replication.loops import LOOPS, use

TOPICS = {"plain": 3, "rolled": 2, "open": 1, "ended": 1}
ROLLED = ("rolled", "ended")
WAIT_MS = 100
STEPS = 150
TASK_STEPS = 5  # more than a fetch takes to read, and to wait for more
FAR_OFFSET = 1 << 40  # whose number is an object of its own, unlike small ones


class Twins:
    """Two dispatchers with sessions and counters of their own, on the same logs."""

    def __init__(self, whole: Whole, monkeypatch: pytest.MonkeyPatch) -> None:
        self.whole = whole
        broker = whole.dispatcher._broker
        self.brokers = [
            dataclasses.replace(
                broker, metrics=BrokerMetrics(), fetch_sessions=FetchSessionCache(whole.clock, slots_max=2, partitions_max=10_000)
            )
            for _ in LOOPS
        ]
        self._dispatchers = [Dispatcher(one) for one in self.brokers]
        self._numbers = [itertools.count(100) for _ in LOOPS]
        self._turn = 0
        monkeypatch.setattr("pybroker.replication.fetch_session.secrets.randbelow", lambda _max: next(self._numbers[self._turn]))

    async def ask(self, request: FetchRequest, version: int) -> Any:
        """Return the response, decoded, after asserting that both give the same."""
        frame = b"".join(bytes(part) for part in encode_request(request, version, correlation_id=77, client_id="test"))  # type: ignore[arg-type]
        responses = []
        for turn, (name, dispatcher) in enumerate(zip(LOOPS, self._dispatchers, strict=True)):
            self._turn = turn
            with use(name):
                responses.append(dispatcher.handle(self.whole.connection, memoryview(bytearray(frame))[4:]))
                for _ in range(TASK_STEPS):  # the fetch of an old client is a task, which must wait before its time is up
                    await asyncio.sleep(0)
        if isinstance(responses[0], asyncio.Future):
            self.whole.pass_time(2 * WAIT_MS)
        found = []
        for turn, response in enumerate(responses):
            self._turn = turn
            with use(LOOPS[turn]):
                got = await response if isinstance(response, asyncio.Future) else response
            assert got is not None
            found.append(collected(got))
        assert found[0] == found[-1]
        return self.whole.read(found[0], request, version)

    def counted(self) -> list[dict[str, list[int]]]:
        """Return all numbers of the topics, of each twin."""
        return [
            {name: numbers_of(one) for name, one in {**b.metrics.topics, "": b.metrics.all_topics}.items()} for b in self.brokers
        ]


def numbers_of(metrics: TopicMetrics) -> list[int]:
    return [getattr(metrics, name) for name in metrics.NAMES]


def append(whole: Whole, rng: random.Random) -> None:
    """Append one or two batches, small or large, to some partition; those in `open` are of a transaction that does not end,
    those in `ended` of one that ends with them.
    """
    topic = rng.choice(list(TOPICS))
    number = rng.randrange(TOPICS[topic])
    partition = whole.replicas.partitions[TopicPartition(topic, number)]
    log = partition.log
    fields: dict[str, Any] = {}
    if topic == "ended" or (topic == "open" and log.log_end_offset > 3):
        fields = {"producer_id": log.log_end_offset, "producer_epoch": 0, "base_sequence": 0, "is_transactional": True}
    data = records.batch_of_values(*[bytes(rng.choice((10, 100, 5000)))] * rng.randrange(1, 3), **fields)
    append_records(
        whole.replicas,
        timeout_ms=1000,
        acks=1,
        entries={TopicPartition(topic, number): memoryview(bytearray(data))},
        on_complete=lambda _results: None,
    )
    if topic == "ended":
        marker = build_transaction_marker(
            TransactionMarker(rng.choice((ControlType.ABORT, ControlType.COMMIT)), CoordinatorEpoch(0)),
            producer_id=fields["producer_id"],
            producer_epoch=ProducerEpoch(0),
            timestamp_ms=whole.clock.time_ms(),
        )
        partition.append_records_to_leader(memoryview(bytearray(marker)), 1, whole.clock.time_ms(), AppendOrigin.COORDINATOR)


def fetch(whole: Whole, rng: random.Random, version: int, **session: Any) -> FetchRequest:
    """Return a request for some partitions, known or not, from offsets that are there or not."""
    topics = []
    for name in rng.sample([*TOPICS, "unknown"], rng.randrange(1, 4)):
        partitions = []
        for number in range(rng.randrange(1, TOPICS.get(name, 1) + 2)):
            partition = whole.replicas.partitions.get(TopicPartition(name, number))
            end = 0 if partition is None else partition.log.log_end_offset
            partitions.append(
                FetchPartition(
                    partition=number,
                    fetch_offset=rng.choice((0, end, end, max(end - 1, 0), rng.randrange(end + 2), end + 9)),
                    partition_max_bytes=rng.choice((1 << 20, 1 << 20, 300, 0, -1)),
                    current_leader_epoch=rng.choice((-1, -1, 0, 5)) if version >= 9 else -1,
                    last_fetched_epoch=rng.choice((-1, -1, -1, 0)) if version >= 12 else -1,
                )
            )
        image = whole.controller.image.topics.get(name)
        topics.append(
            FetchTopic(topic=name, topic_id=bytes(15) + b"?" if image is None else image.topic_id, partitions=partitions)
        )
    return FetchRequest(
        max_wait_ms=rng.choice((0, 0, WAIT_MS)),
        min_bytes=rng.choice((0, 1, 1, 1 << 20)),
        max_bytes=rng.choice((1 << 20, 1 << 20, 500, 0)),
        isolation_level=rng.choice((0, 0, 1)) if version >= 4 else 0,
        topics=topics,
        **session,
    )


@pytest.mark.parametrize("seed", range(4))
async def test_both_respond_and_count_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    rng = random.Random(seed)
    whole = await Whole(tmp_path).start()
    for name, count in TOPICS.items():
        await whole.create(name, count, **({"segment_bytes": "6000"} if name in ROLLED else {}))
    plain = whole.replicas.partitions[TopicPartition("plain", 1)]
    plain.log.truncate_fully_and_start_at(Offset(FAR_OFFSET))
    plain._advance_high_watermark()
    twins = Twins(whole, monkeypatch)
    session_id = epoch = 0
    for step in range(STEPS):
        append(whole, rng)
        if step % 40 == 39:
            log = whole.replicas.partitions[TopicPartition("plain", 0)].log
            log.increment_log_start_offset(Offset(log.log_end_offset // 2), high_watermark=log.log_end_offset)
        version = rng.randrange(19)
        await twins.ask(fetch(whole, rng, version), version)
        if step % 10 == 0:  # a new session
            response = await twins.ask(fetch(whole, rng, 12, session_epoch=0), 12)
            session_id, epoch = response.session_id, 1
        request = fetch(whole, rng, 12, session_id=session_id, session_epoch=epoch)
        if step % 3:
            request.topics = []
        if step % 7 == 6:
            request.forgotten_topics_data = [ForgottenTopic(topic="plain", partitions=[0, 1])]
        await twins.ask(request, 12)
        epoch += 1
    counted = twins.counted()
    assert counted[0] == counted[-1]
    gc.collect()
    assert plain.high_watermark == plain.log.log_end_offset > FAR_OFFSET
    ended = whole.replicas.partitions[TopicPartition("ended", 0)].log
    assert any(ended.aborted_counts.values())
    assert len(ended.segments) > 1
    assert counted[0]["plain"][TopicMetrics.NAMES.index("bytes_out")] > 10_000


async def test_nothing_that_is_looked_at_is_given_away(tmp_path: Path) -> None:
    whole = await Whole(tmp_path).start()
    await whole.create("plain")
    partition = whole.replicas.partitions[TopicPartition("plain", 0)]
    partition.log.truncate_fully_and_start_at(Offset(FAR_OFFSET))
    append_records(
        whole.replicas,
        timeout_ms=1000,
        acks=1,
        entries={TopicPartition("plain", 0): memoryview(bytearray(records.batch_of_values(b"a")))},
        on_complete=lambda _results: None,
    )
    partitions = [FetchPartition(partition=0, fetch_offset=FAR_OFFSET, partition_max_bytes=1000)]
    request = FetchRequest(max_bytes=1000, topics=[FetchTopic(topic="plain", partitions=partitions)])
    looked_at = [partition, partition.log, partition.high_watermark_metadata, *partition.high_watermark_metadata]
    looked_at += [partition.log.segments.active, partition.log.segments.active.file, None, b""]
    whole.send(request, 11)
    before = [sys.getrefcount(one) for one in looked_at]
    for _ in range(1000):
        whole.send(request, 11)
    assert all(abs(sys.getrefcount(one) - was) < 100 for one, was in zip(looked_at, before, strict=True))


def test_pure_python_can_be_forced() -> None:
    code = "from pybroker.replication import reading; print(reading.IS_NATIVE)"
    is_built = find_spec("pybroker.replication._reading_native") is not None
    for pure in ("0", "1"):
        environment = {**os.environ, "PYBROKER_PURE": pure}
        printed = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True).stdout
        assert printed.strip() == str(pure == "0" and is_built)
