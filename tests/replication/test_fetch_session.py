"""Fetch sessions: what a client may leave out, what the response contains, and which session is evicted."""

from __future__ import annotations

import gc
import tracemalloc
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pybroker.clock import ManualClock
from pybroker.log.leader_epoch_cache import EpochEndOffset
from pybroker.log.segments.file_records import FileRecords
from pybroker.model import ZERO_TOPIC_ID, LeaderEpoch, Offset, TopicId
from pybroker.protocol.error_codes import ErrorCode
from pybroker.replication.fetch_context import NO_SESSION_ID, FetchContext, SessionResponse
from pybroker.replication.fetch_data import FetchPartition, FetchPartitionData, session_key
from pybroker.replication.fetch_session import (
    EPOCH_MAX,
    EVICTION_MS,
    FINAL_EPOCH,
    INITIAL_EPOCH,
    FetchSessionCache,
    next_epoch,
)

FOO, BAR = TopicId(b"foo".rjust(16, b"-")), TopicId(b"bar".rjust(16, b"-"))


def asks(
    topic: str | None,
    partition: int,
    offset: int = 0,
    max_bytes: int = 100,
    topic_id: TopicId = ZERO_TOPIC_ID,
    log_start_offset: int = -1,
    **more: LeaderEpoch,
) -> FetchPartition:
    return FetchPartition(
        topic,
        topic_id,
        partition,
        fetch_offset=Offset(offset),
        max_bytes=max_bytes,
        log_start_offset=Offset(log_start_offset),
        **more,
    )


def records(size: int) -> FileRecords:
    return FileRecords(None, 0, size)  # type: ignore[arg-type]  # nothing reads it


class Fetcher:
    """A client of one cache."""

    def __init__(self, slots_max: int = 10, partitions_max: int = 1000, session_max: int | None = None) -> None:
        self.clock = ManualClock(0)
        self.cache = FetchSessionCache(self.clock, slots_max=slots_max, partitions_max=partitions_max, session_max=session_max)
        self.names: dict[TopicId, str] = {}

    def context(
        self,
        session_id: int,
        epoch: int,
        *asked: FetchPartition,
        forget: tuple[tuple[str | TopicId | None, int], ...] = (),
        version: int = 12,
        is_from_follower: bool = False,
    ) -> FetchContext:
        values: dict[str, Any] = {"version": version, "session_id": session_id, "session_epoch": epoch}
        values |= {"partitions": [*asked], "forgotten": forget, "topic_names": self.names.get}
        return self.cache.context(**values, is_from_follower=is_from_follower)

    def create(self, *asked: FetchPartition, version: int = 12, is_from_follower: bool = False) -> int:
        context = self.context(NO_SESSION_ID, INITIAL_EPOCH, *asked, version=version, is_from_follower=is_from_follower)
        return give(context).session_id

    def create_of_size(self, size: int, *, is_from_follower: bool = False) -> int:
        return self.create(*(asks("t", number) for number in range(size)), is_from_follower=is_from_follower)


def give(context: FetchContext, **by_name: FetchPartitionData) -> SessionResponse:
    """Respond for every partition: with the data in `by_name`, or else with no records and high watermark 10."""
    nothing = {"high_watermark": 10, "last_stable_offset": 10, "log_start_offset": 0}
    results = [(p, by_name.get(f"{p.topic}_{p.partition}") or FetchPartitionData(**nothing)) for p in context.partitions]  # type: ignore[arg-type]
    return context.respond(results)


def named(context_or_response: FetchContext | SessionResponse) -> list[tuple[str | None, int]]:
    if isinstance(context_or_response, SessionResponse):
        return [(partition.topic, partition.partition) for partition, _ in context_or_response.results]
    return [(partition.topic, partition.partition) for partition in context_or_response.partitions]


def test_epochs_count_from_one_and_wrap_to_one() -> None:
    assert [next_epoch(epoch) for epoch in (INITIAL_EPOCH, 1, EPOCH_MAX - 1, EPOCH_MAX, FINAL_EPOCH)] == [
        1,
        2,
        EPOCH_MAX,
        1,
        FINAL_EPOCH,
    ]


def test_session_ids_are_positive_and_differ() -> None:
    fetcher = Fetcher(slots_max=200)
    ids = {fetcher.create(asks("t", 0)) for _ in range(200)}
    assert len(ids) == 200
    assert all(0 < session_id <= 2**31 - 1 for session_id in ids)


