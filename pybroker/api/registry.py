"""The one list of the APIs that are served, from which ApiVersions is derived.

A handler and its messages are imported when the first request of their API comes, so that a start costs nothing for unused APIs.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from pybroker.api.error_counts import error_reader
from pybroker.api.response_memo import ResponseMemo
from pybroker.protocol.api_keys import ApiKey
from pybroker.protocol.codec import message_versions, request_class, response_class
from pybroker.protocol.messages import MESSAGES, api_name

if TYPE_CHECKING:
    from pybroker.api.context import RequestContext, Services
    from pybroker.api.pieces import Pieces
    from pybroker.api.produce.repeats import Repeated

Handler = Callable[["Services", "RequestContext", Any], "Any | Awaitable[Any] | None"]
"""Returns the response; an awaitable of it when it must wait; None when there is no response (acks 0).

Bytes are a whole response that the handler has encoded itself: about one thing, for which there is no error.
"""


@dataclass(slots=True, frozen=True)
class Served:
    """One API and which versions it speaks."""

    key: ApiKey
    name: str
    lowest: int
    highest: int


@dataclass(slots=True, frozen=True)
class Api(Served):
    """A served API with what decodes its requests, and what handles them."""

    request: type[Any]
    response: type[Any]
    handle: Handler
    error_codes: Callable[[Any], Sequence[int]]
    """Returns every code in a response that counts."""
    pieces: Pieces | None
    """How a large request is cut, for an API whose elements do not depend on each other."""
    memo: ResponseMemo | None
    """Where encoded responses are kept, for an API whose responses follow from the cluster's image and the request alone."""
    repeats: Callable[[RequestContext, Any, memoryview], Repeated | None] | None
    """Returns what to keep of a request with an encoded response, for an API whose requests are often like one before."""


APIS: Final[Mapping[int, Served]] = MappingProxyType(
    {key: Served(key, api_name(key), *message_versions(key)) for key in map(ApiKey, MESSAGES)}
)
"""The APIs whose messages are declared. The handler of each is `handle` in the module of `handlers` with the key's name, such as
`list_offsets`.
"""


def load_api(key: int) -> Api:
    """Return what serves an API, imported at the first call. Raises KeyError for a key that is not served."""
    served = APIS[key]
    handler: Any = import_module(f"pybroker.api.handlers.{served.key.name.lower()}")
    response = response_class(key)
    return Api(
        served.key,
        served.name,
        served.lowest,
        served.highest,
        request=request_class(key),
        response=response,
        handle=handler.handle,
        error_codes=error_reader(response),
        pieces=getattr(handler, "PIECES", None),
        memo=ResponseMemo() if getattr(handler, "KEEPS_RESPONSES", False) else None,
        repeats=getattr(handler, "REPEATS", None),
    )
