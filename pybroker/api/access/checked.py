"""Puts the checks of the table in front of a handler.

The route of an API gets a handler that checks first. So no handler knows of authorization, and without an authorizer nothing is
in front of them. Large requests are cut into pieces behind the checks, because pieces are joined in the order of the request.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pybroker.api.access.asker import Asker
from pybroker.api.access.memo import PrincipalMemo
from pybroker.api.access.need import Need, Request
from pybroker.api.access.table import TABLE
from pybroker.api.parts import AT_ONCE, respond_in_parts
from pybroker.model import ZERO_TOPIC_ID
from pybroker.protocol.error_codes import KafkaError
from pybroker.protocol.schema import schema_of
from pybroker.security.acl.authorizer import logs_permissions
from pybroker.security.acl.binding import CLUSTER_NAME

if TYPE_CHECKING:
    from collections.abc import Callable

    from pybroker.api.context import RequestContext, Services
    from pybroker.api.parts import Verdict
    from pybroker.api.registry import Api
    from pybroker.security.acl.authorizer import Authorizer


def checked(api: Api, authorizer: Authorizer) -> Api:
    """Return the API with a handler that checks what its clients may do."""
    access = TABLE[api.key]
    if not access.needs and access.handle is None:
        return api
    handle = access.handle or _general(api, access.needs)

    def handle_checked(broker: Services, context: RequestContext, message: Any) -> Any:
        return handle(Request(api, broker, context, Asker(authorizer, context, api.name)), message)

    repeats = api.repeats

    def kept(context: RequestContext, message: Any, frame: memoryview) -> Any:
        return None if repeats is None or logs_permissions() else repeats(context, message, frame)

    return replace(
        api,
        handle=handle_checked,
        pieces=None,
        memo=None if api.memo is None else PrincipalMemo(),
        repeats=None if repeats is None else kept,
    )


def _general(api: Api, needs: tuple[Need, ...]) -> Callable[[Request, Any], Any]:
    """Return the way of APIs whose needs are all there is: those of the whole request first, then that of its elements."""
    whole = [need for need in needs if not need.of]
    of_elements = [need for need in needs if need.of]
    assert len(of_elements) <= 1, needs

    def handle_whole(request: Request, message: Any) -> Any:
        for need in whole:
            require(request, message, need)
        return request.plain(message)

    if not of_elements:
        return handle_whole
    (need,) = of_elements
    operation, resource_type, of = need.operation, need.resource_type, need.of
    name_of = _names(api, need)

    def handle(request: Request, message: Any) -> Any:
        for one in whole:
            require(request, message, one)
        if need.instead is not None and _has(request, message, need.instead, logs=False):
            return request.plain(message)
        elements, may, broker = getattr(message, of) or (), request.asker.may, request.broker
        if len(elements) <= AT_ONCE:
            for element in elements:
                name = name_of(broker, element)
                if name is not None and not may(operation, resource_type, name, logs=False):
                    break
            else:
                return request.plain(message)
        counts = Counter(name_of(broker, element) for element in elements)

        def verdict(element: Any) -> Verdict:
            name = name_of(broker, element)
            if name is None or may(operation, resource_type, name, count=counts[name]):
                return None
            return need.error

        return respond_in_parts(request, message, (of, need.into), verdict)

    return handle


def require(request: Request, message: Any, need: Need) -> None:
    """Raise KafkaError if the client does not have a permission that the whole request needs."""
    instead = need.instead
    if instead is not None and _has(request, message, instead, logs=False):
        return
    if not _has(request, message, need, logs=True):
        raise KafkaError(need.error)


def _has(request: Request, message: Any, need: Need, *, logs: bool) -> bool:
    name = CLUSTER_NAME if need.name == CLUSTER_NAME else getattr(message, need.name) or ""
    return request.asker.may(need.operation, need.resource_type, name, logs=logs)


def _names(api: Api, need: Need) -> Callable[[Services, Any], str | None]:
    """Return the function that names the resource of an element; it returns None for a topic's id that no topic has."""
    struct = next(field.struct for field in schema_of(api.request).fields if field.name == need.of)
    if struct is None:
        return lambda _, element: str(element)
    field = need.name
    if all(one.name != "topic_id" for one in schema_of(struct).fields):
        return lambda _, element: getattr(element, field)

    def name_of(broker: Services, element: Any) -> str | None:
        if element.topic_id == ZERO_TOPIC_ID:
            name: str = getattr(element, field)
            return name
        return broker.controller.image.topic_name(element.topic_id)

    return name_of
