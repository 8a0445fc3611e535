"""The error codes that a response says, for counting them.

Behaviour
    Every `error_code` in the response's lists counts, as its declaration has them; the one of the response itself only if it says
    an error, or if nothing else has a code. Exceptions are listed below.
Source: AbstractResponse.errorCounts of each response.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, Final

from pybroker.protocol.api_keys import ApiKey
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.schema import schema_of

_Reader = Callable[[Any], Sequence[int]]


def error_codes(response: Any) -> Sequence[int]:
    """Every code in `response`, NONE (0) included, one for each thing that can fail by itself."""
    return _reader(type(response))(response)  # type: ignore[arg-type]  # a class is hashable, which mypy does not see


ERROR_NAMES: Final[dict[int, str]] = {int(code): code.name for code in ErrorCode}


@functools.cache
def _reader(response_class: type) -> _Reader:
    api_key = schema_of(response_class).api_key
    special = None if api_key is None else _SPECIAL.get(api_key)
    return special or _declared(response_class)


def _declared(cls: type) -> _Reader:
    """A reader of all the codes that the declaration has."""
    fields = schema_of(cls).fields
    has_own = any(field.name == "error_code" for field in fields)
    inside = [(field.name, _declared(field.struct)) for field in fields if field.is_array and field.struct is not None]

    def read(message: Any) -> Sequence[int]:
        codes = [code for name, read_one in inside for one in getattr(message, name) or () for code in read_one(one)]
        if has_own and (message.error_code or not codes):
            codes.append(message.error_code)
        return codes

    return read if inside else (lambda message: (message.error_code,)) if has_own else (lambda _: ())


_SPECIAL: Final[dict[ApiKey, _Reader]] = {
    ApiKey.PRODUCE: lambda r: [p.error_code for t in r.responses for p in t.partition_responses],
    ApiKey.FETCH: lambda r: [r.error_code, *(p.error_code for t in r.responses for p in t.partitions)],
    ApiKey.LIST_OFFSETS: lambda r: [p.error_code for t in r.topics for p in t.partitions],
    ApiKey.METADATA: lambda r: [t.error_code for t in r.topics],
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: lambda r: [t.error_code for t in r.topics],
}
"""What is asked often, and what Kafka counts otherwise than by the rule."""
