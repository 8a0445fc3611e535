"""Large honest requests are handled in pieces, between which the loop serves others.

Idea
    Most requests ask something for each of their topics, partitions, groups or resources that does not depend on the others. A
    handler's module declares it with `PIECES`, which names the lists. A large request of such an API is cut into small ones, the
    handler sees one after the other, and their responses are joined. So no handler needs to know how long a list may be.

What others see between two pieces
    The response to each element is made from the state in which its piece finds the broker: what a client changes meanwhile,
    another element may have missed. A group that fails in one piece (its member is fenced, its partition has moved) fails as a
    whole, as it does where one piece has the whole group.

What is described once
    A few bytes may ask for megabytes: the name of a group with many members. Such an element that is named again is left out,
    also where another piece had it (`Once`). Only the names of large descriptions are remembered, so there are no more of them
    than the broker has such groups or topics, however many a request names.

Not here
    Requests whose elements belong together: what is committed, created or altered at once (`metadata/following.py`), and Produce,
    Fetch and ListOffsets, which have ways of their own.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from pybroker.protocol.schema import schema_of
from pybroker.sharing.loop import in_slices

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Hashable, Iterable, Iterator

    from pybroker.api.context import RequestContext, Services
    from pybroker.sharing.work import Work

PIECE_ELEMENTS: Final = 200

UNCOUNTED_BYTES: Final = 64
"""A request up to this size has so few elements that they are not counted."""

Element = TypeVar("Element")
Message = TypeVar("Message")


class Once(NamedTuple):
    """How an API describes once what a request names several times.

    `leave_out` takes from a request the elements that are among the given names, or named before in the same request. It returns
    the names of the others. `large` has the names of what a response describes at length.
    """

    leave_out: Callable[[Any, Container[Hashable]], set[Hashable]]
    large: Callable[[Any], Iterable[Hashable]]


def first_of(
    elements: list[Element], known: Container[Hashable], named: set[Hashable], name_of: Callable[[Element], Hashable]
) -> list[Element]:
    """Return the elements whose names are neither in `known` nor in `named`, each name once; they are in `named` then."""
    first = []
    for element in elements:
        name = name_of(element)
        if name not in named and name not in known:
            named.add(name)
            first.append(element)
    return first


def once_by_name(asked: str, large: Callable[[Any], Iterable[Hashable]]) -> Once:
    """Return how an API describes once what it names in the list `asked` of its request."""

    def leave_out(request: Any, known: Container[Hashable]) -> set[Hashable]:
        named: set[Hashable] = set()
        setattr(request, asked, first_of(getattr(request, asked), known, named, str))
        return named

    return Once(leave_out=leave_out, large=large)


class Pieces:
    """How requests of an API are cut, and responses joined.

    `asked` are the names of the lists of the request, from the outer to the inner; several ways for several versions. `responded`
    has the names of the response's lists for each way. If the first list of a way is empty, the request is of another version.

    A piece has at most `elements`. A request that has no more, or is no larger than `uncounted_bytes`, is not cut; its handler
    leaves out repeats itself. `bound` looks at a whole request before it is cut, and may change it: a piece does not show how
    much all pieces want.
    """

    __slots__ = ("_bound", "_elements", "_once", "_uncounted_bytes", "_ways")

    def __init__(
        self,
        *ways: tuple[str, str],
        elements: int = PIECE_ELEMENTS,
        uncounted_bytes: int = UNCOUNTED_BYTES,
        once: Once | None = None,
        bound: Callable[[Services, RequestContext, Any], None] | None = None,
    ) -> None:
        self._ways = [(asked.split("."), responded.split(".")) for asked, responded in ways]
        self._elements = elements
        self._once = once
        self._bound = bound
        self._uncounted_bytes = uncounted_bytes if uncounted_bytes != UNCOUNTED_BYTES else min(elements, uncounted_bytes)

    def is_large(self, request: Any, size: int) -> bool:
        """Return whether a request of `size` bytes has more elements than are handled at once."""
        if size <= self._uncounted_bytes:
            return False
        asked = next((way[0] for way in self._ways if getattr(request, way[0][0])), None)
        return asked is not None and _length(request, asked, self._elements) > self._elements

    def handle(
        self, handle: Callable[[Services, RequestContext, Any], Any], broker: Services, context: RequestContext, request: Any
    ) -> Any:
        """Return the response to a large request, or a Future of it."""
        if self._bound is not None:
            self._bound(broker, context, request)
        return in_slices(self._handle(lambda piece: handle(broker, context, piece), request), may_begin_later=True)

    def _handle(self, handle: Callable[[Any], Any], request: Any) -> Work[Any]:
        asked, responded = next((way for way in self._ways if getattr(request, way[0][0])), self._ways[0])
        whole, once, known = None, self._once, set[Any]()
        for piece, depth in cut(request, asked, self._elements):
            named: set[Any] = set() if once is None else once.leave_out(piece, known)
            if whole is None or getattr(piece, asked[0]):  # a handler may take an empty list for all there are
                response = handle(piece)
                if isinstance(response, asyncio.Future) or asyncio.iscoroutine(response):
                    later = asyncio.ensure_future(response)
                    yield later
                    response = later.result()
                if once is not None:
                    known.update(named.intersection(once.large(response)))
                if whole is None:
                    whole = response
                else:
                    join(whole, response, responded, depth)
            yield None
        return whole


def cut(message: Any, path: list[str], size: int) -> Iterator[tuple[Any, int]]:
    """Yield copies of a message that together have its lists, each with at most `size` elements, an empty inner list as one.

    A null inner list asks for everything, so it counts as a full copy.

    The second value is the number of outer lists whose first element in the copy is one that the copy before has begun.
    """
    name, inner = path[0], path[1:]
    elements = getattr(message, name)
    if not elements:
        yield message, 0
        return
    taken: list[Any] = []
    count = depth = 0
    for element in elements:
        parts: Iterator[tuple[Any, int]] = cut(element, inner, size) if inner else iter([(element, 0)])
        for number, (part, part_depth) in enumerate(parts):
            length = _length(part, inner, size)
            if taken and count + length > size:
                yield with_field(message, name, taken), depth
                taken, count = [], 0
            if not taken:
                depth = 1 + part_depth if number else 0
            taken.append(part)
            count += length
    yield with_field(message, name, taken), depth


def _length(element: Any, path: list[str], size: int) -> int:
    if not path:
        return 1
    elements, inner = getattr(element, path[0]), path[1:]
    if elements is None:
        return size
    return max(1, sum(_length(one, inner, size) for one in elements) if inner else len(elements))


def with_field(message: Message, name: str, value: Any) -> Message:
    """Return a copy of a message, or of an element of one, with another value of a field."""
    fields = {field.name: getattr(message, field.name) for field in schema_of(type(message)).fields}
    return type(message)(**{**fields, name: value})


def join(whole: Any, response: Any, path: list[str], depth: int) -> None:
    """Append the lists of a response; its first `depth` elements, from the outside, continue the last ones of `whole`.

    Where `response` has an error of its own, `whole` gets it and has no elements any more.
    """
    if getattr(whole, "error_code", 0):
        return
    if getattr(response, "error_code", 0):
        for field in schema_of(type(response)).fields:
            setattr(whole, field.name, getattr(response, field.name))
        return
    elements = getattr(response, path[0])
    into = getattr(whole, path[0])
    if depth and into and elements:
        join(into[-1], elements[0], path[1:], depth - 1)
        elements = elements[1:]
    into += elements
