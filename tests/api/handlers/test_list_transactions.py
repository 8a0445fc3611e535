"""Administrators list transactional ids."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pybroker.coordinator.transaction.listing import split_states
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages.describe_transactions import DescribeTransactionsRequest
from pybroker.protocol.messages.list_transactions import ListTransactionsRequest
from testing.scenes.api.whole import Whole
from tests.api.transactions import Producer, broker

NONE = ErrorCode.NONE


async def three(folder: Path) -> tuple[Whole, Producer]:
    """Start a broker with three ids: empty, open for 5 s over two partitions, committed now; return the open one."""
    whole = await broker(folder)
    await Producer(whole, tid="empty").init()
    is_open = Producer(whole, version=1, tid="open-1")
    await is_open.init(timeout_ms=50_000)
    await is_open.add(1, 0)
    assert await is_open.send(1, b"a", b"b") == NONE
    whole.pass_time(5_000)
    done = Producer(whole, version=2, tid="done-1")
    await done.init()
    await done.send(0, b"c")
    assert await done.end(commit=True) == NONE
    return whole, is_open


async def listed(whole: Whole, version: int = 2, **filters: Any) -> list[tuple[str, str]]:
    response = await whole.ask(ListTransactionsRequest(**filters), version)
    assert (response.error_code, response.unknown_state_filters) == (NONE, [])
    return sorted((one.transactional_id, one.transaction_state) for one in response.transaction_states)


async def test_ids_are_listed_by_state_producer_duration_and_pattern(tmp_path: Path) -> None:
    whole, is_open = await three(tmp_path)
    empty, open_, done = ("empty", "Empty"), ("open-1", "Ongoing"), ("done-1", "CompleteCommit")
    for version in (0, 1, 2):
        assert await listed(whole, version) == [done, empty, open_]
        assert await listed(whole, version, state_filters=["Ongoing", "Empty"]) == [empty, open_]
        assert await listed(whole, version, producer_id_filters=[is_open.producer_id, 999]) == [open_]
    assert await listed(whole, 1, duration_filter=5_000) == [empty]  # begun at -1, as with Kafka
    assert await listed(whole, 1, duration_filter=4_999) == [empty, open_]
    assert await listed(whole, 1, duration_filter=4_999, state_filters=["Ongoing"]) == [open_]
    assert await listed(whole, transactional_id_pattern=".*-1") == [done, open_]
    assert await listed(whole, transactional_id_pattern="open") == []  # the whole id must match
    assert await listed(whole, transactional_id_pattern="") == [done, empty, open_]
    assert await listed(whole, transactional_id_pattern=".*-1", state_filters=["Ongoing"]) == [open_]


async def test_a_state_that_does_not_exist_is_named_and_matches_no_id(tmp_path: Path) -> None:
    whole, _ = await three(tmp_path)
    response = await whole.ask(ListTransactionsRequest(state_filters=["ongoing", "Dead"]), 2)
    assert (response.unknown_state_filters, response.transaction_states) == (["ongoing"], [])


async def test_a_pattern_that_is_not_valid_is_refused(tmp_path: Path) -> None:
    whole, _ = await three(tmp_path)
    response = await whole.ask(ListTransactionsRequest(transactional_id_pattern="(a"), 2)
    assert (response.error_code, response.transaction_states) == (ErrorCode.INVALID_REGULAR_EXPRESSION, [])


async def test_ids_are_loaded_before_they_are_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole, _ = await three(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(
            "pybroker.coordinator.runtime.loader.Loader.start", lambda self, number, *_: self._runtime.begin_loading(number)
        )
        whole.serve()
    response = await whole.ask(ListTransactionsRequest(), 2)
    assert response.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    response = await whole.ask(DescribeTransactionsRequest(transactional_ids=["open-1"]), 0)
    assert response.transaction_states[0].error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


def test_a_filter_has_the_names_of_states_and_those_that_are_none() -> None:
    known, unknown = split_states(["nonsense", "Empty", "Dead", "more", "Empty", "nonsense"])
    assert (known, unknown) == (frozenset({"Empty", "Dead"}), ["nonsense", "more"])
    assert split_states([]) == (None, [])


async def test_a_filter_of_unknown_states_matches_no_id(tmp_path: Path) -> None:
    whole, _ = await three(tmp_path)
    request = ListTransactionsRequest(state_filters=[f"state-{number}" for number in range(9_000)])
    response = await whole.ask(request, 2)
    assert (len(response.unknown_state_filters), response.transaction_states) == (9_000, [])
