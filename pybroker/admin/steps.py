"""Work on a broker as steps: each yields a request and gets its response, whatever carries it there.

    def cluster_id() -> Steps[str]:
        response = yield Ask(MetadataRequest(topics=[]), version=9)
        return response.cluster_id

A broker in the process of the test takes the requests at its dispatcher, so that they are neither seen among the requests of
clients nor met by faults, and need no connection. A broker that is a process takes them at a connection.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Generator
from typing import Any, Final, NamedTuple, TypeVar

from pybroker.protocol.error_codes import ErrorCode, KafkaError, code_of_number

Result = TypeVar("Result")

PATIENCE_S: Final = 30.0
"""How long steps wait for a leader or a coordinator that is coming up."""

PASSING: Final = frozenset({
    ErrorCode.LEADER_NOT_AVAILABLE, ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_LEADER_EPOCH,
    ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR,
    ErrorCode.OFFSET_NOT_AVAILABLE,
})  # fmt: skip
"""Errors that end by themselves."""


class Ask(NamedTuple):
    """A request in one version for the broker `node`; without one, for any."""

    request: Any
    version: int
    node: int | None = None


Steps = Generator[Ask | float, Any, Result]
"""Yields requests and gets their responses, or yields a number of seconds to wait."""


async def carry_out(steps: Steps[Result], ask: Callable[[Ask], Awaitable[Any]]) -> Result:
    """Carry out steps, and return their result. `ask` returns the response to a request."""
    response: Any = None
    while True:
        try:
            step = steps.send(response)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]
        response = await (ask(step) if isinstance(step, Ask) else asyncio.sleep(step))


def check(code: int, message: str | None = None) -> None:
    """Raise KafkaError if the code is an error."""
    if code:
        raise KafkaError(code_of_number(code), message)


class Patience:
    """The limit of the time for which steps try again."""

    def __init__(self, limit_s: float = PATIENCE_S) -> None:
        self._end = time.monotonic() + limit_s

    @property
    def left_s(self) -> float:
        """The seconds that are left, at least 0."""
        return max(0.0, self._end - time.monotonic())

    def allows(self, code: int) -> bool:
        """Return whether an error may be tried again. Raises KafkaError for one that does not pass, or when the time is over."""
        if not code:
            return False
        if code not in PASSING or not self.left_s:
            raise KafkaError(code_of_number(code))
        return True
