"""A thread that decodes, encodes or frees a long message keeps the interpreter from the loop only for short times.

`python -m tests.protocol.test_holds` prints these times under the broker's settings of the collector.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import pytest

from pybroker.protocol import codec
from pybroker.protocol.codec import DecodeError, decode, dissolve, encode, encode_response
from pybroker.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from pybroker.turns.garbage import THRESHOLDS, keep_collections_short
from testing.holds import longest_hold_ms

COUNT = 200_000
ROUNDS = 6
LIMIT_MS = 6.0
"""About 1.2 on a quiet machine. The faults that these tests look for take 10 to 60, and others share the caches and the host."""

pytestmark = pytest.mark.skipif(not codec.IS_NATIVE, reason="in Python each element of the test itself takes long")


@pytest.fixture(scope="module", autouse=True)
def twin() -> None:
    """Replace the fixture that runs each test once for each twin: Python code lets go by itself."""


def commit(count: int = COUNT, topics: int = 1) -> OffsetCommitRequest:
    partitions = [OffsetCommitRequestPartition(partition_index=index, committed_metadata="m") for index in range(count // topics)]
    return OffsetCommitRequest(group_id="g", topics=[OffsetCommitRequestTopic(name="t", partitions=partitions)] * topics)


def frame(count: int = COUNT, topics: int = 1) -> memoryview:
    return memoryview(b"".join(encode(commit(count, topics), 8)))  # type: ignore[arg-type]  # no late parts


def decoding() -> Callable[[], object]:
    kept: list[Any] = []
    data = frame()
    return lambda: kept.append(decode(OffsetCommitRequest, 8, data))


def damage(topics: int = 1) -> Callable[[], object]:
    data = frame(topics=topics)[:-3]

    def work() -> None:
        with pytest.raises(DecodeError):
            decode(OffsetCommitRequest, 8, data)

    return work


def damage_behind_many_topics() -> Callable[[], object]:
    return damage(topics=300)


def encoding() -> Callable[[], object]:
    partitions = [OffsetCommitResponsePartition(partition_index=index) for index in range(2 * COUNT)]
    response = OffsetCommitResponse(topics=[OffsetCommitResponseTopic(name="t", partitions=partitions)])
    return lambda: encode_response(response, 8, 1)


def freeing() -> Callable[[], object]:
    held = [decode(OffsetCommitRequest, 8, frame())]
    return lambda: dissolve(held, 8)


WORKS = (decoding, damage, damage_behind_many_topics, encoding, freeing)


@pytest.mark.judges_time
@pytest.mark.parametrize("prepare", WORKS)
def test_a_long_message_in_a_thread_lets_the_loop_have_the_interpreter(prepare: Callable[[], Callable[[], object]]) -> None:
    work, thresholds = prepare(), gc.get_threshold()
    gc.set_threshold(*THRESHOLDS)  # a broker freezes, too: without that, a collection of what is decoded is always long
    try:
        assert longest_hold_ms(work) < LIMIT_MS
    finally:
        gc.set_threshold(*thresholds)


def main() -> None:
    keep_collections_short()
    for prepare in WORKS:
        times = sorted(longest_hold_ms(prepare()) for _ in range(ROUNDS))
        print(f"{prepare.__name__}: {times[0]:.1f} to {times[-1]:.1f} ms")


if __name__ == "__main__":
    main()
