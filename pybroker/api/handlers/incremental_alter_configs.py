"""IncrementalAlterConfigs (key 44), v0-1: change single settings of resources; the others stay as they are.

Behaviour
    For topics, the broker, the defaults of all brokers, groups, client metrics and loggers. A change sets a setting, returns it
    to its default, or adds elements to a list or removes them. Each resource is changed or refused as a whole. All changes are
    one step, which precedes the response; levels of loggers are changed at once and stored nowhere.
Versions
    v1 flexible.
Not done
    alter.config.policy.class.name.
Source: ConfigAdminManager, ConfigurationControlManager.incrementalAlterConfigs; KIP-339, KIP-412.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pybroker.api.configs.config_resources import alter, results
from pybroker.protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse

if TYPE_CHECKING:
    from pybroker.api.context import RequestContext, Services


async def handle(
    broker: Services,
    context: RequestContext,  # noqa: ARG001
    request: IncrementalAlterConfigsRequest,
) -> IncrementalAlterConfigsResponse:
    """Change the resources that can be changed, then respond."""
    outcomes = await alter(broker, request.resources, is_incremental=True, validate_only=request.validate_only)
    return IncrementalAlterConfigsResponse(responses=results(request.resources, outcomes))
