"""The threads in which produced batches are checked that take too long for the loop.

The codecs and the native kernels let go of the interpreter, so that the loop serves others meanwhile; between two pieces of a
batch there are some 20 us of Python. A thread holds one piece of a batch at a time, and a batch that is built again. So more
threads cost little, and one long batch does not keep others waiting while there is another thread.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Final

from pybroker.protocol.error_codes import ErrorCode, KafkaError
from pybroker.records.work import Work

if TYPE_CHECKING:
    from pybroker.records.validate import Checked
    from pybroker.records.work import LongCheck

THREADS: Final = 4


class Validations:
    """Runs long checks. Belongs to the loop. The threads are started when the first long batch comes."""

    __slots__ = ("_executor", "is_closed", "running")

    def __init__(self) -> None:
        self._executor: ThreadPoolExecutor | None = None
        self.is_closed = False
        self.running = 0

    def work(self) -> Work:
        """Return the work of one request, which begins on the loop and ends when the broker stops."""
        return Work(is_on_loop=True, is_cancelled=lambda: self.is_closed)

    async def run(self, check: LongCheck, records: memoryview, work: Work) -> Checked:
        """Check `records`, which must not change before the return. Raises what `check` raises."""
        if self.is_closed:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "the broker stops")
        if self._executor is None:
            self._executor = ThreadPoolExecutor(THREADS, thread_name_prefix="validate")
        work.is_on_loop = False
        self.running += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._executor, partial(check, records, work=work))
        finally:
            self.running -= 1
            work.is_on_loop = True

    def close(self) -> None:
        """End what is running: at its next piece, with NOT_LEADER_OR_FOLLOWER. Nothing may be given to `run` afterwards."""
        self.is_closed = True
        if self._executor is not None:
            self._executor.shutdown(wait=True, cancel_futures=True)
