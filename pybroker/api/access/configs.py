"""Checks requests about settings: the resource is a topic, a group, or the cluster for brokers and what belongs to them.

Source: ConfigHelper.handleDescribeConfigsRequest, ConfigAdminManager.preprocess, ControllerApis.authorizeAlterResource; Kafka 4
for groups.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from pybroker.api.configs.config_resources import ResourceType as ConfigType
from pybroker.api.parts import respond_in_parts, then
from pybroker.security.acl.binding import CLUSTER_NAME, AclOperation, ResourceType

if TYPE_CHECKING:
    from pybroker.api.access.need import Request
    from pybroker.api.parts import Verdict

_OWN: Final = {ConfigType.TOPIC: ResourceType.TOPIC, ConfigType.GROUP: ResourceType.GROUP}
"""The types whose resources are asked for by their own names; the others belong to the cluster."""
_TYPES: Final = frozenset(map(int, ConfigType))


def describe_configs(request: Request, message: Any) -> Any:
    """Describe the settings that the client may see."""
    return respond_in_parts(
        request, message, ("resources", "results"), lambda one: _verdict(request, AclOperation.DESCRIBE_CONFIGS, one)
    )


def alter_configs(request: Request, message: Any) -> Any:
    """Change the settings that the client may change. The handler refuses what is named twice, and unknown types."""
    counts = Counter((one.resource_type, one.resource_name) for one in message.resources)

    def verdict(one: Any) -> Verdict:
        if counts[one.resource_type, one.resource_name] > 1:
            return None
        return _verdict(request, AclOperation.ALTER_CONFIGS, one)

    return respond_in_parts(request, message, ("resources", "responses"), verdict)


def _verdict(request: Request, operation: AclOperation, one: Any) -> Verdict:
    if one.resource_type not in _TYPES:
        return None  # the handler refuses it
    resource_type = _OWN.get(ConfigType(one.resource_type), ResourceType.CLUSTER)
    name = CLUSTER_NAME if resource_type is ResourceType.CLUSTER else one.resource_name
    return request.asker.refusal(operation, resource_type, name)


def describe_cluster(request: Request, message: Any) -> Any:
    """Describe the brokers to anyone, and the operations on the cluster to those that may describe it."""

    def with_operations(response: Any) -> Any:
        if message.include_cluster_authorized_operations and not response.error_code:
            may_describe = request.asker.may(AclOperation.DESCRIBE, ResourceType.CLUSTER)
            response.cluster_authorized_operations = request.asker.operations(ResourceType.CLUSTER) if may_describe else 0
        return response

    return then(request.plain(message), with_operations)
