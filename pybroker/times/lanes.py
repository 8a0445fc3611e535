"""Time that a test moves: the clocks of the parts of a broker, and what each part has to do later.

Idea
    Each part of a broker has a lane, which is the machine's clock and an offset, and a heap of calls by their deadlines. As long
    as no test interferes, one timer of the event loop waits for the earliest of them. `advance` goes from deadline to deadline:
    it lets the clock stand at the next one, makes the calls that are due, and waits until what they began is done. So each call
    sees its own time, and deadlines of several parts come in their order. A lane that is left out keeps its offset.

    Parts look at what they have at intervals, some of them each second, which would be a million looks in a week. In an advance,
    what looks after the logs does so at most LOOKS_MAX times, and once more at its end; other parts leave out looks.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import math
from typing import TYPE_CHECKING, Final

from pybroker.clock import SystemClock
from pybroker.times.times import GROUPS, REQUESTS, TRANSACTIONS

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Mapping

    from pybroker.purgatory.timing_wheel import Timer

LOGS: Final = "logs"
PARTS: Final = (LOGS, GROUPS, TRANSACTIONS, REQUESTS)

LOOKS_MAX: Final = 50
LOOK_MS: Final = 50
"""A part that wants to continue sooner does not look at intervals, but has given others their turn."""


class Call:
    """A call that is due at `when_ms`, of the monotonic clock of a lane."""

    __slots__ = ("is_look", "number", "timer", "when_ms", "work")

    def __init__(
        self, when_ms: int, work: Callable[[], object], *, number: int, timer: Timer | None = None, is_look: bool = False
    ) -> None:
        self.when_ms, self.number, self.timer, self.is_look = when_ms, number, timer, is_look
        self.work: Callable[[], object] | None = work

    def __lt__(self, other: Call) -> bool:
        return (self.when_ms, self.number) < (other.when_ms, other.number)

    @property
    def is_over(self) -> bool:
        """Whether the call was cancelled, or made, or was for a timer that does not wait for it any more."""
        timer = self.timer
        return self.work is None or (timer is not None and not (timer.is_pending and timer.expiration_ms == self.when_ms))

    def cancel(self) -> None:
        """Do not make the call."""
        self.work = None

    def make(self) -> None:
        """Make the call, unless it is over."""
        if not self.is_over and (work := self.work) is not None:
            self.work = None
            work()


class Lane:
    """The time of one part: a `Clock`, with the functions of an event loop that call something later."""

    def __init__(self, lanes: Lanes, offset_ms: int) -> None:
        self._lanes = lanes
        self._system = SystemClock()
        self._calls: list[Call] = []
        self._numbers = itertools.count()
        self.offset_ms = offset_ms  # how much more time has passed than the machine's
        self._stands_at: tuple[int, int] | None = None  # the wall and the monotonic time, in an advance
        self._began_ms = self._pace_ms = self._end_ms = 0  # of the advance

    def time_ms(self) -> int:
        """Return the wall time of the part in ms."""
        return self._system.time_ms() + self.offset_ms if self._stands_at is None else self._stands_at[0]

    def monotonic_ms(self) -> int:
        """Return the monotonic time of the part in ms."""
        return self._system.monotonic_ms() + self.offset_ms if self._stands_at is None else self._stands_at[1]

    def call_at(self, when_ms: int, work: Callable[[], object]) -> Call:
        """Call `work` when `monotonic_ms` is `when_ms`."""
        return self._add(Call(when_ms, work, number=next(self._numbers)))

    def call_for(self, timer: Timer, work: Callable[[], object]) -> None:
        """Call `work` when a timer expires, unless it is cancelled or started again before."""
        self._add(Call(timer.expiration_ms, work, number=next(self._numbers), timer=timer))

    def call_later(self, delay_s: float, work: Callable[[], object]) -> Call:
        """Call `work` after a delay, which is longer in a long advance."""
        delay_ms = round(delay_s * 1000)
        when_ms, is_look = self.monotonic_ms() + delay_ms, delay_ms >= LOOK_MS
        if is_look and self._pace_ms > delay_ms:
            when_ms = self._began_ms + math.ceil((when_ms - self._began_ms) / self._pace_ms) * self._pace_ms
        return self._add(Call(when_ms, work, number=next(self._numbers), is_look=is_look))

    def fewer(self, interval_ms: int) -> int:
        """Return the delay of the next of the looks at an interval, some of which are left out in a long advance.

        The others come when they always would, and the last one before the end of the advance is among them.
        """
        room_ms = min(self._pace_ms, self._end_ms - self.monotonic_ms())
        return max(room_ms // interval_ms, 1) * interval_ms if interval_ms > 0 else interval_ms

    def begin(self, delta_ms: int) -> None:
        """Let the clock stand, because an advance begins."""
        self._stands_at = self.time_ms(), self.monotonic_ms()
        self._began_ms, self._pace_ms = self.monotonic_ms(), delta_ms // LOOKS_MAX
        self._end_ms = self._began_ms + delta_ms

    def move(self, delta_ms: int) -> None:
        """Let time pass in the advance."""
        assert self._stands_at is not None
        time_ms, monotonic_ms = self._stands_at
        self._stands_at = time_ms + delta_ms, monotonic_ms + delta_ms
        self.offset_ms += delta_ms

    def end(self) -> None:
        """Let the clock go by itself, and all looks be due, because an advance ends."""
        self._stands_at, self._pace_ms = None, 0
        now_ms = self.monotonic_ms()
        for call in self._calls:
            if call.is_look:
                call.when_ms = min(call.when_ms, now_ms)
        heapq.heapify(self._calls)

    def clear(self) -> None:
        """Forget all calls."""
        self._calls.clear()

    def left_ms(self) -> float:
        """Return the time until the next call; negative if it is late, and infinite if there is none."""
        while self._calls and self._calls[0].is_over:
            heapq.heappop(self._calls)
        return self._calls[0].when_ms - self.monotonic_ms() if self._calls else math.inf

    def pop(self) -> Call:
        """Return the next call, which is not in the lane any more."""
        return heapq.heappop(self._calls)

    def _add(self, call: Call) -> Call:
        heapq.heappush(self._calls, call)
        if self._calls[0] is call:
            self._lanes.wait()
        return call


class Lanes:
    """The time of all parts of a broker, over all of its lives. Belongs to the loop.

    Attributes:
        settle: waits until the broker has done what it has begun; None while it does not run.
    """

    def __init__(
        self, offsets_ms: Mapping[str, int] | None = None, *, keep: Callable[[Mapping[str, int]], None] = lambda _: None
    ) -> None:
        """`offsets_ms` is how much more time has passed for each part than for the machine; `keep` gets it after an advance."""
        self._keep = keep
        self._lanes = {part: Lane(self, (offsets_ms or {}).get(part, 0)) for part in PARTS}
        self._timer: asyncio.TimerHandle | None = None
        self._advancing = asyncio.Lock()
        self.settle: Callable[[], Awaitable[None]] | None = None

    def __getitem__(self, part: str) -> Lane:
        return self._lanes[part]

    @property
    def offsets_ms(self) -> dict[str, int]:
        """How much more time has passed for each part than for the machine."""
        return {part: lane.offset_ms for part, lane in self._lanes.items()}

    async def advance(self, delta_ms: int, parts: Collection[str]) -> None:
        """Let `delta_ms` pass for some parts, and do what is due for them meanwhile, in the order of the deadlines."""
        async with self._advancing:
            if self.settle is not None:
                await self.settle()
            lanes = [self._lanes[part] for part in self._lanes if part in parts]
            for lane in lanes:
                lane.begin(delta_ms)
            try:
                await self._pass(lanes, delta_ms)
            finally:
                for lane in lanes:
                    lane.end()
                self._keep(self.offsets_ms)
            while min(lane.left_ms() for lane in lanes) <= 0:
                await self._do_what_is_due()
            self.wait()

    @property
    def is_advancing(self) -> bool:
        """Whether an advance is under way."""
        return self._advancing.locked()

    async def over(self) -> None:
        """Wait until no advance is under way."""
        async with self._advancing:
            return

    def wait(self) -> None:
        """Wait for the earliest call."""
        if self._timer is not None:
            self._timer.cancel()
        left_ms = min(lane.left_ms() for lane in self._lanes.values())
        loop = asyncio.get_running_loop()
        self._timer = None if left_ms == math.inf else loop.call_later(max(left_ms, 0) / 1000, self._make_calls)

    def close(self) -> None:
        """Forget all calls, because the broker stops. The next one has the same time."""
        self.settle = None
        for lane in self._lanes.values():
            lane.clear()
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None

    async def _pass(self, lanes: Collection[Lane], left_ms: int) -> None:
        """Go from deadline to deadline."""
        while (due_ms := max(min(lane.left_ms() for lane in lanes), 0)) <= left_ms:
            for lane in lanes:
                lane.move(int(due_ms))
            left_ms -= int(due_ms)
            await self._do_what_is_due()
        for lane in lanes:
            lane.move(left_ms)

    async def _do_what_is_due(self) -> None:
        self._make_calls()
        if self.settle is not None:
            await self.settle()

    def _make_calls(self) -> None:
        """Make the calls that are due, in the order of their deadlines, in the next turn."""
        loop = asyncio.get_running_loop()
        due: list[tuple[float, Call]] = []
        for lane in self._lanes.values():
            while (left_ms := lane.left_ms()) <= 0:
                due.append((left_ms, lane.pop()))
        for _, call in sorted(due, key=lambda one: one[0]):
            loop.call_soon(call.make)  # the loop bears it if one fails
        self.wait()
