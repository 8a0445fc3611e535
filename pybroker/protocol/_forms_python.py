"""Requests that are like one before, in Python: the contract of both twins, and what runs where the native part was not built.

Idea
    A producer that writes to one partition sends the same request over and over. Only the correlation id, the number of the
    partition and the records differ. A form has the bytes of one such request without these three. A later request whose other
    bytes are the same means the same, because decoding reads a request from left to right: so it needs no decoding.
"""

from __future__ import annotations

from typing import Final

from pybroker.protocol.wire import DecodeError, read_uvarint

__all__ = ["RequestForm"]

CORRELATION_ID_AT: Final = 4
CORRELATION_ID_END: Final = 8
NUMBER_BYTES: Final = 4
LENGTH_BYTES: Final = 4


class RequestForm:
    """Requests that differ only in the correlation id, in one number of 32 bits, and in the records behind this number.

    Args:
        head: the bytes up to the number, with any correlation id.
        tail: the bytes behind the records.
        is_flexible: whether the length of the records is an unsigned varint, and one larger than they are.

    Attributes:
        correlation_id, number: those of the request that `records_in` was given last, if it is of this form.
    """

    __slots__ = ("_head", "_is_flexible", "_tail", "correlation_id", "number")

    def __init__(self, head: bytes, tail: bytes, is_flexible: bool) -> None:
        if len(head) < CORRELATION_ID_END:
            raise ValueError("a request begins with a header")
        self._head = head
        self._tail = tail
        self._is_flexible = is_flexible
        self.correlation_id = self.number = 0

    def records_in(self, frame: memoryview) -> memoryview | None:
        """Return the records of a request of this form, a slice of its `frame`, which is borrowed; None for any other."""
        head, tail = self._head, self._tail
        at = len(head)
        if frame[:CORRELATION_ID_AT] != head[:CORRELATION_ID_AT] or frame[CORRELATION_ID_END:at] != head[CORRELATION_ID_END:]:
            return None
        start = at + NUMBER_BYTES
        try:
            if self._is_flexible:
                size, start = read_uvarint(frame, start)
                size -= 1
            else:
                size = int.from_bytes(frame[start : start + LENGTH_BYTES], signed=True)
                start += LENGTH_BYTES
        except (IndexError, DecodeError):
            return None
        end = start + size
        if size < 0 or end + len(tail) != len(frame) or frame[end:] != tail:
            return None
        self.correlation_id = int.from_bytes(frame[CORRELATION_ID_AT:CORRELATION_ID_END], signed=True)
        self.number = int.from_bytes(frame[at : at + NUMBER_BYTES], signed=True)
        return frame[start:end]
