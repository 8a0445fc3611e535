"""ListConfigResources (key 74), v0-1: which resources have settings.

Behaviour
    Topics and brokers are listed whether or not they have settings of their own; groups and client metrics are listed only if
    they have some. A request without types asks for all types. An unknown type is UNSUPPORTED_VERSION.
Versions
    v0 client metrics only, by the name of ListClientMetricsResources (KIP-714). v1 every type (KIP-1142).
Not done
    Nothing.
Source: KafkaApis.handleListConfigResources; KIP-1142.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pybroker.api.configs.config_resources import ResourceType
from pybroker.metadata.image import CLIENT_METRICS_KIND, GROUP_KIND
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages.list_config_resources import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)

if TYPE_CHECKING:
    from pybroker.api.context import RequestContext, Services
    from pybroker.metadata.image import ClusterImage

_TYPES: Final = frozenset(map(int, ResourceType))


def handle(broker: Services, context: RequestContext, request: ListConfigResourcesRequest) -> ListConfigResourcesResponse:
    """Respond from the image."""
    if context.api_version == 0:
        asked: list[int] = [ResourceType.CLIENT_METRICS]
    else:
        asked = list(dict.fromkeys(request.resource_types)) or list(ResourceType)
    if not _TYPES.issuperset(asked):
        return ListConfigResourcesResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    image = broker.controller.image
    return ListConfigResourcesResponse(
        error_code=ErrorCode.NONE,
        config_resources=[
            ConfigResource(resource_name=name, resource_type=one) for one in asked for name in _names(image, ResourceType(one))
        ],
    )


def _names(image: ClusterImage, resource_type: ResourceType) -> list[str]:
    if resource_type is ResourceType.TOPIC:
        return list(image.topics)
    if resource_type in (ResourceType.BROKER, ResourceType.BROKER_LOGGER):
        return [str(broker_id) for broker_id in image.brokers]
    kind = GROUP_KIND if resource_type is ResourceType.GROUP else CLIENT_METRICS_KIND
    return sorted(resource.name for resource in image.configs if resource.kind == kind)
