"""UpdateFeatures (key 57), v0-2: set the levels of the cluster's features.

Behaviour
    `metadata/features.py` lists the features and levels, and what they do. INVALID_UPDATE_VERSION for an unsupported level, and
    for a lower level without the permission to downgrade; INVALID_REQUEST for a feature that the request has twice.
Versions
    v0 a downgrade is allowed or not. v1 validate only, kinds of downgrade. v2 all or none, and one error for all (KIP-1022);
    before, each feature is changed or refused by itself.
Not done
    Features of what is not served: share and streams groups, Kafka's own quorum.
Source: ControllerApis.updateFeatures, FeatureControlManager.updateFeatures; KIP-584, KIP-778, KIP-1022.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pybroker.metadata.features import SAFE_DOWNGRADE, UPGRADE, FeatureUpdate
from pybroker.protocol.error_codes import ErrorCode, KafkaError
from pybroker.protocol.messages.update_features import (
    FeatureUpdateKey,
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)

if TYPE_CHECKING:
    from pybroker.api.context import RequestContext, Services

_ONE_ERROR_VERSION: Final = 2


async def handle(broker: Services, context: RequestContext, request: UpdateFeaturesRequest) -> UpdateFeaturesResponse:
    """Let the controller change the features, and respond when the change is durable."""
    updates = [_update(update, context.api_version) for update in request.feature_updates]
    if len({update.feature for update in updates}) < len(updates):
        return UpdateFeaturesResponse(error_code=ErrorCode.INVALID_REQUEST, error_message="A feature is there more than once.")
    all_or_none = context.api_version >= _ONE_ERROR_VERSION
    errors = await broker.controller.update_features(
        updates, all_or_none=all_or_none, validate_only=request.validate_only and context.api_version >= 1
    )
    if all_or_none:
        first = next(filter(None, errors), None)
        if first is None:
            return UpdateFeaturesResponse(error_code=ErrorCode.NONE, error_message=None)
        message = f"The update failed for all features since the following feature had an error: {first.message}"
        return UpdateFeaturesResponse(error_code=first.code, error_message=message)
    results = [_result(update, error) for update, error in zip(updates, errors, strict=True)]
    return UpdateFeaturesResponse(error_code=ErrorCode.NONE, error_message=None, results=results)


def _update(update: FeatureUpdateKey, version: int) -> FeatureUpdate:
    if version >= 1:
        return FeatureUpdate(update.feature, update.max_version_level, update.upgrade_type)
    return FeatureUpdate(update.feature, update.max_version_level, SAFE_DOWNGRADE if update.allow_downgrade else UPGRADE)


def _result(update: FeatureUpdate, error: KafkaError | None) -> UpdatableFeatureResult:
    code, message = (ErrorCode.NONE, None) if error is None else (error.code, error.message)
    return UpdatableFeatureResult(feature=update.feature, error_code=code, error_message=message)
