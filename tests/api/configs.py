"""Requests that describe and change settings, one resource at a time."""

from __future__ import annotations

from typing import Any

from pybroker.protocol.codec import message_versions
from pybroker.protocol.messages import alter_configs, incremental_alter_configs
from pybroker.protocol.messages.alter_configs import AlterConfigsRequest
from pybroker.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from pybroker.protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from testing.scenes.api.whole import Whole

TOPIC, BROKER, LOGGER, METRICS, GROUP = 2, 4, 8, 16, 32
SET, DELETE, APPEND, SUBTRACT = range(4)
DESCRIBE_VERSIONS, ALTER_VERSIONS, INCREMENTAL_VERSIONS = (range(message_versions(key)[1] + 1) for key in (32, 33, 44))


async def describe(whole: Whole, kind: int, name: str, *keys: str, version: int = 4) -> Any:
    resource = DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=list(keys) or None)
    request = DescribeConfigsRequest(resources=[resource])
    if version >= 1:
        request.include_synonyms = True
    if version >= 3:
        request.include_documentation = True
    (result,) = (await whole.ask(request, version)).results
    assert (result.resource_type, result.resource_name) == (kind, name)
    return result


async def described(whole: Whole, kind: int, name: str, key: str) -> tuple[str | None, int, list[tuple[str, str | None, int]]]:
    """Return the value, source and synonyms of a setting."""
    result = await describe(whole, kind, name, key)
    assert result.error_code == 0
    (config,) = result.configs
    return config.value, config.config_source, [(one.name, one.value, one.source) for one in config.synonyms]


async def change(
    whole: Whole, kind: int, name: str, *edits: tuple[str, int, str | None], version: int = 1, validate_only: bool = False
) -> Any:
    resource = incremental_alter_configs.AlterConfigsResource(
        resource_type=kind,
        resource_name=name,
        configs=[
            incremental_alter_configs.AlterableConfig(name=key, config_operation=operation, value=value)
            for key, operation, value in edits
        ],
    )
    request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=validate_only)
    (result,) = (await whole.ask(request, version)).responses
    assert (result.resource_type, result.resource_name) == (kind, name)
    return result.error_code


async def replace(
    whole: Whole, kind: int, name: str, version: int = 2, *, validate_only: bool = False, **values: str | None
) -> Any:
    configs = [alter_configs.AlterableConfig(name=key.replace("_", "."), value=value) for key, value in values.items()]
    resource = alter_configs.AlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)
    (result,) = (await whole.ask(AlterConfigsRequest(resources=[resource], validate_only=validate_only), version)).responses
    return result.error_code