def test_old_versions_get_no_session() -> None:
    fetcher = Fetcher()
    response = give(fetcher.context(NO_SESSION_ID, FINAL_EPOCH, asks("t", 0), version=4))
    assert (response.error_code, response.session_id, named(response)) == (ErrorCode.NONE, NO_SESSION_ID, [("t", 0)])
    assert len(fetcher.cache) == 0


def test_an_incremental_request_names_only_changes_and_reads_everything() -> None:
    fetcher = Fetcher()
    session = fetcher.create(asks("foo", 0), asks("foo", 1))
    context = fetcher.context(session, 1, asks("bar", 0, 5), asks("foo", 1, 20, 50))
    assert [(p.topic, p.partition, p.fetch_offset, p.max_bytes) for p in context.partitions] == [
        ("foo", 0, 0, 100),
        ("foo", 1, 20, 50),
        ("bar", 0, 5, 100),
    ]
    assert named(give(context)) == [("bar", 0)], "the others have no news"
    context = fetcher.context(session, 2, forget=(("foo", 0), ("nowhere", 7)))
    assert named(context) == [("foo", 1), ("bar", 0)]
    assert give(context) == (ErrorCode.NONE, session, [])


@pytest.mark.parametrize(
    "news",
    [
        FetchPartitionData(high_watermark=Offset(11), log_start_offset=Offset(0)),
        FetchPartitionData(high_watermark=Offset(10), log_start_offset=Offset(1)),
        FetchPartitionData(high_watermark=Offset(10), log_start_offset=Offset(0), records=records(1)),
        FetchPartitionData(high_watermark=Offset(10), log_start_offset=Offset(0), preferred_read_replica=2),
        FetchPartitionData(
            high_watermark=Offset(10), log_start_offset=Offset(0), diverging_epoch=EpochEndOffset(LeaderEpoch(1), Offset(2))
        ),
        FetchPartitionData(ErrorCode.OFFSET_OUT_OF_RANGE, high_watermark=Offset(10), log_start_offset=Offset(0)),
    ],
    ids=["high watermark", "log start offset", "records", "preferred replica", "diverging epoch", "error"],
)
def test_news_are_returned(news: FetchPartitionData) -> None:
    fetcher = Fetcher()
    session = fetcher.create(asks("foo", 0), asks("foo", 1))
    assert named(give(fetcher.context(session, 1), foo_1=news)) == [("foo", 1)]


