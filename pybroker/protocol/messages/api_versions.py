"""ApiVersions (key 18): the versions that the broker supports; the request names the client's software."""

from __future__ import annotations

from pybroker.protocol.api_keys import ApiKey
from pybroker.protocol.schema import Request, Response, Struct, field
from pybroker.protocol.wire import Bool, Int16, Int32, Int64


class ApiVersionsRequest(Request, api_key=ApiKey.API_VERSIONS, versions="0-5", flexible="3+"):
    """The first request of most connections."""

    client_software_name: str = field("3+", ignorable=True)
    client_software_version: str = field("3+", ignorable=True)
    cluster_id: str | None = field("5+", default=None, ignorable=True)
    node_id: Int32 = field("5+", default=-1, ignorable=True)


class ApiVersion(Struct):
    """An API and the versions of it that are served."""

    api_key: Int16 = field()
    min_version: Int16 = field()
    max_version: Int16 = field()


class SupportedFeatureKey(Struct):
    """A feature that this broker supports."""

    name: str = field("3+")
    min_version: Int16 = field("3+")
    max_version: Int16 = field("3+")


class FinalizedFeatureKey(Struct):
    """A feature that the cluster has switched on."""

    name: str = field("3+")
    max_version_level: Int16 = field("3+")
    min_version_level: Int16 = field("3+")


class ApiVersionsResponse(Response, api_key=ApiKey.API_VERSIONS, versions="0-5", flexible="3+"):
    """The supported versions and features. The header is v0 in every version, so that any client can read it."""

    error_code: Int16 = field()
    api_keys: list[ApiVersion] = field()
    throttle_time_ms: Int32 = field("1+", ignorable=True)
    supported_features: list[SupportedFeatureKey] = field("3+", tag=0, ignorable=True)
    finalized_features_epoch: Int64 = field("3+", default=-1, tag=1, ignorable=True)  # -1: unknown
    finalized_features: list[FinalizedFeatureKey] = field("3+", tag=2, ignorable=True)
    zk_migration_ready: Bool = field("3+", tag=3, ignorable=True)
