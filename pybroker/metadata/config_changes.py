"""Changes of settings, as AlterConfigs and IncrementalAlterConfigs request them: the new settings, and whether they are
allowed.

Each resource of a request is independent: a refused resource is unchanged, and the others are changed in one commit.

A list is changed by its elements, starting from the value that was set for the resource, or from the setting's
default if there was none. Adding an element that is already in the list, or removing an element that is not, changes
nothing.

Errors
    INVALID_CONFIG for a topic's unknown setting or bad value, and for list operations on a setting that is not a
    list; INVALID_REQUEST for a setting that a broker cannot have, or cannot use; POLICY_VIOLATION for too many settings;
    UNKNOWN_TOPIC_OR_PARTITION.

Source: ConfigurationControlManager, ControllerConfigurationValidator, ConfigAdminManager; KIP-133, KIP-339.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from pybroker.config.dynamic import (
    CLIENT_METRICS_CONFIGS,
    UnfitRequestError,
    check_cleaner_threads,
    check_client_metrics_configs,
    dynamic_setting,
    in_force,
)
from pybroker.config.group_configs import GROUP_CONFIGS, check_group_configs
from pybroker.config.hosts import CONNECTION_LIMITS_KEY
from pybroker.config.setting import ConfigError, Kind, Setting
from pybroker.config.topic import TopicConfig
from pybroker.config.topic_settings import TOPIC_SETTINGS
from pybroker.failures import drop_frames
from pybroker.metadata import names
from pybroker.metadata.image import BROKER_KIND, CLIENT_METRICS_KIND, GROUP_KIND, ConfigResource
from pybroker.metadata.plan import Plan
from pybroker.protocol.error_codes import ErrorCode, KafkaError

if TYPE_CHECKING:
    from pybroker.config.broker import BrokerConfig
    from pybroker.metadata.image import ClusterImage
    from pybroker.sharing.work import Work

TOPIC_KIND: Final = "topic"

SETTINGS_MAX: Final = 1_000
"""The number of settings of one resource, and of edits of it in one request. Kafka has no bound."""

SETTINGS_SIZE_MAX: Final = 262_144
"""The number of characters of all names and values of one resource, which are encoded and described at once."""

LIST_MAX: Final = 32_767
"""The length of a list that grew by its elements, in characters: that of the longest text that a request can have."""


class Operation(IntEnum):
    """A change of one setting, by Kafka's number."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class Edit(NamedTuple):
    """A change of one setting; DELETE does not use `text`."""

    name: str
    operation: Operation
    text: str


@dataclass(slots=True, frozen=True, kw_only=True)
class ConfigChange:
    """All edits of one resource. With `replaces_all`, settings that no edit names return to their defaults."""

    resource: ConfigResource
    edits: Sequence[Edit]
    replaces_all: bool = False


class CheckOfBroker(Protocol):
    """Checks what only the running broker can, because its listeners and files decide."""

    def __call__(self, before: BrokerConfig, after: BrokerConfig, /) -> Work[None]:
        """Check that the broker can go from the settings in force, `before`, to others. Raises ConfigError."""


class Settings(NamedTuple):
    """The broker's settings that a change is checked with.

    `static` is the configuration that the broker was started with, `current` the one in force. `unusable` are those limits of
    connections whose hosts were looked up in vain. `check` is None before the broker listens.
    """

    static: BrokerConfig
    current: BrokerConfig
    unusable: Mapping[str, ConfigError]
    check: CheckOfBroker | None = None


def limits_to_set(changes: Sequence[ConfigChange]) -> set[str]:
    """Return the limits of connections by host that `changes` set."""
    return {
        edit.text
        for change in changes
        if change.resource.kind == BROKER_KIND
        for edit in change.edits
        if edit.name == CONNECTION_LIMITS_KEY and edit.operation is Operation.SET
    }


def plan_config_changes(image: ClusterImage, settings: Settings, changes: Sequence[ConfigChange]) -> Work[Plan]:
    """Make a plan with an error or None for each of `changes`, whose resources must be distinct. It yields after each."""
    plan = Plan()
    for change in changes:
        try:
            yield from _plan_one(plan, image, settings, change)
            plan.errors.append(None)
        except KafkaError as error:
            plan.errors.append(drop_frames(error))
        yield None
    return plan


def _plan_one(plan: Plan, image: ClusterImage, settings: Settings, change: ConfigChange) -> Work[None]:
    kind, name = change.resource
    topic = image.topics.get(name) if kind == TOPIC_KIND else None
    old = topic.configs if topic is not None else image.configs_of(kind, name)
    new = _edited(kind, old, change)
    _check_bounds(change.resource, old, new)
    if kind == TOPIC_KIND:
        _check_topic(settings.current, name, new)
    elif kind == BROKER_KIND:
        yield from _check_broker(image, settings, name, new)
    else:
        _check_other(settings.static, kind, new)
    if kind == TOPIC_KIND and topic is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist.")
    if new == dict(old):
        return
    if topic is not None:
        plan.change_topic(topic, replace(topic, configs=new))
    else:
        plan.change_configs(image, change.resource, new)
    changed = sorted(key for key in {*old, *new} if old.get(key) != new.get(key))
    plan.notes.append(f"Settings of {kind} {name or 'default'} changed: {', '.join(_shown(kind, key, new) for key in changed)}")


