"""AlterConfigs (key 33), v0-2: set all settings of resources at once; settings that are not named return to their default.

Behaviour
    For topics, the broker, the defaults of all brokers, groups and client metrics, but not for loggers. Each resource is changed
    or refused as a whole. All changes are one step, which precedes the response. A null value, a setting that is named twice and
    a resource that is named twice are INVALID_REQUEST.
Versions
    v1 throttle time. v2 flexible.
Not done
    alter.config.policy.class.name.
Source: ConfigAdminManager, ConfigurationControlManager.legacyAlterConfigs; KIP-133.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pybroker.api.configs.config_resources import alter, results
from pybroker.protocol.messages.alter_configs import AlterConfigsRequest, AlterConfigsResponse

if TYPE_CHECKING:
    from pybroker.api.context import RequestContext, Services


async def handle(broker: Services, context: RequestContext, request: AlterConfigsRequest) -> AlterConfigsResponse:  # noqa: ARG001
    """Change the resources that can be changed, then respond."""
    outcomes = await alter(broker, request.resources, is_incremental=False, validate_only=request.validate_only)
    return AlterConfigsResponse(responses=results(request.resources, outcomes))
