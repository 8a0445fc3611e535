"""The pool against a sum, and its gate against the rules of KIP-72."""

from __future__ import annotations

import gc
import logging
import random
import threading
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pybroker.clock import ManualClock
from pybroker.network import memory_pool
from pybroker.network.admission import Admission
from pybroker.network.memory_pool import FIRST_BYTES, GROWTH, RESERVE_DIVISOR, RESERVE_TAKEN_DIVISOR, MemoryPool, PooledBuffer

POOL_BYTES = 1600
RESERVE_BYTES = 100
REQUEST_BYTES_MAX = 600
SIZES = st.one_of(st.integers(1, RESERVE_BYTES // 2), st.integers(1, REQUEST_BYTES_MAX))


def pool_of(size: int) -> MemoryPool:
    return MemoryPool(size, ManualClock())


class Waits:
    """A connection without memory."""

    def __init__(self, bytes_wanted: int) -> None:
        self.bytes_wanted = bytes_wanted
        self.bytes_come = 0
        self.buffer: PooledBuffer | None = None
        self.has_failed = False

    def granted(self, buffer: PooledBuffer) -> None:
        assert self.buffer is None, "granted once"
        self.buffer = buffer

    def failed(self, error: MemoryError) -> None:
        assert self.buffer is None
        self.has_failed = True


def ask(admission: Admission, size: int) -> Waits:
    """Ask for memory as a connection does when it knows the size of a request."""
    waits = Waits(size)
    waits.buffer = admission.try_allocate(size)
    if waits.buffer is None:
        admission.wait(waits)
    return waits


@given(st.lists(st.one_of(SIZES, st.integers(-50, -1)), max_size=120))
def test_any_size_is_allocated_while_one_byte_is_free_and_a_quarter_of_the_reserve_otherwise(steps: list[int]) -> None:
    pool = pool_of(POOL_BYTES)
    held: list[PooledBuffer] = []
    reserved: list[PooledBuffer] = []
    for step in steps:
        if step < 0:
            if held or reserved:
                chosen = (held + reserved)[step % len(held + reserved)]
                (held if chosen in held else reserved).remove(chosen)
                pool.release(chosen)
        else:
            is_open = sum(one.size for one in held) < POOL_BYTES - RESERVE_BYTES
            reserve_free = RESERVE_BYTES - sum(one.size for one in reserved)
            buffer = pool.try_allocate(step)
            assert (buffer is not None) == pool_grants(is_open, step, reserve_free)
            if buffer is not None:
                assert len(buffer.view) == buffer.size == step
                (held if is_open else reserved).append(buffer)
        used, reserve_used = sum(one.size for one in held), sum(one.size for one in reserved)
        assert pool.used == used + reserve_used
        assert pool.available == POOL_BYTES - used - reserve_used
        assert pool.is_out_of_memory == (used >= POOL_BYTES - RESERVE_BYTES)
        assert reserve_used <= RESERVE_BYTES
        assert pool.used <= POOL_BYTES + REQUEST_BYTES_MAX - 1, "the true bound"
    for buffer in held + reserved:
        pool.release(buffer)
    assert (pool.used, pool.open_below) == (0, POOL_BYTES - RESERVE_BYTES)


def pool_grants(is_open: bool, size: int, reserve_free: int) -> bool:
    assert (RESERVE_DIVISOR, RESERVE_TAKEN_DIVISOR) == (16, 4), "as the documents have it"
    return is_open or size * 4 <= reserve_free


def test_a_pool_that_is_smaller_than_a_request_still_grants_it() -> None:
    for size in (1, 15, 16, 100):
        pool = pool_of(size)
        buffer = pool.try_allocate(size * 10)
        assert buffer is not None
        assert pool.try_allocate(size) is None
        pool.release(buffer)


@given(
    st.lists(st.tuples(st.sampled_from(["ask", "release", "die"]), SIZES), max_size=120),
    st.integers(0, 2**32),
)
def test_no_connection_waits_while_memory_is_free_and_all_are_served_in_the_end(steps: list[tuple[str, int]], seed: int) -> None:
    pool = pool_of(POOL_BYTES)
    admission = Admission(pool, 500, random.Random(seed))
    all_waits: list[Waits] = []
    for action, number in steps:
        holders = [w for w in all_waits if w.buffer is not None]
        waiters = [w for w in all_waits if w.buffer is None]
        if action == "ask":
            all_waits.append(ask(admission, number))
        elif action == "release" and holders:
            chosen = holders[number % len(holders)]
            all_waits.remove(chosen)
            assert chosen.buffer is not None
            pool.release(chosen.buffer)
        elif action == "die" and waiters:
            chosen = waiters[number % len(waiters)]
            all_waits.remove(chosen)
            admission.leave(chosen)
        assert pool.used == sum(w.buffer.size for w in all_waits if w.buffer is not None)
        assert pool.used <= POOL_BYTES + REQUEST_BYTES_MAX - 1
        assert admission.waiting == sum(w.buffer is None for w in all_waits)
        assert not any(pool.has_room(w.bytes_wanted) for w in all_waits if w.buffer is None)
    while all_waits:
        holder = next(w for w in all_waits if w.buffer is not None)
        all_waits.remove(holder)
        assert holder.buffer is not None
        pool.release(holder.buffer)
    assert (pool.used, admission.waiting) == (0, 0)


def test_waiters_are_served_in_random_order() -> None:
    orders = set()
    for seed in range(20):
        pool = pool_of(1)
        admission = Admission(pool, 500, random.Random(seed))
        holder = ask(admission, 1)
        waiters = [ask(admission, 1) for _ in range(5)]
        order = []
        while admission.waiting:
            assert holder.buffer is not None
            pool.release(holder.buffer)
            (holder,) = [w for w in waiters if w.buffer is not None and w not in order]
            order.append(holder)
        orders.add(tuple(map(waiters.index, order)))
        assert holder.buffer is not None
        pool.release(holder.buffer)
    assert len(orders) > 10
    assert {order[0] for order in orders} == set(range(5)), "each is first some time"


def give_back(pool: MemoryPool, holders: list[Waits]) -> None:
    """Release the memory of one of those that hold some."""
    holder = next(waits for waits in holders if waits.buffer is not None)
    assert holder.buffer is not None
    pool.release(holder.buffer)
    holders.remove(holder)


@pytest.mark.parametrize("announced", [100_000_000, 10_000_000, 1_000_000, 100_000])
def test_requests_that_are_smaller_than_those_of_strangers_wait_for_none_of_them(announced: int) -> None:
    pool = pool_of(200_000_000)
    admission = Admission(pool, 500, random.Random(1))
    strangers = [ask(admission, announced) for _ in range(3_000)]
    assert admission.waiting > 0
    for size in (20, 1_000, 50_000):
        for _ in range(3):  # clients that send one request after another
            client = ask(admission, size)
            assert client.buffer is not None
            pool.release(client.buffer)
        clients = [ask(admission, size) for _ in range(2)]  # and at the same time
        assert all(client.buffer is not None for client in clients)
        assert pool.used <= pool.size + announced - 1
        while clients:
            give_back(pool, clients)
    while strangers:
        give_back(pool, strangers)
    assert (pool.used, admission.waiting) == (0, 0)


@pytest.mark.parametrize("seed", range(5))
def test_requests_that_are_too_large_for_the_reserve_wait_for_at_most_three_of_strangers(seed: int) -> None:
    pool = pool_of(100_000)
    admission = Admission(pool, 500, random.Random(seed))
    strangers = [ask(admission, 60_000) for _ in range(200)]
    for _ in range(20):
        clients = [ask(admission, 2_000) for _ in range(10)]
        assert all(client.buffer is None for client in clients)
        given_back = 0
        while given_back < 3 and any(client.buffer is None for client in clients):
            give_back(pool, strangers)
            given_back += 1
        assert all(client.buffer is not None for client in clients)
        while clients:
            give_back(pool, clients)
        assert sum(waits.buffer is not None for waits in strangers) == 2
    while strangers:
        give_back(pool, strangers)


def test_what_becomes_free_of_the_reserve_goes_to_the_one_that_waits_for_the_least() -> None:
    pool = pool_of(POOL_BYTES)
    admission = Admission(pool, 500, random.Random(1))
    holder = ask(admission, POOL_BYTES)
    first, second, third = ask(admission, 25), ask(admission, 18), ask(admission, 14)
    waiters = [ask(admission, size) for size in (60, 18, 14, 15)]
    assert [one.buffer is not None for one in (first, second, third, *waiters)] == [True] * 3 + [False] * 4
    give_back(pool, [second])
    assert [one.buffer is not None for one in waiters] == [False, False, True, False]
    give_back(pool, [first])
    assert [one.buffer is not None for one in waiters] == [False, False, True, True]
    assert pool.is_out_of_memory
    left = [holder, third, *waiters]
    while left:
        give_back(pool, left)
    assert (pool.used, pool.open_below, admission.waiting) == (0, POOL_BYTES - RESERVE_BYTES, 0)


def test_a_large_request_is_served_while_small_ones_wait_all_the_time() -> None:
    pool = pool_of(POOL_BYTES)
    admission = Admission(pool, 500, random.Random(1))
    small = [ask(admission, 10) for _ in range(POOL_BYTES // 10 + 50)]
    assert small[-1].buffer is None
    large = ask(admission, REQUEST_BYTES_MAX)
    for _ in range(1_000):
        small.append(ask(admission, 10))
        give_back(pool, small)
        if large.buffer is not None:
            break
    assert large.buffer is not None
    small.append(large)
    while small:
        give_back(pool, small)


def test_large_requests_get_the_rest_of_the_pool_beside_small_ones_that_never_stop() -> None:
    pool = pool_of(POOL_BYTES)
    admission = Admission(pool, 500, random.Random(1))
    holder = ask(admission, POOL_BYTES)
    large = [ask(admission, REQUEST_BYTES_MAX) for _ in range(20)]
    small = [ask(admission, 10) for _ in range(5)]
    assert all(one.buffer is not None for one in small)
    left = [holder, *large]
    while left:
        give_back(pool, left)
        small.append(ask(admission, 10))
        give_back(pool, small)
    assert all(one.buffer is not None for one in large)
    while small:
        give_back(pool, small)


def test_waiters_that_come_and_go_leave_nothing_behind() -> None:
    pool = pool_of(1)
    admission = Admission(pool, 500, random.Random(1))
    holder = ask(admission, 1)
    stays = ask(admission, 1)
    for size in range(1, 1000):
        admission.leave(ask(admission, size))
    assert len(admission._by_size) <= 2
    assert holder.buffer is not None
    pool.release(holder.buffer)
    assert stays.buffer is not None
    pool.release(stays.buffer)


def test_the_number_of_queued_requests_keeps_newcomers_out_beside_the_memory() -> None:
    pool = pool_of(POOL_BYTES)
    admission = Admission(pool, 2)
    admission.queue()
    admission.queue()
    first, second = ask(admission, 10), ask(admission, 20)
    assert (first.buffer, second.buffer, pool.used) == (None, None, 0)
    admission.unqueue()
    assert admission.waiting == 0
    assert pool.used == 30
    for waits in (first, second):
        assert waits.buffer is not None
        pool.release(waits.buffer)


def test_a_full_queue_and_no_memory_must_both_be_over() -> None:
    pool = pool_of(POOL_BYTES)
    admission = Admission(pool, 1)
    holder = ask(admission, POOL_BYTES)
    admission.queue()
    waits = ask(admission, 5)
    assert holder.buffer is not None
    pool.release(holder.buffer)
    assert (pool.used, admission.waiting) == (0, 1)
    admission.unqueue()
    assert (pool.used, admission.waiting) == (5, 0)
    assert waits.buffer is not None
    pool.release(waits.buffer)


@pytest.mark.parametrize("size", [0, -1])
def test_an_unbounded_pool_never_refuses_but_counts(size: int) -> None:
    pool = pool_of(size)
    buffers = [pool.try_allocate(1000) for _ in range(10)]
    assert pool.used == 10_000
    assert not pool.is_out_of_memory
    for buffer in buffers:
        assert buffer is not None
        pool.release(buffer)
    assert pool.used == 0


def test_a_second_release_and_a_stranger_and_no_bytes_are_refused() -> None:
    pool, other = pool_of(10), pool_of(10)
    buffer = pool.try_allocate(4)
    assert buffer is not None
    with pytest.raises(ValueError, match="not on loan"):
        other.release(buffer)
    pool.release(buffer)
    with pytest.raises(ValueError, match="not on loan"):
        pool.release(buffer)
    for size in (0, -1):
        with pytest.raises(ValueError, match="cannot allocate"):
            pool.try_allocate(size)
    assert pool.used == 0


def test_a_buffer_lost_without_release_is_logged_counted_and_given_back(caplog: pytest.LogCaptureFixture) -> None:
    pool = pool_of(10)
    posted: list[Callable[[], None]] = []
    pool.call_soon_threadsafe = posted.append
    admission = Admission(pool, 500)
    held = [pool.try_allocate(25)]
    waits = ask(admission, 5)

    def lose() -> None:
        held.clear()
        gc.collect()

    collector = threading.Thread(target=lose)  # the collector runs in any thread
    collector.start()
    collector.join()
    assert pool.used == 25, "only the loop's thread may touch the pool"
    with caplog.at_level(logging.ERROR):
        posted.pop()()
    assert (pool.lost_count, pool.lost_bytes, pool.used) == (1, 25, 5)
    assert "25 bytes was lost without release" in caplog.text
    assert waits.buffer is not None, "the connection that waited gets the memory"
    pool.release(waits.buffer)


def test_a_buffer_that_gets_no_memory_is_neither_counted_nor_given_back(caplog: pytest.LogCaptureFixture) -> None:
    pool = pool_of(POOL_BYTES)
    kept = pool.try_allocate(10)
    with pytest.raises(MemoryError):
        pool.try_allocate(1 << 62, come=1 << 59)
    gc.collect()
    pool.reclaim_lost()
    assert (pool.used, pool.available, pool.lost_count) == (10, POOL_BYTES - 10, 0)
    assert not caplog.records
    assert kept is not None
    pool.release(kept)


@pytest.mark.parametrize(
    ("size", "come"), [(1, 0), (FIRST_BYTES, 0), (FIRST_BYTES + 1, 0), (1_000_000, 300_000), (10_000_000, 10)]
)
def test_a_buffer_grows_with_what_comes_and_keeps_that(size: int, come: int) -> None:
    pool = pool_of(-1)
    buffer = pool.try_allocate(size, come=come)
    assert buffer is not None
    content = random.Random(size).randbytes(size)
    filled = 0
    while filled < size:
        if filled == len(buffer.view):
            buffer.grow()
        assert come <= len(buffer.view) <= max(FIRST_BYTES, GROWTH * max(filled, come))
        end = min(filled + 50_000, len(buffer.view))
        buffer.view[filled:end] = content[filled:end]
        filled = end
    assert (buffer.view == content, len(buffer.view), pool.used) == (True, size, size)
    pool.release(buffer)


def test_a_buffer_that_cannot_grow_stays_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(memory: bytearray, size: int) -> None:
        raise MemoryError

    monkeypatch.setattr(memory_pool, "resize", fail)
    pool = pool_of(-1)
    buffer = pool.try_allocate(FIRST_BYTES * 4)
    assert buffer is not None
    buffer.view[:3] = b"abc"
    with pytest.raises(MemoryError):
        buffer.grow()
    assert (bytes(buffer.view[:3]), len(buffer.view), pool.used) == (b"abc", FIRST_BYTES, FIRST_BYTES * 4)
    pool.release(buffer)
    assert pool.used == 0


def test_a_waiter_for_which_the_system_has_no_memory_fails_and_the_next_is_served() -> None:
    pool = pool_of(POOL_BYTES)
    admission = Admission(pool, 500, random.Random(1))
    holder = ask(admission, POOL_BYTES)
    unlucky, lucky = ask(admission, 1 << 62), ask(admission, 5)
    unlucky.bytes_come = 1 << 59
    assert holder.buffer is not None
    pool.release(holder.buffer)
    assert (unlucky.has_failed, unlucky.buffer, admission.waiting, pool.used) == (True, None, 0, 5)
    assert lucky.buffer is not None
    pool.release(lucky.buffer)


def test_without_a_loop_a_lost_buffer_comes_back_with_the_next_use() -> None:
    pool = pool_of(10)

    def closed(callback: Callable[[], None]) -> None:
        raise RuntimeError("the loop is closed")

    pool.call_soon_threadsafe = closed
    buffer = pool.try_allocate(10)
    assert buffer is not None
    del buffer
    gc.collect()
    again = pool.try_allocate(3)
    assert again is not None
    assert (pool.lost_bytes, pool.used) == (10, 3)
    pool.release(again)


def test_the_depleted_share_is_the_time_from_the_first_refusal_to_the_release() -> None:
    clock = ManualClock(1_000)
    pool = MemoryPool(10, clock)
    buffer = pool.try_allocate(12)
    clock.advance(5_000)  # full, but no connection asked for memory: not depleted
    assert buffer is not None
    assert pool.try_allocate(1) is None
    clock.advance(2_000)
    assert pool.try_allocate(1) is None, "a second refusal begins nothing new"
    clock.advance(1_000)
    assert pool.average_depleted_percent() == pytest.approx(3_000 / 30_000), "a dry spell counts while it lasts"
    clock.advance(1_000)
    pool.release(buffer)
    assert pool.depleted_ms_total == 4_000
    clock.advance(11_000)
    assert pool.average_depleted_percent() == pytest.approx(4_000 / 30_000)
    clock.advance(20_000)
    assert pool.average_depleted_percent() == pytest.approx(4_000 / 40_000)
    clock.advance(60_000)
    assert pool.average_depleted_percent() == 0
    assert pool.depleted_ms_total == 4_000
