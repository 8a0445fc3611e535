"""The errors that can occur between a job and a broker."""

from __future__ import annotations

from typing import Final

from pybroker.protocol.error_codes import ErrorCode
from pybroker.spark.errors import PipelineError

_CODES: Final = {int(code): code for code in ErrorCode}


class ConnectionLostError(PipelineError):
    """The connection ended, or could not be made; another connection may succeed."""


class NotKafkaError(PipelineError):
    """The server does not speak Kafka's protocol, or breaks it."""


class BrokerError(PipelineError):
    """The broker responded with an error; the message has Kafka's name for it.

    Attributes:
        code: the error code; None for a number that is not in ErrorCode.
    """

    def __init__(self, what: str, number: int, message: str | None = None) -> None:
        self.code = _CODES.get(number)
        name = f"error {number}" if self.code is None else self.code.name
        text = message or ("" if self.code is None else self.code.message)
        super().__init__(f"{what}: {name}{': ' if text else ''}{text}".splitlines()[0])

    @property
    def is_retriable(self) -> bool:
        """Whether Kafka's clients would retry by themselves."""
        return self.code is not None and self.code.is_retriable


def check(what: str, number: int, message: str | None = None) -> None:
    """Raise BrokerError unless the number is NONE."""
    if number != ErrorCode.NONE:
        raise BrokerError(what, number, message)
