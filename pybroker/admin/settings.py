"""Shows the settings of topics and of brokers, and changes those of topics."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from pybroker.admin.steps import Ask, check
from pybroker.admin.topics import CONTROLLER
from pybroker.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from pybroker.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)

if TYPE_CHECKING:
    from pybroker.admin.steps import Steps

TOPIC: Final = 2
SET: Final = 0
REMOVE: Final = 1
SOURCES: Final = {1: "topic", 2: "broker", 3: "brokers", 4: "file", 5: "default"}
"""Where a value comes from, by its number in Kafka's protocol."""


class Setting(NamedTuple):
    """A setting in force. `value` is None if there is none, or for a secret; `source` is one of SOURCES."""

    name: str
    value: str | None
    source: str
    is_read_only: bool
    text: str


def settings_of_topic(name: str) -> Steps[list[Setting]]:
    """Return the settings of a topic by their names. Raises KafkaError for an unknown topic."""
    resource = DescribeConfigsResource(resource_type=TOPIC, resource_name=name, configuration_keys=None)
    request = DescribeConfigsRequest(resources=[resource], include_synonyms=False, include_documentation=True)
    response = yield Ask(request, 3)
    (result,) = response.results
    check(result.error_code, result.error_message)
    return sorted(
        Setting(one.name, one.value, SOURCES.get(one.config_source, "default"), one.read_only, one.documentation or "")
        for one in result.configs
    )


def alter_topic(name: str, changes: Mapping[str, str | None]) -> Steps[None]:
    """Give settings of a topic other values; with None, the setting is the broker's again. Raises KafkaError."""
    configs = [
        AlterableConfig(name=key, config_operation=REMOVE if value is None else SET, value=value)
        for key, value in changes.items()
    ]
    resource = AlterConfigsResource(resource_type=TOPIC, resource_name=name, configs=configs)
    response = yield Ask(IncrementalAlterConfigsRequest(resources=[resource], validate_only=False), 1, CONTROLLER)
    for result in response.responses:
        check(result.error_code, result.error_message)
