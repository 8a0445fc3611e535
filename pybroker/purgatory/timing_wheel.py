"""A hierarchical timing wheel: timers that are almost always cancelled before they expire.

Idea
    A wheel of 20 buckets covers 20 ticks. A timer further away than that goes to an overflow wheel, made on demand, each of whose
    buckets covers the whole wheel below it: 1 ms, 20 ms, 400 ms, 8 s, 160 s... When a coarse bucket comes due, its timers are
    placed again and fall into finer buckets, or expire. A bucket is a doubly linked list through the timers themselves.

Cost
    `add` is O(number of wheels), `cancel` O(1). `cancel` allocates nothing; `add` allocates only when it makes an overflow wheel,
    and a place in the heap for a bucket that was empty, which costs O(log of the buckets). Nothing ticks: the heap holds the
    non-empty *buckets*, so the caller sleeps until `next_expiration_ms` and an idle wheel costs nothing. A cancelled timer is
    gone at once; its bucket may stay in the heap, empty, until its time: at most 20 per wheel.

    A coarse bucket may hold any number of timers when it comes due. `collect` moves as many of them as the caller bears in one
    step. Until the last is moved, the wheel's time stands where the bucket begins: no timer expires early or before an earlier
    one, timers are added and cancelled as ever, and what is due meanwhile is late by those steps.

Example
    At 0 ms, a timer for 45 ms overflows into the second wheel's bucket [40, 60). `advance(40)` empties that bucket and places the
    timer again, now 5 ms away, into the first wheel's bucket [45, 46). `advance(45)` returns it.

Time is the time of the caller's clock, in integer milliseconds; it never goes back.

Source: Kafka's design of its purgatory on timing wheels (2015), SystemTimer and TimingWheel; G. Varghese, T. Lauck, "Hashed and
Hierarchical Timing Wheels" (1987).
"""

from __future__ import annotations

import heapq
import sys
from typing import Final

TICK_MS: Final = 1
BUCKETS: Final = 20


class Timer:
    """One entry of a wheel. Subclass it and override nothing: `advance` returns the expired timers, it does not call them back.

    The links are the bucket's list; a timer that is in no bucket has `_bucket` None, refers to no other timer and may be added
    again.
    """

    __slots__ = ("_bucket", "_next", "_previous", "expiration_ms")

    def __init__(self) -> None:
        self.expiration_ms = 0
        self._bucket: _Bucket | None = None
        self._previous: Timer = _UNLINKED
        self._next: Timer = _UNLINKED

    @property
    def is_pending(self) -> bool:
        """Whether the timer is in a bucket: `cancel` can still remove it, and `advance` has not returned it."""
        return self._bucket is not None

    def cancel(self) -> bool:
        """Leave the wheel at once. Returns whether the timer was still pending, so that only one of cancel and expiry wins."""
        if self._bucket is None:
            return False
        self._bucket = None
        self._previous._next = self._next
        self._next._previous = self._previous
        self._previous = self._next = _UNLINKED  # a timer that is kept for other reasons must not keep its old neighbours
        return True


_UNLINKED: Final = Timer.__new__(Timer)  # what a link refers to outside of a bucket; None would need a check at each step


class _Bucket(Timer):
    """The sentinel of a circular list of timers that fall into [expiration_ms, expiration_ms + the wheel's tick)."""

    __slots__ = ("is_queued",)

    def __init__(self) -> None:
        super().__init__()
        self._previous = self._next = self
        self.is_queued = False  # whether it is in the heap, which holds a bucket at most once

    def __lt__(self, other: _Bucket) -> bool:  # the heap's order
        return self.expiration_ms < other.expiration_ms


class _Wheel:
    __slots__ = ("buckets", "end_ms", "now_ms", "overflow", "span_ms", "tick_ms")

    def __init__(self, *, tick_ms: int, now_ms: int) -> None:
        self.tick_ms = tick_ms
        self.span_ms = tick_ms * BUCKETS
        self.now_ms = now_ms - now_ms % tick_ms  # start of the current bucket
        self.end_ms = self.now_ms + self.span_ms  # later times belong to the overflow wheel
        self.buckets = [_Bucket() for _ in range(BUCKETS)]
        self.overflow: _Wheel | None = None


