from __future__ import annotations

from collections import Counter, defaultdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pybroker.spark.audit.compare import PRODUCER_TIER, RANGES_MAX, Count, Parameters, Row, Word, compare
from pybroker.spark.audit.tags import CHUNK, from_runs, ranges, runs

WIDTH = 1000
NO_COUNTS: list[tuple[int, int]] = []


def words(tier: int, records: list[tuple[int, int]]) -> list[Word]:
    """Return what Spark makes of the (bucket, number) of each record of a tier."""
    grouped: dict[tuple[int, int], Counter[int]] = defaultdict(Counter)
    for bucket, number in records:
        grouped[bucket, number // 64][number % 64] += 1
    found = []
    for (bucket, word), copies in grouped.items():
        bits = sum(1 << at for at in copies)
        nibbles = None
        if copies.total() != len(copies):
            nibbles = [sum(copies[at] << 4 * (at % 16) for at in copies if at // 16 == part) for part in range(4)]
        signed = bits - (1 << 64) if bits >> 63 else bits  # because Spark has signed 64-bit integers
        found.append(Word(tier, bucket, word, copies.total(), signed, nibbles))
    return found


def count(bucket: int, sent: list[int], acked: list[int], failed: list[int] | None = None) -> Count:
    return Count(bucket, *(runs(sum(1 << number for number in numbers)) for numbers in (sent, acked, failed or [])))


def ask(tiers: int = 1, **changes: object) -> Parameters:
    return Parameters(tiers=tiers, width_ms=WIDTH, **changes)  # type: ignore[arg-type]


def row(rows: list[Row], tier: int, bucket: int = 0) -> Row:
    return next(found for found in rows if (found.tier, found.bucket) == (tier, bucket))


@given(st.sets(st.integers(0, CHUNK - 1)))
def test_sets_come_back_from_runs(numbers: set[int]) -> None:
    bits = sum(1 << number for number in numbers)
    assert from_runs(runs(bits)) == bits
    assert {number for first, last in ranges(bits) for number in range(first, last + 1)} == numbers


@pytest.mark.parametrize("damaged", [[1], [-1, 3], [0, CHUNK + 1], [CHUNK, 1], [0, -1]])
def test_damaged_runs_are_refused(damaged: list[int]) -> None:
    with pytest.raises(ValueError, match="runs"):
        from_runs(damaged)


def test_one_lost_and_one_doubled_with_equal_counts() -> None:
    first = [(0, number) for number in range(10)]
    second = [(0, number) for number in [0, 1, 2, 4, 5, 6, 7, 7, 8, 9]]
    found = compare(ask(2), "t", 3, [*words(0, first), *words(1, second)], [count(0, [*range(10)], [*range(10)])])
    assert row(found, 0) == Row(0, 0, expected=10, present=10)
    base = 3 * CHUNK
    assert row(found, 1) == Row(
        1,
        0,
        expected=10,
        present=9,
        lost=1,
        lost_here=1,
        doubled=1,
        doubled_here=1,
        lost_ranges=[(base + 3, base + 3)],
        doubled_ranges=[(base + 7, base + 7)],
    )
    assert row(found, PRODUCER_TIER) == Row(PRODUCER_TIER, 0, expected=10, present=10)


def test_what_was_never_acknowledged_is_not_lost() -> None:
    # 2 was refused and is in no tier; 3 was refused and arrived all the same; nothing is known about 4; 5 has no count but
    # arrived
    counted = [count(0, [0, 1, 2, 3, 4], [0, 1], [2, 3])]
    found = compare(ask(2), "t", 0, [*words(0, [(0, 0), (0, 3), (0, 5)]), *words(1, [(0, 0)])], counted)
    assert row(found, 0) == Row(0, 0, expected=4, present=3, lost=1, lost_here=1, unknown=1, refused=1, lost_ranges=[(1, 1)])
    last = row(found, 1)
    assert (last.expected, last.present, last.lost, last.lost_here) == (4, 1, 3, 2)
    assert last.lost_ranges == [(1, 1), (3, 3), (5, 5)]
    assert row(found, PRODUCER_TIER) == Row(PRODUCER_TIER, 0, expected=2, present=2, refused=2, unknown=2)


def test_a_double_belongs_to_the_tier_that_made_it() -> None:
    found = compare(
        ask(3), "t", 0, [*words(0, [(0, 0)] * 2), *words(1, [(0, 0)] * 2), *words(2, [(0, 0)] * 5)], [count(0, [0], [0])]
    )
    assert [(row(found, tier).doubled, row(found, tier).doubled_here) for tier in range(3)] == [(1, 1), (1, 0), (4, 3)]


def test_more_copies_than_can_be_distinguished_are_all_counted() -> None:
    found = compare(ask(), "t", 0, words(0, [(0, 7)] * 40 + [(0, 8)]), [count(0, [7, 8], [7, 8])])
    assert row(found, 0).doubled == 39
    assert (row(found, 0).present, row(found, 0).lost) == (2, 0)


def test_the_bucket_is_the_producers_whatever_times_a_tier_has() -> None:
    counted = [count(0, [0, 1], [0, 1]), count(WIDTH, [2, 3], [2, 3])]
    arrived = [(WIDTH, 0), (WIDTH, 1), (2 * WIDTH, 2)]  # the second tier has the times of arrival as its timestamps
    found = compare(ask(2), "t", 0, [*words(0, [(0, 0), (0, 1), (WIDTH, 2), (WIDTH, 3)]), *words(1, arrived)], counted)
    assert [(one.tier, one.bucket, one.present, one.lost) for one in found if one.tier == 1] == [(1, 0, 2, 0), (1, WIDTH, 1, 1)]


def test_copies_in_two_buckets_are_doubles() -> None:
    found = compare(ask(), "t", 0, words(0, [(0, 5), (WIDTH, 5)]), [count(0, [*range(6)], [5])])
    assert (row(found, 0).present, row(found, 0).doubled, row(found, 0).doubled_ranges) == (1, 1, [(5, 5)])


def test_open_buckets_are_pending_but_doubles_are_doubles() -> None:
    parameters = ask(closed_ms=WIDTH)
    counted = [count(0, [0, 1], [0, 1]), count(WIDTH, [2, 3], [2, 3])]
    found = compare(parameters, "t", 0, words(0, [(0, 0), (WIDTH, 2), (WIDTH, 2)]), counted)
    assert (row(found, 0).lost, row(found, 0).pending) == (1, 0)
    last = row(found, 0, WIDTH)
    assert (last.expected, last.present, last.lost, last.pending, last.doubled, last.lost_ranges) == (2, 1, 0, 1, 1, [])


def test_what_may_have_been_deleted_because_of_its_age_is_unknown() -> None:
    counted = [count(0, [0, 1], [0, 1]), count(WIDTH, [2, 3], [2, 3])]
    found = compare(ask(horizons={(0, "t"): 0}), "t", 0, words(0, [(0, 1), (WIDTH, 2)]), counted)
    assert (row(found, 0).expected, row(found, 0).present, row(found, 0).unknown, row(found, 0).lost) == (1, 1, 1, 0)
    assert (row(found, 0, WIDTH).unknown, row(found, 0, WIDTH).lost) == (0, 1)


def test_skipped_numbers_of_an_unfinished_incarnation_are_unknown_in_their_neighbours_bucket() -> None:
    there = words(0, [(0, 10), (0, 11), (WIDTH, 20)])
    found = compare(ask(has_counts=False), "t", 2, there, [], gap=CHUNK, is_last=True)
    assert (row(found, 0).unknown, row(found, 0, WIDTH).unknown) == (CHUNK + 10 + 8, 0)
    middle = compare(ask(has_counts=False), "t", 2, there, [], is_last=False)
    assert (row(middle, 0).unknown, row(middle, 0, WIDTH).unknown) == (10 + 8, CHUNK - 21)
    whole = compare(ask(has_counts=False), "t", 2, there, [], gap=CHUNK, has_gaps=False)
    assert sum(one.unknown for one in whole) == 0


def test_late_records_are_counted_in_the_bucket_of_their_time() -> None:
    found = compare(ask(), "t", 0, [Word(0, 0, 0, 1, 1, None, 1)], [count(0, [0], [0])])
    assert (row(found, 0).late, row(found, 0).present, row(found, 0).lost) == (1, 1, 0)


def test_only_requested_buckets_have_rows() -> None:
    counted = [count(bucket, [bucket // WIDTH], [bucket // WIDTH]) for bucket in (0, WIDTH, 2 * WIDTH)]
    found = compare(ask(from_ms=WIDTH, to_ms=2 * WIDTH), "t", 0, [], counted)
    assert {one.bucket for one in found} == {WIDTH}


def test_a_row_names_the_first_ranges_and_counts_all() -> None:
    numbers = [*range(0, 200, 2)]
    found = compare(ask(), "t", 0, [], [count(0, numbers, numbers)])
    assert row(found, 0).lost == 100
    assert row(found, 0).lost_ranges == [(number, number) for number in numbers[:RANGES_MAX]]


def test_a_damaged_count_is_refused() -> None:
    with pytest.raises(ValueError, match="runs"):
        compare(ask(), "t", 0, [], [Count(0, [5000, 1])])


@given(
    st.lists(st.lists(st.integers(0, 130), max_size=60), min_size=1, max_size=3),
    st.sets(st.integers(0, 130)),
    st.sets(st.integers(0, 130)),
)
def test_the_result_is_that_of_counting_each_record(tiers: list[list[int]], acked: set[int], failed: set[int]) -> None:
    def bucket_of(number: int) -> int:
        return number // 50 * WIDTH

    counted = [
        count(
            bucket,
            *[
                [n for n in numbers if bucket_of(n) == bucket]
                for numbers in (sorted(acked | failed), sorted(acked), sorted(failed))
            ],
        )
        for bucket in (0, WIDTH, 2 * WIDTH)
    ]
    there = [word for tier, numbers in enumerate(tiers) for word in words(tier, [(bucket_of(n), n) for n in numbers])]
    found = compare(ask(len(tiers)), "t", 0, there, counted, has_gaps=False)
    anywhere = acked.union(*map(set, tiers))
    for one in found:
        if one.tier == PRODUCER_TIER:
            continue
        mine = Counter(number for number in tiers[one.tier] if bucket_of(number) == one.bucket)
        wanted = {number for number in anywhere if bucket_of(number) == one.bucket}
        assert one.expected == len(wanted)
        assert one.present == len(mine)
        assert one.lost == len(wanted - set(mine))
        assert one.doubled == mine.total() - len(mine)
        assert one.refused == len({n for n in failed - anywhere if bucket_of(n) == one.bucket})
        before = set(tiers[one.tier - 1]) if one.tier else wanted
        assert one.lost_here == len((wanted - set(mine)) & before)
