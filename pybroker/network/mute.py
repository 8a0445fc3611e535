"""Decides when a connection is not read: the reasons, and the events that set and clear them, as one table.

A connection is read while it has no reason to be muted. Muting is lazy: a request in work or a full output mutes only when more
data has come meanwhile, because a client that waits for its response sends nothing, and a pause and a resume cost about 6 us.
Memory mutes at the moment a request is refused its memory, so a connection that receives nothing is never touched.

    event              reason           set   when
    DATA_BEHIND_WORK   REQUEST_IN_WORK  yes   the next request began to arrive while one is parked or waits for its turn
    WORK_DONE          REQUEST_IN_WORK  no    no request is in work, and what was kept back has been handled
    DATA_BEHIND_OUTPUT OUTPUT_FULL      yes   the next request began to arrive while a response cannot be handed over
    OUTPUT_READY       OUTPUT_FULL      no    the response is out and the transport below its high water mark
    MEMORY_REFUSED     MEMORY           yes   a request's size is known and the pool is empty, or too many requests are queued
    MEMORY_GRANTED     MEMORY           no    the request has its memory
    THROTTLED          QUOTA            yes   the client is above its quota, and its throttle time begins (KIP-219)
    THROTTLE_OVER      QUOTA            no    the throttle time is over, or the peer has gone
    CLOSING            CLOSED           yes   the peer sent its end or the broker closes: nothing is read any more

A connection that holds memory for a half-read request never has the reason MEMORY: it has the memory that it asked for.

A connection whose client is above its quota is not read at once: the throttle time is long.

Source: Kafka's KafkaChannel.ChannelMuteState, whose states are the combinations of these reasons that it allows; KIP-72, KIP-219.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final


class MuteReason(IntEnum):
    """The reasons why a connection is not read; bits of a set."""

    REQUEST_IN_WORK = 1
    OUTPUT_FULL = 2
    MEMORY = 4
    CLOSED = 8
    QUOTA = 16


class MuteEvent(IntEnum):
    """The events that mute and unmute; each is an index into the table."""

    DATA_BEHIND_WORK = 0
    WORK_DONE = 1
    DATA_BEHIND_OUTPUT = 2
    OUTPUT_READY = 3
    MEMORY_REFUSED = 4
    MEMORY_GRANTED = 5
    CLOSING = 6
    THROTTLED = 7
    THROTTLE_OVER = 8


TABLE: Final[tuple[tuple[MuteReason, bool], ...]] = (
    (MuteReason.REQUEST_IN_WORK, True),
    (MuteReason.REQUEST_IN_WORK, False),
    (MuteReason.OUTPUT_FULL, True),
    (MuteReason.OUTPUT_FULL, False),
    (MuteReason.MEMORY, True),
    (MuteReason.MEMORY, False),
    (MuteReason.CLOSED, True),
    (MuteReason.QUOTA, True),
    (MuteReason.QUOTA, False),
)
assert len(TABLE) == len(MuteEvent)


class MuteCounters:
    """Counts of the mutings of connections, by reason; `transitions` counts the pauses that really reached a transport."""

    __slots__ = ("by_reason", "transitions")

    def __init__(self) -> None:
        self.by_reason: dict[MuteReason, int] = dict.fromkeys(MuteReason, 0)
        self.transitions = 0

    def after(self, reasons: int, event: MuteEvent) -> int:
        """Return the set of reasons after `event`; count each reason that is added."""
        reason, is_set = TABLE[event]
        if not is_set:
            return reasons & ~reason
        if not reasons & reason:
            self.by_reason[reason] += 1
            self.transitions += not reasons
        return reasons | reason