class TimingWheel:
    """All timers of one owner. Not thread-safe: it belongs to the loop."""

    __slots__ = ("_due", "_expired", "_moving", "_wheel")

    def __init__(self, now_ms: int) -> None:
        self._moving = _Bucket()  # timers of a bucket that came due, which are being placed again
        self._expired = _Bucket()  # timers whose time has come
        self._wheel = _Wheel(tick_ms=TICK_MS, now_ms=now_ms)
        self._due: list[_Bucket] = []

    @property
    def next_expiration_ms(self) -> int | None:
        """When `advance` has something to do next, in ms of the caller's clock; None when idle. May be early, never late."""
        if self._expired._next is not self._expired or self._moving._next is not self._moving:
            return self._wheel.now_ms
        return self._due[0].expiration_ms if self._due else None

    def add(self, timer: Timer, expiration_ms: int) -> bool:
        """Start `timer`. Returns False, and leaves it out, when its time has already come: then the caller expires it."""
        assert timer._bucket is None, "a timer is in at most one bucket"
        timer.expiration_ms = expiration_ms
        wheel = self._wheel
        if expiration_ms < wheel.now_ms + TICK_MS:
            return False
        while expiration_ms >= wheel.end_ms:
            if wheel.overflow is None:
                wheel.overflow = _Wheel(tick_ms=wheel.span_ms, now_ms=wheel.now_ms)
            wheel = wheel.overflow
        slot = expiration_ms // wheel.tick_ms
        bucket = wheel.buckets[slot % BUCKETS]
        if not bucket.is_queued:
            bucket.expiration_ms, bucket.is_queued = slot * wheel.tick_ms, True
            heapq.heappush(self._due, bucket)
        last = bucket._previous
        timer._bucket, timer._previous, timer._next = bucket, last, bucket
        last._next = bucket._previous = timer
        return True

    def advance(self, now_ms: int) -> list[Timer]:
        """Move the time to `now_ms` and return the timers that expired, no longer pending, in order of their buckets."""
        while not self.collect(now_ms):
            pass
        expired: list[Timer] = []
        while (timer := self.next_expired()) is not None:
            expired.append(timer)
        return expired

    def next_expired(self) -> Timer | None:
        """Return a timer that `collect` has found, no longer pending, in order of the buckets; None if there is no other."""
        expired = self._expired
        timer = expired._next
        if timer is expired:
            return None
        timer.cancel()
        return timer

    @property
    def has_expired(self) -> bool:
        """Whether `next_expired` has another timer."""
        return self._expired._next is not self._expired

    def is_due(self, now_ms: int) -> bool:
        """Return whether `next_expired` or, at that time, `collect` has something to do."""
        next_ms = self.next_expiration_ms
        return next_ms is not None and next_ms <= now_ms

    def collect(self, now_ms: int, *, most: int = sys.maxsize) -> bool:
        """Move the time to `now_ms` and keep the timers that expired for `next_expired`. Until then they can be cancelled.

        At most `most` timers are moved. Returns False if there may be more: the time then stands at the bucket whose timers are
        being placed again, and another call continues.
        """
        moving, expired = self._moving, self._expired
        for _ in range(most):
            timer = moving._next
            if timer is moving:
                if not self._due or self._due[0].expiration_ms > now_ms:
                    self._move_to(now_ms)
                    return True
                self._open(heapq.heappop(self._due))
                continue
            following = timer._next
            moving._next, following._previous = following, moving
            timer._bucket = None  # its links are set below or by `add`
            if not self.add(timer, timer.expiration_ms):
                last = expired._previous
                timer._bucket, timer._previous, timer._next = expired, last, expired
                last._next = expired._previous = timer
        return False

    def _open(self, bucket: _Bucket) -> None:
        """Let all timers of a bucket that is due be placed again, at the same cost however many they are."""
        bucket.is_queued = False
        self._move_to(bucket.expiration_ms)  # before placing again: the finer wheels must stand where this bucket begins
        first, last, moving = bucket._next, bucket._previous, self._moving
        if first is not bucket:
            moving._next, moving._previous = first, last
            first._previous = last._next = moving
            bucket._previous = bucket._next = bucket

    def _move_to(self, now_ms: int) -> None:
        wheel: _Wheel | None = self._wheel
        while wheel is not None and now_ms >= wheel.now_ms + wheel.tick_ms:
            wheel.now_ms = now_ms - now_ms % wheel.tick_ms
            wheel.end_ms = wheel.now_ms + wheel.span_ms
            wheel = wheel.overflow
