"""The resources whose settings can be read and changed, and the changes, for the APIs that make them.

Source: ConfigAdminManager.preprocess, ControllerConfigurationValidator, ConfigResource.Type.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Final

from pybroker.api.configs.broker_loggers import change_levels
from pybroker.failures import drop_frames
from pybroker.metadata.config_changes import SETTINGS_MAX, TOPIC_KIND, ConfigChange, Edit, Operation
from pybroker.metadata.image import BROKER_KIND, CLIENT_METRICS_KIND, GROUP_KIND, ConfigResource
from pybroker.protocol.error_codes import ErrorCode, KafkaError
from pybroker.protocol.messages.alter_configs import AlterConfigsResourceResponse
from pybroker.sharing.loop import complete

if TYPE_CHECKING:
    from pybroker.api.context import Services
    from pybroker.sharing.work import Pausing


class ResourceType(IntEnum):
    """The types of resources, with Kafka's numbers."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


_KINDS: Final = {
    ResourceType.TOPIC: TOPIC_KIND,
    ResourceType.BROKER: BROKER_KIND,
    ResourceType.CLIENT_METRICS: CLIENT_METRICS_KIND,
    ResourceType.GROUP: GROUP_KIND,
}


def identity(resource: Any) -> tuple[int, str]:
    """Return the type and the name of a resource; the name is the same for each way to write the number of a broker."""
    name = resource.resource_name
    if resource.resource_type in (ResourceType.BROKER, ResourceType.BROKER_LOGGER):
        with suppress(ValueError):
            name = str(int(name))
    return resource.resource_type, name


def check_broker_name(broker: Services, name: str, *, is_default_allowed: bool) -> None:
    """Check that a resource's name is this broker's number, or empty where that is allowed. Raises INVALID_REQUEST."""
    own = broker.controller.broker_id
    if not name and is_default_allowed:
        return
    try:
        is_own = int(name) == own
    except ValueError:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Node id must be an integer, but it is: {name}") from None
    if not is_own:
        hint = " or empty string," if is_default_allowed else ""
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unexpected broker id, expected {own}{hint} but received {name}")


async def alter(
    broker: Services, resources: Sequence[Any], *, is_incremental: bool, validate_only: bool
) -> list[KafkaError | None]:
    """Change the settings of the resources of a request; return an error or None for each of them.

    `is_incremental` distinguishes the two requests, whose resources differ in the operation of a setting.
    """
    counts = Counter(map(identity, resources))
    outcomes: list[KafkaError | None] = [None] * len(resources)
    wanted: list[tuple[int, ConfigChange]] = []

    def take() -> Pausing[None]:
        for index, resource in enumerate(resources):
            yield
            try:
                if counts[identity(resource)] > 1:
                    raise KafkaError(ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")
                edits = _edits(resource, is_incremental=is_incremental)
                if resource.resource_type == ResourceType.BROKER_LOGGER and is_incremental:
                    check_broker_name(broker, resource.resource_name, is_default_allowed=False)
                    change_levels(edits, validate_only=validate_only)
                else:
                    wanted.append((index, _change(broker, resource, edits, replaces_all=not is_incremental)))
            except KafkaError as error:
                outcomes[index] = drop_frames(error)

    await complete(take())
    errors = await broker.controller.alter_configs([change for _, change in wanted], validate_only=validate_only)
    for (index, _), outcome in zip(wanted, errors, strict=True):
        outcomes[index] = outcome
    return outcomes


def _edits(resource: Any, *, is_incremental: bool) -> list[Edit]:
    if (count := len(resource.configs)) > SETTINGS_MAX:
        message = f"{count} changes of the settings of '{resource.resource_name}' are too many, above {SETTINGS_MAX}."
        raise KafkaError(ErrorCode.POLICY_VIOLATION, message)
    if len({config.name for config in resource.configs}) != len(resource.configs):
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys")
    edits, nulls = [], []
    for config in resource.configs:
        number = config.config_operation if is_incremental else Operation.SET
        if number not in iter(Operation):
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown operations type {number}")
        if config.value is None and number != Operation.DELETE:
            nulls.append(config.name)
        edits.append(Edit(config.name, Operation(number), config.value or ""))
    if nulls:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Null value not supported for : {', '.join(nulls)}")
    return edits


def _change(broker: Services, resource: Any, edits: list[Edit], *, replaces_all: bool) -> ConfigChange:
    kind = _KINDS.get(resource.resource_type)
    name = resource.resource_name
    if kind is None:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown resource type {resource.resource_type}")
    if kind == BROKER_KIND:
        check_broker_name(broker, name, is_default_allowed=True)
        name = name and str(int(name))
    elif kind != TOPIC_KIND and not name:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"A {kind} resource must have a name.")
    return ConfigChange(resource=ConfigResource(kind, name), edits=edits, replaces_all=replaces_all)


def results(resources: Sequence[Any], outcomes: Sequence[KafkaError | None]) -> list[AlterConfigsResourceResponse]:
    """Return a result for each resource."""
    return [
        AlterConfigsResourceResponse(
            resource_type=resource.resource_type,
            resource_name=resource.resource_name,
            error_code=ErrorCode.NONE if error is None else error.code,
            error_message=None if error is None else error.message,
        )
        for resource, error in zip(resources, outcomes, strict=True)
    ]
