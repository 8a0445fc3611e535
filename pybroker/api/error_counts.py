"""The error codes that a response says, for counting them.

Behaviour
    Every `error_code` in the response's lists counts, as its declaration has them; the one of the response itself only if it says
    an error, or if nothing else has a code. Exceptions are listed below.
Source: AbstractResponse.errorCounts of each response.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from pybroker.protocol.api_keys import ApiKey
from pybroker.protocol.compiler import IS_NATIVE
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.schema import schema_of

_Reader = Callable[[Any], Sequence[int]]

NEVER, ALWAYS, IF_SET_OR_ALONE = range(3)
"""When the code of a message itself counts; the numbers are those of `protocol/_codec_native.pyx`."""


def error_codes(response: Any) -> Sequence[int]:
    """Every code in `response`, NONE (0) included, one for each thing that can fail by itself."""
    return error_reader(type(response))(response)


ERROR_NAMES: Final[dict[int, str]] = {int(code): code.name for code in ErrorCode}


class Places(NamedTuple):
    """Where the messages of a class have codes: their own, and those in lists of others by the lists' names."""

    cls: type
    own: int
    inner: tuple[tuple[str, Places], ...]


def error_reader(response_class: type) -> _Reader:
    """What finds the codes of a class of responses."""
    reader = _READERS.get(response_class)
    if reader is None:
        places = places_of(response_class)
        reader = _READERS[response_class] = native_reader(places) if IS_NATIVE else pure_reader(places)
    return reader


_READERS: Final[dict[type, _Reader]] = {}
"""Those that were made so far."""


def places_of(response_class: type) -> Places:
    """Where a response has the codes that count."""
    places = _declared(response_class)
    api_key = schema_of(response_class).api_key
    if api_key is ApiKey.FETCH:  # Kafka counts its own code always
        return places._replace(own=ALWAYS)
    if api_key in _ONLY_OF_TOPICS:
        return places._replace(inner=tuple((name, topics._replace(inner=())) for name, topics in places.inner))
    return places


_ONLY_OF_TOPICS: Final = (ApiKey.METADATA, ApiKey.DESCRIBE_TOPIC_PARTITIONS)
"""Where Kafka counts no codes of partitions."""


def _declared(cls: type) -> Places:
    """All places that the declaration has."""
    fields = schema_of(cls).fields
    has_own = any(field.name == "error_code" for field in fields)
    inside = [(field.name, _declared(field.struct)) for field in fields if field.is_array and field.struct is not None]
    inner = tuple((name, places) for name, places in inside if places.own or places.inner)
    return Places(cls, IF_SET_OR_ALONE if has_own else NEVER, inner)


def native_reader(places: Places) -> _Reader:
    """What reads the codes, in C."""
    from pybroker.protocol._codec_native import Codes  # noqa: PLC0415  (where it was built)

    def codes(of: Places) -> Codes:
        return Codes(of.cls, of.own, [(name, codes(one)) for name, one in of.inner])

    return codes(places).read


def pure_reader(places: Places) -> _Reader:
    """The same in Python."""
    own, inside = places.own, [(name, pure_reader(one)) for name, one in places.inner]
    if not inside:
        return (lambda message: (message.error_code,)) if own else (lambda _: ())

    def read(message: Any) -> Sequence[int]:
        codes = [code for name, read_one in inside for one in getattr(message, name) or () for code in read_one(one)]
        if own and (own == ALWAYS or not codes or message.error_code):
            codes.append(message.error_code)
        return codes

    return read
