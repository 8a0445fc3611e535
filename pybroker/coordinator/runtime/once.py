"""The outcome of an operation that may fail where it has no caller any more."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from pybroker.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable

    from pybroker.model import TopicPartition

logger = logging.getLogger(__name__)


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
        """Make UNKNOWN_SERVER_ERROR the outcome unless there is one, and log the exception."""
        try:
            self(ErrorCode.UNKNOWN_SERVER_ERROR)  # first, because no fault of the log may keep it from the client
        finally:
            logger.error("An operation on %s has failed, which is a bug", self._topic_partition, exc_info=error)
