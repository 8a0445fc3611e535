"""What can be wrong with records, each with the code that answers it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from pybroker.protocol.error_codes import ErrorCode, KafkaError


class CorruptRecordError(KafkaError):
    """The bytes are damaged: a wrong checksum, size or magic. CORRUPT_MESSAGE: the producer sends them again."""

    def __init__(self, message: str, code: ErrorCode = ErrorCode.CORRUPT_MESSAGE) -> None:
        super().__init__(code, message)


class InvalidRecordError(CorruptRecordError):
    """The bytes arrived as they were sent, but they are not valid records. INVALID_RECORD: sending again does not help."""

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


class RecordError(NamedTuple):
    """Why one record of a batch was refused; goes into ProduceResponse v8+ as it is."""

    batch_index: int
    message: str


class RecordValidationError(InvalidRecordError):
    """Some records of a batch break the topic's rules, so none of them is appended. INVALID_RECORD or INVALID_TIMESTAMP.

    Attributes:
        record_errors: one entry for every refused record, in order.
    """

    def __init__(self, record_errors: Sequence[RecordError], code: ErrorCode) -> None:
        if code is ErrorCode.INVALID_TIMESTAMP:
            text = "One or more records have been rejected due to invalid timestamp"
        else:
            first = "; ".join(f"{error.batch_index}: {error.message}" for error in record_errors[:3])
            text = f"{len(record_errors)} records have been rejected, the first of them: {first}"
        super().__init__(text, code)
        self.record_errors = record_errors


RECORD_FAULTS = (
    "a record ends inside a variable-length number",
    "a variable-length number does not end",
    "a record's size is not one that fits the batch",
    "a field is longer than its record",
    "a record has an impossible number of headers",
    "a header has no key",
    "a record is longer than its fields",
    "there are bytes after the last record",
    "an offset or timestamp is outside of 64 bits",
    "a message is smaller than its header",
    "a message is not of the magic that was announced",
    "a compressed message stands inside a compressed message",
    "a message's fields do not fill it",
    "a message's checksum is wrong",
    "the records are larger than 2 GB",
)
"""What `_kernels_native` and `_kernels_python` find; they raise the text at the same index for the same bytes."""

CHECKSUM_FAULTS = frozenset({9, 13})  # damage on the way, not a client that errs


def record_fault(index: int) -> CorruptRecordError:
    """The error for a fault that a kernel found."""
    kind = CorruptRecordError if index in CHECKSUM_FAULTS else InvalidRecordError
    return kind(RECORD_FAULTS[index])
