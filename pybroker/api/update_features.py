"""UpdateFeatures (key 57), v0-2: set the levels of the cluster's features.

Behaviour
    There is no feature with levels: what this broker can do, its cluster can. Level 0 of any feature, "switched off", is what
    is; any other is INVALID_UPDATE_VERSION.
Versions
    v1 validate only, kinds of downgrade. v2 one error for all updates (KIP-1022), before that one for each.
Not done
    Features, and so metadata.version: Kafka's tools show none.
Source: FeatureControlManager.updateFeatures; KIP-584, KIP-1022.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pybroker.protocol.api_keys import ApiKey
from pybroker.protocol.error_codes import ErrorCode, KafkaError
from pybroker.protocol.messages.update_features import (
    FeatureUpdateKey,
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)

if TYPE_CHECKING:
    from pybroker.api.context import Broker, RequestContext

KEY = ApiKey.UPDATE_FEATURES

_UPGRADE_TYPES: Final = (1, 2, 3)
_ONE_ERROR_VERSION: Final = 2


def handle(broker: Broker, context: RequestContext, request: UpdateFeaturesRequest) -> UpdateFeaturesResponse:
    """Answer; nothing ever changes."""
    errors = {update.feature: _refusal(broker.controller.broker_id, update) for update in request.feature_updates}
    if context.api_version >= _ONE_ERROR_VERSION:
        first = next((error for error in errors.values() if error is not None), None)
        if first is None:
            return UpdateFeaturesResponse(error_code=ErrorCode.NONE, error_message=None)
        message = f"The update failed for all features since the following feature had an error: {first.message}"
        return UpdateFeaturesResponse(error_code=first.code, error_message=message)
    return UpdateFeaturesResponse(
        error_code=ErrorCode.NONE,
        error_message=None,
        results=[
            UpdatableFeatureResult(
                feature=feature,
                error_code=ErrorCode.NONE if error is None else error.code,
                error_message=None if error is None else error.message,
            )
            for feature, error in errors.items()
        ],
    )


def _refusal(broker_id: int, update: FeatureUpdateKey) -> KafkaError | None:
    level = update.max_version_level
    if update.upgrade_type not in _UPGRADE_TYPES:
        reason = "The controller does not support the given upgrade type."
    elif level < 0:
        reason = "A feature version cannot be less than 0."
    elif level > 0:
        reason = f"Local controller {broker_id} does not support this feature."
    else:
        return None
    return KafkaError(ErrorCode.INVALID_UPDATE_VERSION, f"Invalid update version {level} for feature {update.feature}. {reason}")
