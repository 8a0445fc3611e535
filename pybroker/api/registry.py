"""The one list of the APIs that are served, from which ApiVersions is derived."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from pybroker.api import (
    api_versions,
    create_topics,
    delete_topics,
    describe_cluster,
    describe_topic_partitions,
    fetch,
    init_producer_id,
    list_offsets,
    metadata,
    produce,
)
from pybroker.protocol.api_keys import ApiKey
from pybroker.protocol.codec import message_versions, request_class, response_class

if TYPE_CHECKING:
    from pybroker.api.context import Broker, RequestContext

Handler = Callable[["Broker", "RequestContext", Any], "Any | Awaitable[Any] | None"]
"""The response; an awaitable of it when it must wait; None when there is no answer (acks 0)."""


@dataclass(slots=True, frozen=True)
class Api:
    """One API: what decodes its requests, what handles them, and which versions it speaks."""

    key: ApiKey
    request: type[Any]
    response: type[Any]
    handle: Handler
    name: str
    lowest: int
    highest: int


_HANDLERS: Final[Mapping[ApiKey, Handler]] = {
    ApiKey.PRODUCE: produce.handle,
    ApiKey.FETCH: fetch.handle,
    ApiKey.LIST_OFFSETS: list_offsets.handle,
    ApiKey.METADATA: metadata.handle,
    ApiKey.API_VERSIONS: api_versions.handle,
    ApiKey.CREATE_TOPICS: create_topics.handle,
    ApiKey.DELETE_TOPICS: delete_topics.handle,
    ApiKey.INIT_PRODUCER_ID: init_producer_id.handle,
    ApiKey.DESCRIBE_CLUSTER: describe_cluster.handle,
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: describe_topic_partitions.handle,
}


def _name(key: ApiKey) -> str:
    """Kafka's own name, such as ListOffsets."""
    return key.name.title().replace("_", "")


APIS: Final[Mapping[int, Api]] = MappingProxyType(
    {
        key: Api(key, request_class(key), response_class(key), handler, _name(key), *message_versions(key))
        for key, handler in _HANDLERS.items()
    }
)
