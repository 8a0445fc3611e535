# cython: annotation_typing=False
"""One connection, except that it is no asyncio protocol: `connection.py` makes it one. `_connection_native` is this same text,
compiled with the types of `_connection_native.pxd`.

A turn takes requests one by one, hands each to the handler, and joins the responses into one write. It ends when there is no
complete request, when a request is parked (the handler returned a Future), when a response cannot be handed over at once, after
TURN_REQUESTS requests, or with the request that goes beyond TURN_NS. When a round of the loop has used its budget up, the turn
begins in a later one (sharing/turns/rounds.py). A turn that leaves requests to the next one also leaves it the responses, up to
WRITE_REQUESTS of them, because a write costs as much as several requests.

One request is in work per connection. But one that only waits, because all that later requests could see of it is done
(`ContextState.is_in_order`), lets others begin, until WAITING_MAX wait. So responses leave in the order of the requests.

End of input
    A peer that closes its sending side still gets its responses, but nothing is kept for it behind a parked request: that request
    is completed when it can be, what was received behind it is dropped at once, and the connection is closed. A connection that
    is not read would not notice its peer's end, so the server watches it while a request is parked (see hangups.py). TLS has no
    half-closed state: the connection is closed at once. A request whose memory is held is parked because it is being worked on,
    and does not wait: then everything behind it is handled too, because clients with acks=0 send and close.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable
from time import monotonic_ns
from typing import TYPE_CHECKING, Any, Final, cast

from pybroker.failures import drop_frames, is_shortage
from pybroker.network.context import ConnectionContext, EncodedResponse, Outgoing, ProtocolViolation
from pybroker.network.mute import MuteEvent
from pybroker.network.receiver import Receiver
from pybroker.network.sender import HIGH_WATER_BYTES, Sender, piece_bytes_for
from pybroker.sharing.turns.rounds import BUDGET_NS, UNKNOWN_NS

if TYPE_CHECKING:
    from asyncio import Future

    from pybroker.network.connection_owner import ConnectionOwner
    from pybroker.network.counters import ListenerCounters

__all__ = ["ConnectionCore"]

logger = logging.getLogger("pybroker.network.connection")

TURN_REQUESTS: Final = 4
"""With more, other connections wait longer beside a pipeline (docs/design/latency.md). A round of the loop costs little."""
WRITE_REQUESTS: Final = 16
"""The requests of a pipeline whose responses may wait for those of others."""
WAITING_MAX: Final = 16
"""The requests whose responses may wait at once. Producers have up to 5 under way on a connection."""
TURN_NS: Final = 2_000_000


class ConnectionCore:
    """The events of a connection, between receiver, handler, sender and the mute table. Belongs to the loop."""

    __slots__ = (
        "_handler", "_has_input_ended", "_is_ending", "_is_holding", "_is_parked", "_is_turn_scheduled", "_is_watched", "_loop",
        "_mute", "_noted_until_ns", "_other_clock", "_owner", "_receiver", "_sender", "_transport", "_turn_ns", "_turns",
        "_unwritten", "_waiting", "active_ns", "context", "counters", "is_open", "requests",
    )  # fmt: skip

    def __init__(
        self, loop: asyncio.AbstractEventLoop, owner: ConnectionOwner, context: ConnectionContext, counters: ListenerCounters
    ) -> None:
        self._loop = loop
        self._owner = owner
        self._turns = owner.turns
        self._handler = owner.handler
        self._other_clock = None if owner.now_ns is monotonic_ns else owner.now_ns  # None: native code reads the system's itself
        self.context = context
        self.counters = counters
        self._mute = 0  # set of MuteReason; reading is paused while it is not empty
        self._waiting: deque[EncodedResponse | Future[EncodedResponse]] = deque()  # from the first that has no response yet
        self._is_parked = False  # no request is taken before all of these have their responses
        self._is_turn_scheduled = False
        self._is_ending = False  # no new requests; the connection closes when none is in work
        self._is_watched = False  # by the server, for its peer's end
        self._is_holding = False  # the parked request is being worked on
        self._has_input_ended = False  # while a request was held; the connection ends when there is no request left
        self.active_ns = 0  # when bytes last came or went, or a parked request was completed
        self._turn_ns = UNKNOWN_NS  # what a turn probably takes
        self._noted_until_ns = 0  # until then the owner need not learn that it is active
        self._unwritten = 0  # requests of turns that left their responses to the next one
        self.requests = 0  # taken so far
        self.is_open = False

    # -- what the transport calls: each is a turn of the loop, or a part of one; `connection.py` has the rare ones

    def _made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        if not self._owner.opened(self):
            self._transport.abort()
            return
        self.is_open = True
        self.context.holder = self
        self._transport.set_write_buffer_limits(HIGH_WATER_BYTES)
        self._receiver = Receiver(self._owner.scratch, self._owner.admission, self._owner.request_bytes_max, self)
        owner, piece = self._owner, piece_bytes_for(self._transport)
        self._sender = Sender(self._transport, self, self.counters, owner.large_pieces, piece_bytes=piece, now_ns=owner.now_ns)

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002
        """Return the buffer that the transport receives into."""
        self._turns.begin()
        try:
            return self._receiver.get_buffer(self._is_parked or self._sender.is_blocked)
        finally:
            self._turns.end("a buffer for bytes")

    def buffer_updated(self, nbytes: int) -> None:
        """Take over the `nbytes` that the transport received."""
        self._turns.begin()
        try:
            self._received(nbytes)
        finally:
            self._turns.end("bytes in")

    def _received(self, nbytes: int) -> None:
        if self._is_ending:
            return
        self._touch()
        self.context.received_ns = self.active_ns
        self.counters.bytes_in += nbytes
        self.context.bytes_in += nbytes
        receiver = self._receiver
        receiver.received(nbytes)
        try:
            if self._is_parked or self._sender.is_blocked:
                receiver.leave_scratch()  # at most the size of the next request
                self._mute_data_behind()
            elif self._turns.input_ns > BUDGET_NS and receiver.has_more():
                self._schedule_turn()
                receiver.leave_scratch()  # not as queued: at `queued.max.requests`, small requests would wait for all others
                self._settle()
            else:
                requests = self.requests
                self._turn()
                if self.requests != requests:
                    self._turns.input_ns += self._took()
        except Exception as error:
            self._failed(error)

    def _stays_open(self) -> bool:
        if not (self.is_open and self._is_in_work) or self.context.on_lost or self._transport.get_extra_info("sslcontext"):
            return False
        if self._is_holding:
            self._has_input_ended = True
        else:
            self.end()
        return True

    def _lost(self) -> None:
        if not self.is_open:
            return
        self.is_open, self._is_ending = False, True
        self.context.lose()
        self._receiver.close()
        self._unwatch()
        self._owner.lost(self)
        self._guarded(self._sender.close)
        while self._waiting:
            if isinstance(response := self._waiting.popleft(), Outgoing):
                response.discard()

    def resume_writing(self) -> None:
        """Send again: the transport is below its low water mark."""
        self._turns.begin()
        try:
            if self.is_open:
                self._touch()
                self._owner.taken(self)
                self._guarded(self._sender.resume)
        finally:
            self._turns.end("room to write")

    # -- what the server calls

    @property
    def is_waiting_for_broker(self) -> bool:
        """Whether the broker does not receive what the peer sends, for lack of memory: such a connection is not idle."""
        return self._receiver.is_waiting

    @property
    def is_sending(self) -> bool:
        """Whether the peer has not taken all of its responses, so that the broker waits for it."""
        return self._sender.is_blocked

    def unsent_bytes(self) -> int:
        """Return how much memory the responses take that the peer has not taken."""
        return int(self._sender.unsent_bytes())

    def partial_bytes(self) -> int:
        """Return how many bytes have come of a request that is being received; -1 if none is, or if it is not read now."""
        return -1 if self._mute or self._is_busy else self._receiver.partial_bytes()

    def peer_ended(self, *, is_lost: bool) -> None:
        """End the connection because the watched peer sends no more, or is gone."""
        self._is_watched = False
        if is_lost or self._transport.get_extra_info("sslcontext") is not None:
            self.abort()
        else:
            self.end()

    def end(self) -> None:
        """Take no more requests and drop those that were received; close when the one in work has its response."""
        self._is_ending = True
        self._mute_event(MuteEvent.CLOSING)
        self._receiver.close()
        if not self._is_in_work:
            self.close()

    def close(self) -> None:
        """Close after every response is sent."""
        self._sender.flush()  # what a turn has left to the next one
        self._drop(self._transport.close)

    def abort(self) -> None:
        """Close now; unsent bytes are lost."""
        self._drop(self._transport.abort)

    def _drop(self, how: Callable[[], None]) -> None:
        self._is_ending = True
        self._receiver.close()  # at once: how long the transport takes to send the rest is up to the peer
        # Not from within resume_writing: plain asyncio would report the loss of the connection twice.
        self._loop.call_soon(how)

    # -- what receiver and sender call

    def memory_granted(self) -> None:
        """Continue with the next request, which now has its memory."""
        self._mute_event(MuteEvent.MEMORY_GRANTED)
        if self._receiver.has_more() and not self._is_busy:
            self._schedule_turn()

    def memory_failed(self, error: MemoryError) -> None:
        """Close the connection: the system has no memory for its request."""
        self._failed(error)

    def output_ready(self) -> None:
        """Take the next turn: a response that could not be handed over at once now is."""
        self._guarded(self._send_waiting)

    def output_failed(self, error: BaseException) -> None:
        """Close the connection: a response cannot be finished, and the peer would take the next bytes for the rest of it."""
        level = logging.INFO if is_shortage(error) else logging.ERROR
        logger.log(level, "Closing %s: the data of its response could not be read: %r", self.context, error)
        self.abort()

    def call_soon(self, callback: Callable[[], None]) -> None:
        """Run `callback` in the next iteration of the loop."""
        self._loop.call_soon(self._guarded, callback)

    def run_in_thread(
        self, function: Callable[[], None], done: Callable[[BaseException | None], None], *, is_conversion: bool
    ) -> None:
        """Run a blocking read or a conversion in a thread."""

        def finished(future: Future[None]) -> None:
            error = asyncio.CancelledError() if future.cancelled() else future.exception()
            self._guarded(lambda: done(error))

        started = self._owner.conversions.run(function) if is_conversion else self._loop.run_in_executor(None, function)
        started.add_done_callback(finished)

    # -- what a handler calls

    @property
    def has_next_request(self) -> bool:
        """Whether the peer has sent more behind the request in hand."""
        return self._receiver.has_more()

    def hold_request(self, size: int) -> bool:
        """Keep the request's memory until `release_request`; this is the `RequestHolder` of its context."""
        self._is_holding = True
        return self._receiver.hold(size)

    def release_request(self) -> None:
        """Let the request's memory go. If the request remains parked, it waits from now on, and its peer is watched."""
        self._is_holding = False
        self._receiver.let_go()
        if self.is_open and not self._is_ending and self._is_parked:
            self._settle()

    # -- requests

    @property
    def _is_busy(self) -> bool:
        return self._is_parked or self._sender.is_blocked

    @property
    def _is_in_work(self) -> bool:
        return self._is_busy or bool(self._waiting)

    def _guarded(self, step: Callable[[], None]) -> None:
        """Run `step`; an exception in it ends this connection only."""
        try:
            step()
        except Exception as error:
            self._failed(error)

    def _failed(self, error: Exception) -> None:
        if isinstance(error, ProtocolViolation):
            logger.info("Closing %s: %s", self.context, error)
            self.counters.protocol_violations += 1
            self._sender.flush()  # the responses to earlier requests
            self.close()
        elif is_shortage(error):
            logger.info("Closing %s: the system has no memory, thread or descriptor for its request (%r)", self.context, error)
            self.abort()
        else:
            logger.error("Closing %s after an unexpected error, which is a bug", self.context, exc_info=error)
            self.abort()
        drop_frames(error)

    def _turn(self) -> None:
        """Take requests until there is none, one is in work, or other connections get their turn."""
        if self._is_ending:
            self._finish_ending()
            return
        receiver, sender, context, handler = self._receiver, self._sender, self.context, self._handler
        taken, deadline_ns, is_left = 0, self.active_ns + TURN_NS, False
        while (frame := receiver.next_frame()) is not None:
            taken += 1
            response = handler(context, frame)
            if type(response) is bytes and not self._waiting:
                sender.queue(response)
                if sender.is_blocked:
                    break
            elif response is not None:
                self._send(response)
                if self._is_busy or self._is_ending:
                    break
            if receiver.has_more() and (taken >= TURN_REQUESTS or self._now_ns() > deadline_ns):
                self._schedule_turn()
                is_left = True
                break
        else:
            self._count(taken)
            self._unwritten = 0
            sender.flush()
            if self._mute or receiver.is_waiting:
                self._settle()
            if self._has_input_ended and not self._is_ending and not self._is_busy:
                self.end()
            return
        self._count(taken)
        receiver.leave_scratch(is_turn_over=self._is_turn_scheduled)
        self._unwritten += taken
        if not is_left or self._unwritten >= WRITE_REQUESTS:
            self._unwritten = 0
            sender.flush()
        self._settle()

    def _count(self, taken: int) -> None:
        self.counters.requests += taken
        if taken and not self.requests:
            self._owner.requested(self)
        self.requests += taken

    def _send(self, response: EncodedResponse | Future[EncodedResponse]) -> None:
        if response is None:
            return
        if not isinstance(response, bytes | Outgoing):
            self._waiting.append(response)
            if not self.context.is_in_order:
                self._is_parked = True
            self.context.is_in_order = False
            response.add_done_callback(self._unpark)
        elif self._waiting:
            self._waiting.append(response)
        else:
            self._send_next(response)
            return
        if len(self._waiting) >= WAITING_MAX:
            self._is_parked = True

    def _send_next(self, response: EncodedResponse) -> None:
        """Send a response whose turn has come."""
        if isinstance(response, bytes):
            self._sender.queue(response)
        elif response is not None:
            if response.close_after:
                self._is_ending = True
            self._sender.stream(response)

    def _unpark(self, future: Future[EncodedResponse]) -> None:
        if future.cancelled():
            self.abort()
        elif not self.is_open:
            if future.exception() is None and isinstance(response := future.result(), Outgoing):
                response.discard()
        elif self._waiting and self._waiting[0] is future:  # else it is not its turn yet, or it was sent with one before it
            self._touch()
            try:
                self._send_waiting()
            except Exception as failure:
                self._failed(failure)

    def _send_waiting(self) -> None:
        """Send what no request without a response is in front of, and take the next requests."""
        waiting, sender = self._waiting, self._sender
        while waiting and not sender.is_blocked:
            response = waiting[0]
            if isinstance(response, asyncio.Future) and not response.done():
                break
            waiting.popleft()
            self._send_next(response.result() if isinstance(response, asyncio.Future) else response)
        if self._is_parked and not waiting:
            self._is_parked = False
            self._unwatch()
        if self._is_busy:
            sender.flush()
        else:
            self._turn()

    def _schedule_turn(self) -> None:
        if not self._is_turn_scheduled:
            self._is_turn_scheduled = True
            self._loop.call_soon(self._next_turn)

    def _next_turn(self) -> None:
        if self._turns.input_ns > BUDGET_NS:
            self._owner.turn_later(self._late_turn, self._turn_ns)
        else:
            self._turns.input_ns += self._late_turn()

    def _late_turn(self) -> int:
        self._is_turn_scheduled = False
        if not self.is_open or self._is_busy:
            return 0
        self._touch()
        self._guarded(self._turn)
        return self._took()

    def _now_ns(self) -> int:
        return time.monotonic_ns() if self._other_clock is None else self._other_clock()

    def _took(self) -> int:
        """Return what the turn took. As it may have waited for a core, one long turn among short ones is not the rule."""
        self._turn_ns = min(took_ns := self._now_ns() - self.active_ns, 2 * self._turn_ns)
        return took_ns

    def _finish_ending(self) -> None:
        self._sender.flush()
        if not self._is_in_work:
            self.close()

    def _touch(self) -> None:
        self.active_ns = self._now_ns()
        if self.active_ns >= self._noted_until_ns:
            self._noted_until_ns = self._owner.active(self)

    def _settle(self) -> None:
        """Pause or resume reading after a turn, as its outcome demands."""
        if self._is_ending:
            self._mute_event(MuteEvent.CLOSING)
            self._finish_ending()
            return
        self._mute_data_behind()
        if self._mute and not self._is_busy and not self._receiver.has_more():
            self._mute_event(MuteEvent.OUTPUT_READY)
            self._mute_event(MuteEvent.WORK_DONE)

    def _mute_data_behind(self) -> None:
        if self._receiver.is_waiting:
            self._mute_event(MuteEvent.MEMORY_REFUSED)
        if self._receiver.has_more():
            self._mute_event(MuteEvent.DATA_BEHIND_OUTPUT if self._sender.is_blocked else MuteEvent.DATA_BEHIND_WORK)
            if self._is_parked and not self._is_watched and not self._is_holding:
                self._is_watched = True
                self._owner.watch(self)

    def _unwatch(self) -> None:
        if self._is_watched:
            self._is_watched = False
            self._owner.unwatch(self)

    def _mute_event(self, event: MuteEvent) -> None:
        before = self._mute
        self._mute = after = self._owner.mute_counters.after(before, event)
        if bool(before) != bool(after) and not self._transport.is_closing():
            if after:
                self._transport.pause_reading()
            else:
                self._transport.resume_reading()

    @property
    def extra(self) -> Callable[[str], Any]:
        """The `get_extra_info` of the transport."""
        return self._transport.get_extra_info

    @property
    def descriptor(self) -> int:
        """The socket's file descriptor."""
        return int(self._transport.get_extra_info("socket").fileno())
