"""IncrementalAlterConfigs (key 44), v0-1: change single settings of resources; the others stay as they are.

Behaviour
    For topics, the broker, the defaults of all brokers, groups, client metrics and loggers. A setting is set, goes back to its
    default, or is a list to which elements are added or from which they are taken. Each resource is taken or refused as a whole,
    and all that are taken are changed in one step, before the answer; levels of loggers are changed at once and kept nowhere.
Versions
    v1 flexible.
Not done
    alter.config.policy.class.name.
Source: ConfigAdminManager, ConfigurationControlManager.incrementalAlterConfigs; KIP-339, KIP-412.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pybroker.api.configs.config_resources import alter, results
from pybroker.protocol.messages.incremental_alter_configs import (
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

if TYPE_CHECKING:
    from pybroker.api.context import RequestContext, Services


async def handle(
    broker: Services,
    context: RequestContext,  # noqa: ARG001
    request: IncrementalAlterConfigsRequest,
) -> IncrementalAlterConfigsResponse:
    """Change what can be changed, then answer."""
    outcomes = await alter(broker, request.resources, is_incremental=True, validate_only=request.validate_only)
    return IncrementalAlterConfigsResponse(responses=results(request.resources, outcomes, AlterConfigsResourceResponse))
