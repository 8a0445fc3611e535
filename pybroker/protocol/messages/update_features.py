"""UpdateFeatures (key 57): change the levels of the cluster's features (KIP-584)."""

from __future__ import annotations

from pybroker.protocol.api_keys import ApiKey
from pybroker.protocol.schema import Request, Response, Struct, field
from pybroker.protocol.wire import Bool, Int8, Int16, Int32


class FeatureUpdateKey(Struct):
    """A feature and its new level."""

    feature: str = field()
    max_version_level: Int16 = field()  # below 1: none
    allow_downgrade: Bool = field("0")
    upgrade_type: Int8 = field("1+", default=1)  # 1: upgrade, 2: downgrade that loses nothing, 3: any downgrade


class UpdateFeaturesRequest(Request, api_key=ApiKey.UPDATE_FEATURES, versions="0-2", flexible="0+"):
    """Features to change, all or none from v2."""

    timeout_ms: Int32 = field(default=60000)
    feature_updates: list[FeatureUpdateKey] = field()
    validate_only: Bool = field("1+")


class UpdatableFeatureResult(Struct):
    """The result for one feature."""

    feature: str = field()
    error_code: Int16 = field()
    error_message: str | None = field()


class UpdateFeaturesResponse(Response, api_key=ApiKey.UPDATE_FEATURES, versions="0-2", flexible="0+"):
    """One result per feature up to v1, one for all from v2."""

    throttle_time_ms: Int32 = field()
    error_code: Int16 = field()
    error_message: str | None = field()
    results: list[UpdatableFeatureResult] = field("0-1", ignorable=True)
