"""ApiVersions (key 18), v0-5: which APIs are served in which versions; usually a connection's first request.

Behaviour
    The list is the registry, without the APIs of KIP-848's groups if `group.coordinator.rebalance.protocols` lacks consumer. From
    v3 on the handler notes the client's software in the connection. A name or version of that software may consist of letters,
    digits, '-' and '.', and must not begin or end with '-' or '.'; any other is INVALID_REQUEST. A client that reached another
    cluster or broker than it expects (v5) gets REBOOTSTRAP_REQUIRED.
    The response to an unknown version is in v0, with UNSUPPORTED_VERSION and ApiVersions' own range, from which the client
    chooses a lower version (KIP-511).
    The features that are supported and the levels in force, as of the image's revision: `metadata/features.py`.
    With `pybroker.as.version` the lists are those of that release of Kafka, as far as pybroker has them: `api/releases.py`.
Versions
    v1 throttle time. v3 flexible, but with the header of v0; client software (KIP-511), features (KIP-584). v4 features that
    begin at level 0: older clients cannot read those and do not get their range. v5 the cluster id and node id that the client
    expects (KIP-1242).
Not done
    Nothing.
Source: KafkaApis.handleApiVersionsRequest, ApiVersionsRequest, ApiVersionsResponse.Builder.
"""

from __future__ import annotations

import functools
import re
from typing import TYPE_CHECKING, Final

from pybroker.api.response_memo import KeptResponse, ResponseMemo
from pybroker.metadata.features import SUPPORTED, Levels, levels_in_force
from pybroker.protocol.api_keys import ApiKey
from pybroker.protocol.codec import encode_response
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pybroker.api.context import RequestContext, Services
    from pybroker.api.releases import Release
    from pybroker.metadata.image import ClusterImage

_LEVEL_0_VERSION: Final = 4
_OF_CONSUMER_GROUPS: Final = (ApiKey.CONSUMER_GROUP_HEARTBEAT, ApiKey.CONSUMER_GROUP_DESCRIBE)
_KEPT: Final = ResponseMemo()
"""The list as it was sent, because each connection of each client asks for it. The memo of the dispatcher would not note the
client's software.
"""
_SOFTWARE: Final = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


def handle(broker: Services, context: RequestContext, request: ApiVersionsRequest) -> ApiVersionsResponse | bytes:
    """Respond with the list of the APIs that are served."""
    if context.api_version >= 3:
        name, version = request.client_software_name, request.client_software_version
        if not _SOFTWARE.fullmatch(name) or not _SOFTWARE.fullmatch(version):
            return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST)
        context.connection.client_software_name = name
        context.connection.client_software_version = version
    expected = (request.cluster_id, request.node_id)
    if request.cluster_id is not None and expected != (broker.controller.image.cluster_id, broker.controller.broker_id):
        return ApiVersionsResponse(error_code=ErrorCode.REBOOTSTRAP_REQUIRED)
    image = broker.controller.image
    key = (context.api_version, broker.config.pybroker_as_version or "", "", int(broker.config.has_consumer_groups), b"")
    kept = _KEPT.find(image, key)
    if kept is None:
        (encoded,) = encode_response(_response(broker, image, context.api_version), context.api_version, 0)
        assert type(encoded) is bytes  # it has no records
        kept = KeptResponse(encoded, (ErrorCode.NONE,))
        _KEPT.keep(image, key, kept)
    return kept.to(context.correlation_id)


def _response(broker: Services, image: ClusterImage, version: int) -> ApiVersionsResponse:
    release = _release(broker)
    features = SUPPORTED if release is None else release.features
    return ApiVersionsResponse(
        error_code=ErrorCode.NONE,
        api_keys=_offered(broker, release),
        supported_features=[
            SupportedFeatureKey(name=name, min_version=levels.lowest, max_version=levels.highest)
            for name, levels in features.items()
            if levels.lowest > 0 or version >= _LEVEL_0_VERSION
        ],
        finalized_features_epoch=image.revision,
        finalized_features=[
            FinalizedFeatureKey(name=name, max_version_level=level, min_version_level=level)
            for name, level in _levels(image, features).items()
            if level > 0
        ],
    )


def _levels(image: ClusterImage, features: Mapping[str, Levels]) -> dict[str, int]:
    """Return the level of each feature in force, or the highest one that is announced where that is lower."""
    in_force = levels_in_force(image)
    return {name: min(in_force[name], levels.highest) for name, levels in features.items()}


def unsupported_version_response(release: Release | None = None) -> ApiVersionsResponse:
    """Return the response, to be encoded as v0, to an ApiVersions request whose version is not served, or not by `release`."""
    own = [api for api in _served(release) if api.api_key == ApiKey.API_VERSIONS]
    if release is not None and not release.names_own_range:
        own = []
    return ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=own)


def _release(broker: Services) -> Release | None:
    name = broker.config.pybroker_as_version
    if name is None:
        return None
    from pybroker.api.releases import release  # noqa: PLC0415  only for a broker that serves less

    return release(name)


def _offered(broker: Services, release: Release | None) -> list[ApiVersion]:
    if broker.config.has_consumer_groups:
        return _served(release)
    return [api for api in _served(release) if api.api_key not in _OF_CONSUMER_GROUPS]


@functools.cache
def _served(release: Release | None) -> list[ApiVersion]:
    if release is not None:
        return [ApiVersion(api_key=key, min_version=low, max_version=high) for key, (low, high) in release.announced.items()]
    from pybroker.api.registry import APIS  # noqa: PLC0415 - the registry lists this module too

    return [ApiVersion(api_key=api.key, min_version=api.lowest, max_version=api.highest) for api in APIS.values()]