def test_news_are_returned_once_but_what_needs_an_act_each_time() -> None:
    fetcher = Fetcher()
    session = fetcher.create(asks("foo", 0))
    news = FetchPartitionData(high_watermark=Offset(12), log_start_offset=Offset(3))
    assert named(give(fetcher.context(session, 1), foo_0=news)) == [("foo", 0)]
    assert named(give(fetcher.context(session, 2), foo_0=news)) == []
    error = FetchPartitionData(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert named(give(fetcher.context(session, 3), foo_0=error)) == [("foo", 0)]
    assert named(give(fetcher.context(session, 4), foo_0=error)) == [("foo", 0)]
    assert named(give(fetcher.context(session, 5), foo_0=news)) == [("foo", 0)], "the end of an error is news"


def test_empty_records_are_no_news() -> None:
    fetcher = Fetcher()
    session = fetcher.create(asks("foo", 0))
    empty = FetchPartitionData(high_watermark=Offset(10), log_start_offset=Offset(0), records=records(0))
    assert named(give(fetcher.context(session, 1), foo_0=empty)) == []


def test_only_partitions_returned_with_records_go_to_the_end() -> None:
    fetcher = Fetcher()
    session = fetcher.create(*(asks("t", number) for number in range(4)))
    data = FetchPartitionData(high_watermark=Offset(10), log_start_offset=Offset(0), records=records(5))
    moved = FetchPartitionData(high_watermark=Offset(11), log_start_offset=Offset(0))
    assert named(give(fetcher.context(session, 1), t_0=data, t_1=moved)) == [("t", 0), ("t", 1)]
    assert named(fetcher.context(session, 2)) == [("t", 1), ("t", 2), ("t", 3), ("t", 0)]
    give(fetcher.context(session, 3), t_2=data, t_1=data)
    assert named(fetcher.context(session, 4)) == [("t", 3), ("t", 0), ("t", 1), ("t", 2)], "in the order of the response"


def test_a_request_that_changes_a_partition_leaves_it_in_its_place() -> None:
    fetcher = Fetcher()
    session = fetcher.create(asks("t", 0), asks("t", 1))
    context = fetcher.context(
        session, 1, asks("t", 0, 77, current_leader_epoch=LeaderEpoch(3), last_fetched_epoch=LeaderEpoch(2), log_start_offset=9)
    )
    changed = context.partitions[0]
    assert (changed.fetch_offset, changed.current_leader_epoch, changed.last_fetched_epoch, changed.log_start_offset) == (
        77,
        3,
        2,
        9,
    )


def test_wrong_sessions_and_epochs() -> None:
    fetcher = Fetcher()
    session = fetcher.create(asks("t", 0))
    unknown = session % EPOCH_MAX + 1
    context = fetcher.context(unknown, 1, asks("t", 0))
    assert not context.partitions
    assert give(context) == (ErrorCode.FETCH_SESSION_ID_NOT_FOUND, NO_SESSION_ID, [])
    for epoch in (2, 5, -7):
        assert give(fetcher.context(session, epoch)) == (ErrorCode.INVALID_FETCH_SESSION_EPOCH, NO_SESSION_ID, [])
    assert give(fetcher.context(session, 1)).error_code == ErrorCode.NONE, "a wrong epoch harms nothing"


def test_of_two_requests_in_work_only_the_later_is_served() -> None:
    fetcher = Fetcher()
    session = fetcher.create(asks("t", 0))
    first = fetcher.context(session, 1, asks("t", 0, 5))
    second = fetcher.context(session, 2, asks("t", 0, 6))
    assert first.partitions[0].fetch_offset == 5, "the second has not touched what the first waits with"
    assert give(first) == (ErrorCode.INVALID_FETCH_SESSION_EPOCH, session, [])
    assert give(second).error_code == ErrorCode.NONE


def test_epochs_of_a_long_session_wrap() -> None:
    fetcher = Fetcher()
    session_id = fetcher.create(asks("t", 0))
    session = fetcher.cache.get(session_id)
    assert session is not None
    session.epoch = EPOCH_MAX
    assert give(fetcher.context(session_id, EPOCH_MAX)).error_code == ErrorCode.NONE
    assert give(fetcher.context(session_id, 1)).error_code == ErrorCode.NONE


def test_a_full_request_ends_the_old_session_and_begins_a_new_one() -> None:
    fetcher = Fetcher()
    old = fetcher.create(asks("t", 0))
    new = give(fetcher.context(old, INITIAL_EPOCH, asks("t", 1))).session_id
    assert new not in (old, NO_SESSION_ID)
    assert (fetcher.cache.get(old), len(fetcher.cache), fetcher.cache.partition_count) == (None, 1, 1)
    response = give(fetcher.context(new, FINAL_EPOCH, asks("t", 1)))
    assert (response.session_id, named(response)) == (NO_SESSION_ID, [("t", 1)])
    assert (len(fetcher.cache), fetcher.cache.partition_count) == (0, 0)


def test_a_session_that_forgot_everything_ends() -> None:
    fetcher = Fetcher()
    session = fetcher.create(asks("t", 0), asks("t", 1))
    context = fetcher.context(session, 1, forget=(("t", 0), ("t", 1)))
    assert give(context) == (ErrorCode.NONE, NO_SESSION_ID, [])
    assert len(fetcher.cache) == 0


def test_names_and_ids_do_not_mix_in_one_session() -> None:
    fetcher = Fetcher()
    by_name = fetcher.create(asks("foo", 0), version=12)
    by_id = fetcher.create(asks("foo", 0, topic_id=FOO), version=13)
    assert give(fetcher.context(by_name, 1, version=13)).error_code == ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
    assert give(fetcher.context(by_id, 1, version=12)).error_code == ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
    assert give(fetcher.context(by_name, 1, version=12)).error_code == ErrorCode.NONE
    assert give(fetcher.context(by_id, 1, version=17)).error_code == ErrorCode.NONE


def test_an_unknown_topic_id_is_kept_and_gets_its_name_when_there_is_one() -> None:
    fetcher = Fetcher()
    session = fetcher.create(asks("foo", 0, topic_id=FOO), asks(None, 0, 7, topic_id=BAR), version=13)
    unknown = FetchPartitionData(ErrorCode.UNKNOWN_TOPIC_ID)
    context = fetcher.context(session, 1, version=13)
    assert named(context) == [("foo", 0), (None, 0)]
    assert named(give(context, None_0=unknown)) == [(None, 0)]
    fetcher.names[BAR] = "bar"
    context = fetcher.context(session, 2, version=13)
    assert [(p.topic, p.topic_partition, p.fetch_offset) for p in context.partitions][1] == ("bar", ("bar", 0), 7)
    assert named(give(context)) == [("bar", 0)]
    del fetcher.names[BAR]
    assert named(fetcher.context(session, 3, asks(None, 0, 9, topic_id=BAR), version=13)) == [("foo", 0), ("bar", 0)]


@pytest.mark.parametrize("is_known", [True, False])
def test_forgetting_goes_by_id_whether_or_not_the_name_is_known(is_known: bool) -> None:
    fetcher = Fetcher()
    session = fetcher.create(asks("foo" if is_known else None, 0, topic_id=FOO), asks("bar", 0, topic_id=BAR), version=13)
    context = fetcher.context(session, 1, forget=(session_key(None, FOO, 0),), version=13)
    assert named(context) == [("bar", 0)]


def test_a_session_that_is_used_stays_and_a_stale_one_makes_room() -> None:
    fetcher = Fetcher(slots_max=2)
    first, second = fetcher.create(asks("t", 0)), fetcher.create(asks("t", 0))
    assert fetcher.create_of_size(5) == NO_SESSION_ID, "no session is stale or old"
    fetcher.clock.advance(EVICTION_MS - 10)
    give(fetcher.context(first, 1))
    fetcher.clock.advance(11)
    third = fetcher.create(asks("t", 0))
    assert third != NO_SESSION_ID
    assert [fetcher.cache.get(session) is not None for session in (first, second, third)] == [True, False, True]
    assert fetcher.cache.evictions == 1


def test_among_old_sessions_in_use_the_smallest_makes_room_for_one_not_smaller() -> None:
    fetcher = Fetcher(slots_max=3)
    sessions = [fetcher.create_of_size(size) for size in (20, 10, 30)]
    fetcher.clock.advance(EVICTION_MS)
    for session in sessions:
        give(fetcher.context(session, 1))
    fetcher.clock.advance(1)
    for session in sessions:
        give(fetcher.context(session, 2))
    assert fetcher.create_of_size(9) == NO_SESSION_ID
    assert fetcher.create_of_size(11) != NO_SESSION_ID
    assert [fetcher.cache.get(session) is not None for session in sessions] == [True, False, True]
    assert fetcher.cache.partition_count == 61


def test_a_followers_session_takes_the_place_of_a_clients_however_young() -> None:
    fetcher = Fetcher(slots_max=2)
    client = fetcher.create_of_size(100)
    follower = fetcher.create_of_size(1, is_from_follower=True)
    assert fetcher.create_of_size(1000) == NO_SESSION_ID
    other = fetcher.create_of_size(1, is_from_follower=True)
    assert [fetcher.cache.get(session) is not None for session in (client, follower, other)] == [False, True, True]
    assert fetcher.create_of_size(9, is_from_follower=True) == NO_SESSION_ID, "followers' young ones are safe"
    fetcher.clock.advance(EVICTION_MS + 1)
    for session in (follower, other):
        give(fetcher.context(session, 1, is_from_follower=True))
    assert fetcher.create_of_size(1000) == NO_SESSION_ID, "a client's is never worth a follower's"
    assert fetcher.create_of_size(2, is_from_follower=True) != NO_SESSION_ID


@pytest.mark.parametrize(("slots_max", "partitions_max"), [(0, 10), (10, 0)])
def test_no_slots_or_no_partitions_no_sessions(slots_max: int, partitions_max: int) -> None:
    assert Fetcher(slots_max, partitions_max).create(asks("t", 0)) == NO_SESSION_ID


def test_a_session_that_is_too_large_for_what_is_left_is_not_made() -> None:
    fetcher = Fetcher(partitions_max=10)
    first = fetcher.create_of_size(6)
    assert fetcher.create_of_size(5) == NO_SESSION_ID
    assert fetcher.create_of_size(4) != NO_SESSION_ID
    assert (fetcher.cache.get(first) is not None, fetcher.cache.partition_count, fetcher.cache.evictions) == (True, 10, 0)


def test_sessions_are_evicted_only_if_that_makes_enough_room() -> None:
    fetcher = Fetcher(partitions_max=10)
    sessions = [fetcher.create_of_size(size) for size in (3, 3, 4)]
    fetcher.clock.advance(EVICTION_MS + 1)
    give(fetcher.context(sessions[0], 1))
    assert fetcher.create_of_size(11) == NO_SESSION_ID
    assert (len(fetcher.cache), fetcher.cache.evictions) == (3, 0)
    assert fetcher.create_of_size(5) != NO_SESSION_ID, "in the place of the two that were not used for longest"
    assert [fetcher.cache.get(session) is not None for session in sessions] == [True, False, False]
    assert (fetcher.cache.partition_count, fetcher.cache.evictions) == (8, 2)


def test_a_session_that_grows_beyond_what_is_left_ends() -> None:
    fetcher = Fetcher(partitions_max=3)
    grown, other = fetcher.create_of_size(1), fetcher.create_of_size(1)
    assert give(fetcher.context(grown, 1, asks("u", 0))).error_code == ErrorCode.NONE
    context = fetcher.context(grown, 2, asks("u", 1))
    assert not context.partitions
    assert give(context) == (ErrorCode.FETCH_SESSION_ID_NOT_FOUND, NO_SESSION_ID, [])
    assert (fetcher.cache.get(grown), fetcher.cache.get(other) is not None) == (None, True)
    assert (len(fetcher.cache), fetcher.cache.partition_count, fetcher.cache.evictions) == (1, 1, 1)


def test_a_session_that_grows_beyond_what_a_full_request_may_name_ends() -> None:
    fetcher = Fetcher(session_max=3)
    session = fetcher.create_of_size(2)
    assert give(fetcher.context(session, 1, asks("u", 0))).error_code == ErrorCode.NONE
    response = give(fetcher.context(session, 2, asks("u", 1)))
    assert response == (ErrorCode.FETCH_SESSION_ID_NOT_FOUND, NO_SESSION_ID, [])
    assert (len(fetcher.cache), fetcher.cache.partition_count, fetcher.cache.evictions) == (0, 0, 1)


def test_a_session_that_grows_takes_the_place_of_a_stale_one() -> None:
    fetcher = Fetcher(partitions_max=3)
    grown, other = fetcher.create_of_size(1), fetcher.create_of_size(2)
    fetcher.clock.advance(EVICTION_MS + 1)
    assert give(fetcher.context(grown, 1, asks("u", 0), asks("u", 1))).error_code == ErrorCode.NONE
    assert (fetcher.cache.get(grown) is not None, fetcher.cache.get(other)) == (True, None)
    assert (fetcher.cache.partition_count, fetcher.cache.evictions) == (3, 1)


@pytest.mark.parametrize(("topic_id", "bytes_max"), [(ZERO_TOPIC_ID, 370), (FOO, 430)])
def test_a_partition_of_a_session_is_small(topic_id: TopicId, bytes_max: int) -> None:
    fetcher = Fetcher(partitions_max=5000)
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        asked = [asks("t", 1000 + number, 10**9 + number, int("5000000"), topic_id) for number in range(5000)]
        session = fetcher.create(*asked, version=12 if topic_id == ZERO_TOPIC_ID else 13)
        del asked
        gc.collect()
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert session != NO_SESSION_ID
    assert (after - before) / 5000 <= bytes_max


def test_a_request_in_work_is_responded_to_although_its_session_has_ended() -> None:
    fetcher = Fetcher(slots_max=1)
    context = fetcher.context(fetcher.create_of_size(10), 1)
    fetcher.clock.advance(EVICTION_MS + 1)
    fetcher.create(asks("u", 0))
    news = FetchPartitionData(high_watermark=Offset(10), log_start_offset=Offset(0), records=records(1))
    assert named(give(context, t_7=news)) == [("t", 7)]


def test_no_session_keeps_a_name_that_is_too_long_for_a_topic() -> None:
    fetcher = Fetcher()
    longest = "x" * 249
    response = give(
        fetcher.context(NO_SESSION_ID, INITIAL_EPOCH, *(asks("t", number) for number in range(9)), asks(longest + "x", 0))
    )
    assert (response.error_code, response.session_id, len(response.results)) == (ErrorCode.NONE, NO_SESSION_ID, 10)
    session_id = fetcher.create(asks(longest, 0))
    assert session_id != NO_SESSION_ID
    assert give(fetcher.context(session_id, 1, asks("t", 0))).error_code == ErrorCode.NONE
    response = give(fetcher.context(session_id, 2, asks(longest + "x", 0)))
    assert response == (ErrorCode.FETCH_SESSION_ID_NOT_FOUND, NO_SESSION_ID, [])
    assert (len(fetcher.cache), fetcher.cache.partition_count) == (0, 0)


class Model:
    """The rules of a cache, written as a search: what it has, the session that was used longest ago first."""

    def __init__(self, slots_max: int, partitions_max: int) -> None:
        self.slots_max, self.partitions_max = slots_max, partitions_max
        self.now_ms = 0
        self.sessions: dict[int, dict[str, int]] = {}

    def make_room(self, is_privileged: int, size: int, grown: int | None = None) -> bool:
        """Return whether there is room for a session, after the evictions that it takes; without room there are none."""
        kept = {session: known for session, known in self.sessions.items() if session != grown}
        slots_max = self.slots_max - 1
        while len(kept) > slots_max or sum(known["size"] for known in kept.values()) + size > self.partitions_max:
            stale = [session for session, known in kept.items() if self.now_ms - known["used"] > EVICTION_MS]
            worth = sorted(
                (known["privileged"], known["size"], session)
                for session, known in kept.items()
                if known["used"] - known["created"] > EVICTION_MS or (is_privileged and not known["privileged"])
            )
            if stale:
                del kept[stale[0]]
            elif worth and (is_privileged, size, 0) >= worth[0]:
                del kept[worth[0][2]]
            else:
                return False
        self.sessions = {session: known for session, known in self.sessions.items() if session in kept or session == grown}
        return True

    def create(self, session: int, is_privileged: int, size: int) -> None:
        self.sessions[session] = {
            "privileged": is_privileged, "size": size, "created": self.now_ms, "used": self.now_ms, "epoch": 1,
        }  # fmt: skip

    def use(self, session: int, size: int) -> None:
        known = self.sessions.pop(session)
        known.update(epoch=known["epoch"] + 1, used=self.now_ms, size=size)
        self.sessions[session] = known


def use(fetcher: Fetcher, model: Model, session: int, first: int, amount: int) -> None:
    """Let a session grow by partitions from `first` on, or forget as many, and compare what comes of it."""
    known = model.sessions.get(session)
    change = [asks("t", 100 + first + number) for number in range(max(0, amount))]
    forget = [("t", 100 + first + number) for number in range(max(0, -amount))]
    live = fetcher.cache.get(session)
    names = set(live.partitions) if live else set()
    size = len((names | {("t", one.partition) for one in change}) - set(forget))
    response = give(fetcher.context(session, known["epoch"] if known else 1, *change, forget=tuple(forget)))
    if known and model.make_room(known["privileged"], size, session):
        assert response.error_code == ErrorCode.NONE
        model.use(session, size)
    else:
        assert response.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        model.sessions.pop(session, None)


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("create"), st.booleans(), st.integers(1, 5)),
            st.tuples(st.just("use"), st.integers(0, 12), st.integers(-3, 3)),
            st.tuples(st.just("wait"), st.just(0), st.sampled_from([1, EVICTION_MS // 2, EVICTION_MS, EVICTION_MS + 1])),
        ),
        max_size=60,
    ),
    st.sampled_from([(3, 1000), (3, 12), (8, 12)]),
)
def test_the_cache_against_the_rules_by_search(steps: list[tuple[str, int, int]], bounds: tuple[int, int]) -> None:
    slots_max, partitions_max = bounds
    fetcher = Fetcher(slots_max, partitions_max)
    model = Model(slots_max, partitions_max)
    order: list[int] = []  # every session that ever was
    for step, which, amount in steps:
        if step == "wait":
            fetcher.clock.advance(amount)
            model.now_ms += amount
        elif step == "use" and which < len(order):
            use(fetcher, model, order[which], which, amount)
        elif step == "create":
            expected = model.make_room(int(which), amount)
            session = fetcher.create_of_size(amount, is_from_follower=bool(which))
            assert (session != NO_SESSION_ID) == expected
            if expected:
                model.create(session, int(which), amount)
                order.append(session)
        assert {s for s in order if fetcher.cache.get(s)} == set(model.sessions)
        assert fetcher.cache.partition_count == sum(known["size"] for known in model.sessions.values())
        assert fetcher.cache.partition_count <= partitions_max
