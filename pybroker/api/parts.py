"""A request of which some elements are refused: the handler gets a copy without them, and its response gets their errors.

The refused elements come last in the response; clients find their elements by name. Where all elements are refused, the handler
is not called at all, unless the response has an error of the whole, as that of a group, which precedes those of the elements.
The checks of permissions and those of quotas call the handlers through this module.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Final, Protocol

from pybroker.api.deferred import Deferred
from pybroker.api.error_response import error_of_elements
from pybroker.api.pieces import with_field
from pybroker.protocol.error_codes import ErrorCode, KafkaError
from pybroker.protocol.schema import schema_of
from pybroker.sharing.loop import in_slices

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pybroker.api.context import RequestContext, Services
    from pybroker.api.registry import Api
    from pybroker.sharing.work import Pausing

AT_ONCE: Final = 500
"""The number of elements that are checked at once; more are checked in slices, between which the loop serves others."""

Verdict = ErrorCode | None
"""Why an element is refused; None: it is not."""


class Divided(Protocol):
    """A request that may be divided. `plain` handles a part of it."""

    @property
    def api(self) -> Api:
        """The API that is requested."""

    @property
    def context(self) -> RequestContext:
        """Where the request came from."""

    @property
    def plain(self) -> Callable[[Any], Any]:
        """The handler of the API."""


def plain(api: Api, broker: Services, context: RequestContext, message: Any) -> Any:
    """Handle a request by the handler of its API, in pieces if it is large."""
    pieces, handle = api.pieces, api.handle
    if pieces is None or not pieces.is_large(message, sys.maxsize):
        return handle(broker, context, message)
    return pieces.handle(handle, broker, context, message)


def then(outcome: Any, build: Callable[[Any], Any]) -> Any:
    """Return what `build` makes of a handler's response, or a Future of it, as the response itself may be."""
    if type(outcome) is Deferred:
        outcome = outcome.future()
    if hasattr(outcome, "__await__"):  # a tenth of the cost of `inspect.isawaitable`
        return _after(outcome, build)
    return build(outcome)


async def _after(outcome: Any, build: Callable[[Any], Any]) -> Any:
    response: Any = build(await outcome)
    if type(response) is Deferred:
        response = response.future()
    return await response if hasattr(response, "__await__") else response


def respond_in_parts(
    request: Divided, message: Any, lists: tuple[str, str], verdict: Callable[[Any], Verdict], text: str | None = None
) -> Any:
    """Respond to a request of whose elements each has a verdict of its own. `lists` are their list, and that of their results.

    `text` is the message beside the errors, by default that of the code.
    """
    elements: Sequence[Any] = getattr(message, lists[0]) or ()
    if len(elements) <= AT_ONCE:
        return _respond(request, message, lists, [verdict(one) for one in elements], text)
    return then(judged(elements, verdict), lambda verdicts: _respond(request, message, lists, verdicts, text))


def judged(elements: Sequence[Any], verdict: Callable[[Any], Any]) -> Any:
    """Return a list of the verdicts about elements, or a Future of it where there are many."""
    if len(elements) <= AT_ONCE:
        return [verdict(one) for one in elements]

    def in_time() -> Pausing[list[Any]]:
        verdicts = []
        for one in elements:
            verdicts.append(verdict(one))
            yield
        return verdicts

    return in_slices(in_time())


def _respond(request: Divided, message: Any, lists: tuple[str, str], verdicts: Sequence[Verdict], text: str | None) -> Any:
    if not any(verdicts):
        return request.plain(message)
    of, into = lists
    allowed, refused = [], dict[ErrorCode, list[Any]]()
    for element, code in zip(getattr(message, of), verdicts, strict=True):
        if code is None:
            allowed.append(element)
        else:
            refused.setdefault(code, []).append(element)
    version, cls = request.context.api_version, request.api.response
    parts = [
        error_of_elements(with_field(message, of, some), cls, version, KafkaError(code, text)) for code, some in refused.items()
    ]

    def joined(response: Any) -> Any:
        if not getattr(response, "error_code", 0):
            for part in parts:
                getattr(response, into).extend(getattr(part, into))
        return response

    if not allowed and not _has_own_error(cls, version):
        return joined(cls())
    return then(request.plain(with_field(message, of, allowed)), joined)


def _has_own_error(cls: type[Any], version: int) -> bool:
    return any(field.name == "error_code" and field.versions.has(version) for field in schema_of(cls).fields)
