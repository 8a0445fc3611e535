"""The outcome of an operation that may fail where it has no caller any more."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from pybroker.coordinator.runtime.appender import CLIENT_CODES
from pybroker.failures import is_shortage
from pybroker.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable

    from pybroker.model import TopicPartition

logger = logging.getLogger(__name__)


def code_of(error: Exception) -> ErrorCode:
    """Return the code that clients get for an unexpected exception: for a shortage, the code of an append that had one."""
    return CLIENT_CODES[ErrorCode.KAFKA_STORAGE_ERROR] if is_shortage(error) else ErrorCode.UNKNOWN_SERVER_ERROR


def log_failure(what: str, error: Exception) -> None:
    """Log an unexpected exception, which is a bug unless it is a shortage; `what` failed."""
    if is_shortage(error):
        logger.info("%s failed for a shortage of memory, threads or descriptors: %r", what, error)
    else:
        logger.error("%s failed, which is a bug", what, exc_info=error)


class Once:
    """A callback that passes on the first outcome that it gets, and no other."""

    __slots__ = ("_done", "_topic_partition")

    def __init__(self, done: Callable[[Any], None], topic_partition: TopicPartition) -> None:
        self._done: Callable[[Any], None] | None = done
        self._topic_partition = topic_partition

    def __call__(self, outcome: object) -> None:
        """Pass on the outcome, if it is the first."""
        done, self._done = self._done, None
        if done is not None:
            done(outcome)

    def fail(self, error: Exception) -> None:
        """Make the code of the exception the outcome unless there is one, and log the exception."""
        try:
            self(code_of(error))  # first, because no fault of the log may keep it from the client
        finally:
            log_failure(f"An operation on {self._topic_partition}", error)
