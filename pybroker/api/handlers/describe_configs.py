"""DescribeConfigs (key 32), v0-4: the settings of topics, of this broker, its loggers, groups and client metrics.

Behaviour
    Each setting comes with the place where its value was set, and on request with its synonyms and its documentation. A broker
    describes itself, with Kafka's properties that it accepts unread, and under the empty name the dynamic defaults of all
    brokers. A group need not exist: its settings may exist before its members. A requested setting that does not exist is left
    out; a request without names asks for all settings.
    A resource that is named again without names of settings is described once. Kafka describes it each time, so that a request of
    4 kB has a response of megabytes.
Versions
    v0 reports only whether a value is the default. v1 sources and synonyms (KIP-226), throttle time. v3 types and documentation
    (KIP-569). v4 flexible.
Not done
    Nothing.
Source: ConfigHelper; KIP-133, KIP-226, KIP-412, KIP-569.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pybroker.api.configs.broker_loggers import levels
from pybroker.api.configs.config_resources import ResourceType, check_broker_name, identity
from pybroker.api.configs.described_settings import BrokerLayers, ConfigSource, DescribedSetting, client_metrics_settings
from pybroker.config.setting import Kind
from pybroker.metadata import names
from pybroker.metadata.image import CLIENT_METRICS_KIND, GROUP_KIND
from pybroker.protocol.codec import encoded
from pybroker.protocol.error_codes import ErrorCode, KafkaError
from pybroker.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)
from pybroker.sharing.loop import in_slices

if TYPE_CHECKING:
    from asyncio import Future

    from pybroker.api.context import RequestContext, Services
    from pybroker.sharing.work import Pausing

_TYPES: Final = {
    Kind.BOOLEAN: 1,
    Kind.STRING: 2,
    Kind.INT: 3,
    Kind.SHORT: 4,
    Kind.LONG: 5,
    Kind.DOUBLE: 6,
    Kind.LIST: 7,
    Kind.CLASS: 8,
    Kind.PASSWORD: 9,
}
"""The numbers of DescribeConfigsResponse.ConfigType; 0 is a name that is in no table."""


def handle(
    broker: Services,
    context: RequestContext,
    request: DescribeConfigsRequest,
) -> DescribeConfigsResponse | Future[DescribeConfigsResponse]:
    """Respond from the image and the settings in force; between resources, others get their turn."""
    return in_slices(_describe_each(broker, context.api_version, request))


def _describe_each(broker: Services, version: int, request: DescribeConfigsRequest) -> Pausing[DescribeConfigsResponse]:
    """Describe and encode the resources one after the other: together they may have hundreds of thousands of settings."""
    described: set[tuple[int, str]] = set()
    results: list[Any] = []
    for resource in request.resources:
        if not resource.configuration_keys:
            same = identity(resource)
            if same in described:
                continue
            described.add(same)
        result = yield from _describe(broker, request, resource)
        results.append(encoded(result, DescribeConfigsResponse, version))
        yield
    return DescribeConfigsResponse(results=results)


def _describe(
    broker: Services, request: DescribeConfigsRequest, resource: DescribeConfigsResource
) -> Pausing[DescribeConfigsResult]:
    code, message, settings = ErrorCode.NONE, None, list[DescribedSetting]()
    try:
        settings = _settings(broker, resource.resource_type, resource.resource_name)
    except KafkaError as error:
        code, message = error.code, error.message
    keys = resource.configuration_keys
    if keys:
        named = frozenset(keys)
        settings = [setting for setting in settings if setting.name in named]
    configs = []
    for setting in settings:  # of a broker there may be thousands
        configs.append(_result(setting, with_synonyms=request.include_synonyms, with_documentation=request.include_documentation))
        yield
    return DescribeConfigsResult(
        error_code=code,
        error_message=message,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
        configs=configs,
    )


def _settings(broker: Services, resource_type: int, name: str) -> list[DescribedSetting]:
    image, layers = broker.controller.image, BrokerLayers(broker.controller)
    if resource_type == ResourceType.TOPIC:
        if (reason := names.invalid_name_reason(name)) is not None:
            raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {reason}")
        if name not in image.topics:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "")  # Kafka's message is empty, too
        return layers.topic_settings(image.topics[name].configs)
    if resource_type == ResourceType.BROKER:
        check_broker_name(broker, name, is_default_allowed=True)
        return layers.broker_settings() if name else layers.default_broker_settings()
    if resource_type == ResourceType.BROKER_LOGGER:
        check_broker_name(broker, name, is_default_allowed=False)
        source = ConfigSource.BROKER_LOGGER
        return [DescribedSetting(name=logger, value=level, source=source) for logger, level in levels().items()]
    if resource_type not in (ResourceType.GROUP, ResourceType.CLIENT_METRICS):
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unexpected resource type {resource_type} for resource {name}")
    if not name:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"A {ResourceType(resource_type).name} resource must have a name.")
    if resource_type == ResourceType.GROUP:
        return layers.group_settings(image.configs_of(GROUP_KIND, name))
    return client_metrics_settings(image.configs_of(CLIENT_METRICS_KIND, name))


def _result(setting: DescribedSetting, *, with_synonyms: bool, with_documentation: bool) -> DescribeConfigsResourceResult:
    row = setting.row
    is_typed = setting.source not in (ConfigSource.BROKER_LOGGER, ConfigSource.CLIENT_METRICS)
    return DescribeConfigsResourceResult(
        name=setting.name,
        value=setting.value,
        read_only=setting.is_read_only,
        is_default=setting.source is ConfigSource.DEFAULT,
        config_source=setting.source,
        is_sensitive=setting.is_sensitive,
        synonyms=[
            DescribeConfigsSynonym(name=synonym.name, value=synonym.value, source=synonym.source)
            for synonym in (setting.synonyms if with_synonyms else ())
        ],
        config_type=_TYPES[row.kind] if row is not None and is_typed else 0,
        documentation=row.doc if row is not None and is_typed and with_documentation else None,
    )
