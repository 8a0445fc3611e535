"""The errors of invalid records, each with the code of its response."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import Final, NamedTuple

from pybroker.protocol.error_codes import ErrorCode, KafkaError


class CorruptRecordError(KafkaError):
    """The bytes are damaged: a wrong checksum, size or magic. CORRUPT_MESSAGE: the producer sends them again."""

    def __init__(self, message: str, code: ErrorCode = ErrorCode.CORRUPT_MESSAGE) -> None:
        super().__init__(code, message)


class InvalidRecordError(CorruptRecordError):
    """The bytes arrived as they were sent, but they are not valid records. INVALID_RECORD: sending them again does not help."""

    def __init__(self, message: str, code: ErrorCode = ErrorCode.INVALID_RECORD) -> None:
        super().__init__(message, code)


class RecordTooLargeError(KafkaError):
    """A batch is larger than the topic's `max.message.bytes`. MESSAGE_TOO_LARGE."""

    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.MESSAGE_TOO_LARGE, message)


class UnsupportedCompressionError(KafkaError):
    """The codec does not exist for this message format or request version. UNSUPPORTED_COMPRESSION_TYPE."""

    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, message)


class ConversionClosedError(Exception):
    """A conversion was closed while a thread was at work on it. No client waits for its outcome."""


class RecordError(NamedTuple):
    """Why the broker refused one record of a batch; goes into ProduceResponse v8+ as it is."""

    batch_index: int
    message: str


class RecordValidationError(InvalidRecordError):
    """Some records of a batch break the topic's rules, so none of them is appended. INVALID_RECORD or INVALID_TIMESTAMP.

    Attributes:
        record_errors: the refused records in order, or the first of them. `count` is the number of all.
    """

    def __init__(self, record_errors: Sequence[RecordError], code: ErrorCode, *, count: int) -> None:
        if code is ErrorCode.INVALID_TIMESTAMP:
            text = "One or more records have been rejected due to invalid timestamp"
        else:
            first = "; ".join(f"{error.batch_index}: {error.message}" for error in record_errors[:3])
            text = f"{count} records have been rejected, the first of them: {first}"
        super().__init__(text, code)
        self.record_errors = record_errors


class RecordFault(IntEnum):
    """The faults that a kernel can find in records. Each native part checks at its import that it has the same numbers."""

    CUT_NUMBER = 0
    LONG_NUMBER = 1
    RECORD_SIZE = 2
    LONG_FIELD = 3
    HEADER_COUNT = 4
    NULL_HEADER_KEY = 5
    LONG_RECORD = 6
    BYTES_LEFT = 7
    OUT_OF_RANGE = 8
    SMALL_MESSAGE = 9
    WRONG_MAGIC = 10
    NESTED = 11
    MESSAGE_FIELDS = 12
    CHECKSUM = 13
    TOO_LARGE = 14


FAULT_MESSAGES: Final = {
    RecordFault.CUT_NUMBER: "a record ends inside a variable-length number",
    RecordFault.LONG_NUMBER: "a variable-length number does not end",
    RecordFault.RECORD_SIZE: "a record's size does not fit the batch",
    RecordFault.LONG_FIELD: "a field is longer than its record",
    RecordFault.HEADER_COUNT: "a record has an impossible number of headers",
    RecordFault.NULL_HEADER_KEY: "a header has no key",
    RecordFault.LONG_RECORD: "a record is longer than its fields",
    RecordFault.BYTES_LEFT: "there are bytes after the last record",
    RecordFault.OUT_OF_RANGE: "an offset or timestamp does not fit 64 bits",
    RecordFault.SMALL_MESSAGE: "a message is smaller than its header",
    RecordFault.WRONG_MAGIC: "a message has another magic than was announced",
    RecordFault.NESTED: "a compressed message is inside a compressed message",
    RecordFault.MESSAGE_FIELDS: "a message's fields do not fill it",
    RecordFault.CHECKSUM: "a message's checksum is wrong",
    RecordFault.TOO_LARGE: "the records are larger than 2 GB",
}
"""The errors that both twins of a kernel raise for the same bytes."""

CHECKSUM_FAULTS: Final = frozenset({RecordFault.SMALL_MESSAGE, RecordFault.CHECKSUM})  # damage on the way


def record_fault(number: int) -> CorruptRecordError:
    """Return the error for a fault that a kernel found."""
    fault = RecordFault(number)
    kind = CorruptRecordError if fault in CHECKSUM_FAULTS else InvalidRecordError
    return kind(FAULT_MESSAGES[fault])
