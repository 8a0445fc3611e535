"""AlterConfigs (key 33), v0-2: give resources all their settings at once; what is not named goes back to its default.

Behaviour
    For topics, the broker, the defaults of all brokers, groups and client metrics; loggers cannot be changed so. Each resource is
    taken or refused as a whole, and all that are taken are changed in one step, before the answer. Null values, a setting or a
    resource that stands twice are INVALID_REQUEST.
Versions
    v1 throttle time. v2 flexible.
Not done
    alter.config.policy.class.name.
Source: ConfigAdminManager, ConfigurationControlManager.legacyAlterConfigs; KIP-133.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pybroker.api.configs.config_resources import alter, results
from pybroker.protocol.messages.alter_configs import AlterConfigsRequest, AlterConfigsResourceResponse, AlterConfigsResponse

if TYPE_CHECKING:
    from pybroker.api.context import RequestContext, Services


async def handle(broker: Services, context: RequestContext, request: AlterConfigsRequest) -> AlterConfigsResponse:  # noqa: ARG001
    """Change what can be changed, then answer."""
    outcomes = await alter(broker, request.resources, is_incremental=False, validate_only=request.validate_only)
    return AlterConfigsResponse(responses=results(request.resources, outcomes, AlterConfigsResourceResponse))
