"""AddOffsetsToTxn puts the partition of a group's offsets into a transaction."""

from __future__ import annotations

from pathlib import Path

from tests.api.handlers.test_txn_offset_commit import NONE
from tests.api.offset_transactions import OffsetProducer, committed
from tests.api.transactions import broker


async def test_the_request_makes_the_topic_of_offsets(tmp_path: Path) -> None:
    whole = await broker(tmp_path)
    producer = OffsetProducer(whole, 1)
    await producer.init()
    assert await producer.open_offsets() == NONE
    assert await producer.commit(4) == [NONE]
    assert await producer.end(commit=True) == NONE
    assert await committed(whole) == [4, -1]
