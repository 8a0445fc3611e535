"""The threads in which produced batches are checked that take too long for the loop.

The codecs and the native kernels let go of the interpreter, so that the loop serves others meanwhile; between two pieces of a
batch there are some 20 us of Python. A thread holds one piece of a batch at a time, and a batch that is built again.

How long a check takes is known when it is over: a codec declares no size, or a wrong one. So a check may at first inflate as much
as the records of an honest producer do. A batch that has more is given up, waits again, and may inflate more then. So at most a
seventh of the work is done in vain. A few long batches do not keep the others waiting, because one of the threads takes none.
A connection has one request in work, hence one check at most, which ends when the connection is lost. The end of input alone ends
none: a client with acks=0 sends and closes.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from pybroker.long_work import LongWork
from pybroker.protocol.error_codes import ErrorCode, KafkaError
from pybroker.records.work import LongWorkError, Work

if TYPE_CHECKING:
    from pybroker.network.context import ConnectionContext
    from pybroker.records.validate import Checked
    from pybroker.records.work import LongCheck

THREADS: Final = 3
SHORT_BYTES: Final = 32 << 20
"""One more thread takes the checks that may inflate no further."""
FIRST_BYTES: Final = 4 << 20
FIRST_RATIO: Final = 8
"""A check may at first inflate `FIRST_RATIO` times its own size, and at least `FIRST_BYTES`."""
GROWTH: Final = 8


class Validations:
    """Runs long checks. Belongs to the loop."""

    __slots__ = ("_threads", "is_closed")

    def __init__(self) -> None:
        self._threads = LongWork("validate", THREADS, short_max=SHORT_BYTES)
        self.is_closed = False

    @property
    def running(self) -> int:
        """The number of checks in threads."""
        return self._threads.running

    def work(self, connection: ConnectionContext) -> Work:
        """Return the work of one request, which begins on the loop and ends when the broker stops or the connection is lost."""
        return Work(is_on_loop=True, is_cancelled=lambda: self.is_closed or connection.is_lost)

    async def run(self, check: LongCheck, records: memoryview, work: Work) -> Checked:
        """Check `records`, which must not change before the return. Raises what `check` raises."""
        if self.is_closed:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "the broker stops")
        work.is_on_loop = False
        share = max(FIRST_BYTES, FIRST_RATIO * len(records))
        try:
            while True:
                work.bytes_max = work.inflated_bytes + share
                try:
                    return await self._threads.run(partial(_wanted, check, records, work), share)
                except LongWorkError:
                    share *= GROWTH
        finally:
            work.is_on_loop = True

    def close(self) -> None:
        """End what is running: at its next piece, with NOT_LEADER_OR_FOLLOWER. Nothing may be given to `run` afterwards."""
        self.is_closed = True
        self._threads.close()


def _wanted(check: LongCheck, records: memoryview, work: Work) -> Checked:
    work.ensure_wanted()
    return check(records, work=work)
