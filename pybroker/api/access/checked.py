"""Puts the checks of the table in front of a handler.

The route of an API gets a handler that checks first. So no handler knows of authorization, and without an authorizer nothing is
in front of them. Large requests are cut into pieces behind the checks, because pieces are joined in the order of the request.
"""

from __future__ import annotations

import sys
from collections import Counter
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from pybroker.api.access.asker import Asker
from pybroker.api.access.memo import PrincipalMemo
from pybroker.api.access.need import Need, Request
from pybroker.api.access.parts import respond_in_parts
from pybroker.api.access.table import TABLE
from pybroker.model import ZERO_TOPIC_ID
from pybroker.protocol.error_codes import KafkaError
from pybroker.security.acl.authorizer import logs_permissions
from pybroker.security.acl.binding import CLUSTER_NAME

if TYPE_CHECKING:
    from collections.abc import Callable

    from pybroker.api.access.parts import Verdict
    from pybroker.api.context import RequestContext, Services
    from pybroker.api.registry import Api
    from pybroker.security.acl.authorizer import Authorizer


def checked(api: Api, authorizer: Authorizer) -> Api:
    """Return the API with a handler that checks what its clients may do."""
    access = TABLE[api.key]
    if not access.needs and access.handle is None:
        return api
    handle = access.handle or _general(access.needs)
    plain_of = partial(_plain, api)

    def handle_checked(broker: Services, context: RequestContext, message: Any) -> Any:
        asker = Asker(authorizer, context, api.name)
        return handle(Request(api, broker, context, asker, partial(plain_of, broker, context)), message)

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


def _plain(api: Api, broker: Services, context: RequestContext, message: Any) -> Any:
    """Handle a request without checks, in pieces if it is large."""
    if api.pieces is None or not api.pieces.is_large(message, sys.maxsize):
        return api.handle(broker, context, message)
    return api.pieces.handle(api.handle, broker, context, message)


def _general(needs: tuple[Need, ...]) -> Callable[[Request, Any], Any]:
    """Return the way of APIs whose needs are all there is: those of the whole request first, then that of its elements."""
    whole = [need for need in needs if not need.of]
    of_elements = [need for need in needs if need.of]
    assert len(of_elements) <= 1, needs

    def handle(request: Request, message: Any) -> Any:
        for need in whole:
            require(request, message, need)
        if not of_elements:
            return request.plain(message)
        (need,) = of_elements
        return respond_in_parts(request, message, (need.of, need.into), verdict_of(request, message, need))

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


def verdict_of(request: Request, message: Any, need: Need) -> Callable[[Any], Verdict]:
    """Return the function that judges one element of a request."""
    instead = need.instead
    if instead is not None and _has(request, message, instead, logs=False):
        return lambda _: None
    may, operation, resource_type, error = request.asker.may, need.operation, need.resource_type, need.error
    name_of = partial(_name_of, request.broker, need.name)
    elements = getattr(message, need.of) or ()
    counts = Counter(map(name_of, elements)) if len(elements) > 1 else {}

    def verdict(element: Any) -> Verdict:
        name = name_of(element)
        if name is None or may(operation, resource_type, name, count=counts.get(name, 1)):
            return None
        return error

    return verdict


def _name_of(broker: Services, field: str, element: Any) -> str | None:
    """Return the name of the resource that an element is about; None for a topic's id that no topic has."""
    if isinstance(element, str):
        return element
    topic_id = getattr(element, "topic_id", ZERO_TOPIC_ID)
    if topic_id == ZERO_TOPIC_ID:
        name: str = getattr(element, field)
        return name
    topic = broker.controller.image.topics_by_id.get(topic_id)
    return None if topic is None else topic.name
