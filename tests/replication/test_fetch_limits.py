"""The bytes that a fetch returns: a table of cases, and the rule written a second time, independently of the code."""

from __future__ import annotations

from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pybroker.protocol.error_codes import ErrorCode
from pybroker.replication.fetch_data import UNLIMITED_RESPONSE_BYTES
from testing.scenes.replication.scene import MIB, ReplicaScene, params, wanted


class Case(NamedTuple):
    about: str
    version: int
    max_bytes: int
    partitions: list[tuple[list[int], int]]  # batch sizes, the partition's limit
    given: list[int]  # bytes for each


CASES = [
    Case("all fits", 3, 1000, [([100, 100], 500), ([50], 500)], [200, 50]),
    Case("each up to its own limit", 3, 1000, [([100] * 9, 250), ([100] * 9, 300)], [250, 300]),
    Case("the rest of the request's limit", 3, 300, [([100, 100], 500), ([60, 60], 500), ([10], 500)], [200, 100, 0]),
    Case(
        "a later first batch that does not fit is left out", 3, 300, [([100, 100], 500), ([120], 500), ([10], 500)], [200, 0, 10]
    ),
    Case("the first batch whatever its own limit", 3, 1000, [([400, 10], 100), ([400], 100)], [400, 0]),
    Case("the first batch whatever the request's limit", 3, 10, [([400, 10], 1000), ([10], 1000)], [400, 0]),
    Case("both limits zero", 3, 0, [([400], 0), ([10], 0)], [400, 0]),
    Case("empty ones do not use up the promise", 3, 10, [([], 1000), ([400], 100), ([10], 1000)], [0, 400, 0]),
    Case("only the first non-empty has the promise", 3, 1000, [([5], 100), ([400], 100)], [5, 0]),
    Case("newest version alike", 17, 300, [([100, 100], 500), ([120], 500)], [200, 0]),
    Case("old: no limit on the request", 2, 10, [([100, 100], 500), ([60], 500)], [200, 60]),
    Case("old: cut at the limit, inside the first batch too", 2, 1000, [([400], 100), ([400, 5], 100)], [100, 100]),
    Case("oldest: alike", 0, 1000, [([400], 100), ([90, 20], 100)], [100, 100]),
    Case("old: a limit of zero gives nothing", 1, 1000, [([400], 0)], [0]),
]


def sizes(version: int, max_bytes: int, partitions: list[tuple[list[int], int]]) -> list[int]:
    scene = ReplicaScene()
    scene.topic("t", len(partitions))
    for number, (batches, _) in enumerate(partitions):
        scene.produce("t", *batches, partition=number)
    asked = [wanted("t", 0, limit, number) for number, (_, limit) in enumerate(partitions)]
    (results,) = scene.fetch(params(version, max_bytes=max_bytes), *asked)
    assert [one for one, _ in results] == asked, "in the request's order"
    assert all(data.error_code == ErrorCode.NONE for _, data in results)
    return [data.records.size if data.records else 0 for _, data in results]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.about)
def test_the_table(case: Case) -> None:
    assert sizes(case.version, case.max_bytes, case.partitions) == case.given


@given(
    version=st.integers(3, 17),
    max_bytes=st.integers(0, 600),
    partitions=st.lists(st.tuples(st.lists(st.integers(1, 200), max_size=4), st.integers(0, 300)), max_size=6),
)
def test_the_guarantees_of_kip_74(version: int, max_bytes: int, partitions: list[tuple[list[int], int]]) -> None:
    got = sizes(version, max_bytes, partitions)
    first = next((number for number, (batches, _) in enumerate(partitions) if batches), None)
    if first is None:
        assert got == [0] * len(partitions)
        return
    first_batch = partitions[first][0][0]
    assert got[first] >= first_batch, "progress"
    assert sum(got) <= max(max_bytes, first_batch), "the response is bounded"
    left = max(0, max_bytes - got[first])
    for number, (batches, limit) in enumerate(partitions):
        allowed = max(first_batch, min(limit, max_bytes)) if number == first else min(limit, left)
        assert got[number] <= allowed, "each partition's own limit"
        if number > first:
            assert got[number] == (min(sum(batches), allowed) if batches and batches[0] <= allowed else 0), "no less than allowed"
            left -= got[number]


@given(
    version=st.integers(0, 2),
    partitions=st.lists(st.tuples(st.lists(st.integers(1, 200), max_size=4), st.integers(0, 300)), max_size=6),
)
def test_old_versions_cut_each_partition_at_its_limit_and_nothing_else(
    version: int, partitions: list[tuple[list[int], int]]
) -> None:
    assert sizes(version, 1, partitions) == [min(sum(batches), limit) for batches, limit in partitions]


def test_the_brokers_own_limit_counts_and_min_bytes_is_never_more_than_what_can_be_given() -> None:
    asked = params(12, max_bytes=100 * MIB, min_bytes=90 * MIB)
    assert (asked.max_bytes, asked.min_bytes) == (55 * MIB, 55 * MIB)
    old = params(2, max_bytes=1, min_bytes=90 * MIB)
    assert (old.max_bytes, old.min_bytes) == (UNLIMITED_RESPONSE_BYTES, 90 * MIB)
    assert params(12, max_bytes=-5).max_bytes == 0


def test_a_negative_limit_of_a_partition_is_an_error() -> None:
    scene = ReplicaScene()
    scene.topic("t")
    (((_, data),),) = scene.fetch(params(), wanted("t", 0, -1))
    assert data.error_code == ErrorCode.INVALID_FETCH_SIZE