def _check_bounds(resource: ConfigResource, old: Mapping[str, str], new: Mapping[str, str]) -> None:
    """Check that there are not too many settings, unless there were more before."""
    kind, name = resource
    if len(new) > max(SETTINGS_MAX, len(old)):
        message = f"The {kind} '{name}' would have {len(new)} settings, above {SETTINGS_MAX}."
        raise KafkaError(ErrorCode.POLICY_VIOLATION, message)
    if (size := _size(new)) > SETTINGS_SIZE_MAX and size > _size(old):
        message = f"The settings of the {kind} '{name}' would have {size} characters, above {SETTINGS_SIZE_MAX}."
        raise KafkaError(ErrorCode.POLICY_VIOLATION, message)


def _size(values: Mapping[str, str]) -> int:
    return sum(len(name) + len(text) for name, text in values.items())


def _shown(kind: str, key: str, values: Mapping[str, str]) -> str:
    if key not in values:
        return f"{key} back to its default"
    row = _row(kind, key)
    return f"{key}={'[hidden]' if row is None else row.shown(values[key])}"


def _row(kind: str, name: str) -> Setting | None:
    if kind == TOPIC_KIND:
        return TOPIC_SETTINGS.get(name)
    if kind == BROKER_KIND:
        return dynamic_setting(name)
    return GROUP_CONFIGS.get(name) if kind == GROUP_KIND else CLIENT_METRICS_CONFIGS.get(name)


def _edited(kind: str, old: Mapping[str, str], change: ConfigChange) -> dict[str, str]:
    values = {} if change.replaces_all else dict(old)
    for name, operation, text in change.edits:
        if operation is Operation.SET:
            values[name] = text
        elif operation is Operation.DELETE:
            values.pop(name, None)
        else:
            values[name] = _edited_list(_row(kind, name), name, values.get(name), operation, text)
    return values


def _edited_list(row: Setting | None, name: str, old: str | None, operation: Operation, text: str) -> str:
    if row is None or row.kind is not Kind.LIST:
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"Can't {operation.name} to key {name} because its type is not LIST.")
    elements = [part for part in (row.format(row.default) if old is None else old).split(",") if part]
    if operation is Operation.APPEND:
        known = set(elements)
        longer = ",".join([*elements, *(one for one in dict.fromkeys(text.split(",")) if one not in known)])
        if len(longer) > LIST_MAX:
            message = f"Can't APPEND to key {name} because its value would have {len(longer)} characters, above {LIST_MAX}."
            raise KafkaError(ErrorCode.INVALID_CONFIG, message)
        return longer
    removed = Counter(text.split(","))
    return ",".join(one for one in elements if not _taken(removed, one))


def _taken(counts: Counter[str], one: str) -> bool:
    """Take `one` from the counts, and return whether it was there."""
    if counts[one] == 0:
        return False
    counts[one] -= 1
    return True


def _check_topic(current: BrokerConfig, name: str, values: Mapping[str, str]) -> None:
    if not name:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Default topic resources are not allowed.")
    if (reason := names.invalid_name_reason(name)) is not None:
        raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {reason}")
    try:
        TopicConfig.resolve(current, values)
    except ConfigError as error:
        raise KafkaError(ErrorCode.INVALID_CONFIG, error.client_message) from error


def _check_broker(image: ClusterImage, settings: Settings, name: str, values: Mapping[str, str]) -> Work[None]:
    static = settings.static
    of_all = values if not name else image.configs_of(BROKER_KIND, "")
    of_this = values if name else image.configs_of(BROKER_KIND, str(static.node_id))
    try:
        if (error := settings.unusable.get(values.get(CONNECTION_LIMITS_KEY, ""))) is not None:
            raise error
        config = in_force(static, of_all, of_this)
        check_cleaner_threads(settings.current, config)
        TopicConfig.resolve(config, {})
        checked: set[tuple[tuple[str, str], ...]] = {()}
        for topic in image.topics.values():  # the broker's defaults must be valid together with each topic's settings
            configs = tuple(topic.configs.items())
            if configs not in checked:
                checked.add(configs)
                TopicConfig.resolve(config, topic.configs)
            yield None
        if settings.check is not None:
            yield from settings.check(settings.current, config)
    except ConfigError as error:
        raise KafkaError(ErrorCode.INVALID_REQUEST, error.client_message) from error


def _check_other(static: BrokerConfig, kind: str, values: Mapping[str, str]) -> None:
    try:
        if kind == GROUP_KIND:
            check_group_configs(static, values)
        else:
            assert kind == CLIENT_METRICS_KIND, kind
            check_client_metrics_configs(values)
    except UnfitRequestError as error:
        raise KafkaError(ErrorCode.INVALID_REQUEST, error.client_message) from error
    except ConfigError as error:
        raise KafkaError(ErrorCode.INVALID_CONFIG, error.client_message) from error
