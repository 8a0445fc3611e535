"""DescribeTransactions shows the state of a transactional id."""

from __future__ import annotations

from pathlib import Path

from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages.describe_transactions import DescribeTransactionsRequest
from testing.scenes.api.whole import NOW_MS
from tests.api.handlers.test_list_transactions import NONE, three


async def test_an_id_is_described(tmp_path: Path) -> None:
    whole, is_open = await three(tmp_path)
    response = await whole.ask(DescribeTransactionsRequest(transactional_ids=["open-1", "done-1", "unknown", ""]), 0)
    one, done, unknown, empty = response.transaction_states
    assert (one.error_code, one.transactional_id, one.transaction_state) == (NONE, "open-1", "Ongoing")
    assert (one.producer_id, one.producer_epoch) == (is_open.producer_id, is_open.epoch)
    assert (one.transaction_timeout_ms, one.transaction_start_time_ms) == (50_000, NOW_MS)
    assert [(topic.topic, topic.partitions) for topic in one.topics] == [("t", [0, 1])]
    assert (done.transaction_state, done.producer_epoch, done.topics) == ("CompleteCommit", 1, [])
    assert (unknown.error_code, unknown.transactional_id) == (ErrorCode.TRANSACTIONAL_ID_NOT_FOUND, "unknown")
    assert empty.error_code == ErrorCode.INVALID_REQUEST
