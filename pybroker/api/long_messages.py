"""Requests and responses that take too long for the loop are decoded and encoded in a thread.

The codec counts the elements of a message, and gives up when there are more than the loop may take at once. Then the whole is
done in the thread. There the codec lets go of the interpreter when the loop asks for it. Long messages are freed there, too.

One thread serves all: more of them would only take turns at the interpreter. A long message waits for those before it, while
short ones pass by on the loop.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from pybroker.api.element_budget import REQUESTS, ElementBudget
from pybroker.api.error_counts import error_codes
from pybroker.network.context import ProtocolViolation
from pybroker.protocol.codec import DecodeError, TooManyElementsError, decode, dissolve, encode_response
from pybroker.protocol.schema import Schema, schema_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from pybroker.api.element_budget import Reservation
    from pybroker.network.context import ConnectionContext, RequestHolder
    from pybroker.protocol.parts import Part

Result = TypeVar("Result")

_LONG_LIST: Final = 1024
_NO_BYTES: Final = memoryview(b"")


class Encoded(NamedTuple):
    """A response and its error codes, each with how often the response has it."""

    parts: list[Part]
    codes: Counter[int]


class LongMessages:
    """The thread, which is started for the first long message. Belongs to the loop.

    `request_elements_max` (pybroker.request.elements.max) bounds the elements of a request, and so what its decoded form takes.
    """

    __slots__ = ("_executor", "budget", "request_elements_max")

    def __init__(self, request_elements_max: int) -> None:
        self.request_elements_max = request_elements_max
        self.budget = ElementBudget(REQUESTS * request_elements_max)
        self._executor: ThreadPoolExecutor | None = None

    def run(self, function: Callable[..., Result], *arguments: Any) -> asyncio.Future[Result]:
        """Run a function in the thread."""
        if self._executor is None:
            self._executor = ThreadPoolExecutor(1, thread_name_prefix="codec")
        return asyncio.get_running_loop().run_in_executor(self._executor, function, *arguments)

    async def decode(self, cls: type[Any], version: int, held: HeldRequest, offset: int, reservation: Reservation) -> Any:
        """Return the message of a request, when there are enough elements for it. Raises ProtocolViolation."""
        await reservation.take(min(len(held.frame), self.request_elements_max))
        if reservation.is_abandoned:
            raise ProtocolViolation("the connection is closed")
        try:
            request, elements = await self.run(
                partial(_decode, cls, version, held.frame, offset=offset, elements_max=self.request_elements_max)
            )
        except TooManyElementsError:
            raise
        except DecodeError as error:
            raise ProtocolViolation(f"a request that cannot be read: {error}") from error
        reservation.keep(elements)
        return request

    def encode(self, response: list[Any], *, version: int, correlation_id: int) -> asyncio.Future[Encoded]:
        """Encode the only element of the list `response`, which is taken out, so that the thread frees it, too.

        Lists and messages in it that are kept for other responses stay as they are.
        """
        return self.run(partial(_encode, response, version=version, correlation_id=correlation_id))

    def free(self, message: list[Any], version: int) -> None:
        """Free the only element of the list `message`, before anything else that the thread is asked for from now on."""
        self.run(dissolve, message, version)


def _decode(cls: type[Any], version: int, frame: memoryview, *, offset: int, elements_max: int) -> tuple[Any, int]:
    request = decode(cls, version, frame, offset, whole_max=elements_max)
    return request, _elements_of((request,), schema_of(cls))


def _elements_of(messages: Iterable[Any], schema: Schema) -> int:
    """Return how many elements the lists of messages have."""
    count = 0
    for field in schema.fields:
        if not field.is_array:
            continue
        inner = None if field.struct is None else schema_of(field.struct)
        if inner is not None and not any(one.is_array for one in inner.fields):
            inner = None
        for message in messages:
            elements = getattr(message, field.name)
            if elements:
                count += len(elements) if inner is None else len(elements) + _elements_of(elements, inner)
    return count


def _counted(codes: Sequence[int]) -> Counter[int]:
    """Return how often each code is there. One call for all would keep the interpreter until it has counted them."""
    counts: Counter[int] = Counter()
    for start in range(0, len(codes), _LONG_LIST):
        counts.update(codes[start : start + _LONG_LIST])
    return counts


def _encode(held: list[Any], *, version: int, correlation_id: int) -> Encoded:
    (response,) = held
    encoded = Encoded(encode_response(response, version, correlation_id), _counted(error_codes(response)))
    del response
    dissolve(held, version)
    return encoded


class HeldRequest:
    """The bytes of a request that is decoded in the thread, and what keeps them.

    During the call of the handler it is the `RequestHolder` of the connection.
    """

    __slots__ = ("_connection", "_holder", "_is_wanted", "frame")

    def __init__(self, connection: ConnectionContext, frame: memoryview) -> None:
        """Keep the bytes of `frame`. Call it before the dispatcher returns."""
        self._connection = connection
        self._holder: RequestHolder | None = connection.holder
        self._is_wanted = False
        stays = self._holder is not None and self._holder.hold_request(len(frame))
        self.frame = frame if stays else memoryview(bytearray(frame))

    @property
    def has_next_request(self) -> bool:
        """Whether the peer has sent more behind the request."""
        return self._holder is not None and self._holder.has_next_request

    def hold_request(self, size: int) -> bool:  # noqa: ARG002  (the whole request is counted)
        """Keep the bytes beyond the return of the handler."""
        self._is_wanted = True
        return True

    def release_request(self) -> None:
        """Let the bytes go."""
        holder, self._holder = self._holder, None
        self.frame = _NO_BYTES
        if holder is not None:
            holder.release_request()

    def during(self, handle: Callable[[], Result]) -> Result:
        """Call a handler, and let the bytes go when it has returned, unless it holds them."""
        connection, outer = self._connection, self._connection.holder
        if outer is not None:
            connection.holder = self
        try:
            return handle()
        finally:
            if outer is not None:
                connection.holder = outer
            if not self._is_wanted:
                self.release_request()
