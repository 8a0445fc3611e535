"""Settings of single groups: their names, types, defaults and bounds.

Where a group has no setting of its own, the broker's property applies, whose name has `group.` in front. Two other properties
of the broker bound a group's setting. The broker does not read its properties for share and streams groups yet: their defaults
apply.

Source: GroupConfig (4.3); KIP-848, KIP-932, KIP-1071.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from pybroker.config.setting import Check, ConfigError, Effect, Kind, Setting, at_least, one_of
from pybroker.config.table import BROKER_SETTINGS

if TYPE_CHECKING:
    from pybroker.config.broker import BrokerConfig

_I, _LATER = Kind.INT, Effect.LATER
_DURATION: Final = re.compile(r"(latest|earliest|by_duration:P(?=[0-9T])([0-9]+D)?(T(?=[0-9])([0-9]+H)?([0-9]+M)?([0-9.]+S)?)?)")
_RESET: Final = Check(
    "latest, earliest or by_duration:PnDTnHnMn.nS",
    lambda value: _DURATION.fullmatch(value) is not None,
    lambda _: "Invalid value for share.auto.offset.reset: must be one of latest, earliest, by_duration:PnDTnHnMn.nS",
)
_LEVELS: Final = one_of("read_committed", "read_uncommitted")
_OFFSETS: Final = "The offset at which a share group begins."
_ISOLATION: Final = "Whether a share group gets records of aborted transactions."

GROUP_CONFIGS: Final = {
    setting.name: setting
    for setting in (
        Setting(
            "consumer.assignment.interval.ms", _I, 1000,
            "Shortest time between two assignments, in ms.", at_least(0), _LATER,
        ),
        Setting("consumer.heartbeat.interval.ms", _I, 5000, "Heartbeat interval of a member, in ms.", at_least(1)),
        Setting("consumer.session.timeout.ms", _I, 45_000, "Session timeout of a member, in ms.", at_least(1)),
        Setting(
            "share.assignment.interval.ms", _I, 1000,
            "Shortest time between two assignments of a share group, in ms.", at_least(0), _LATER,
        ),
        Setting("share.auto.offset.reset", Kind.STRING, "latest", _OFFSETS, _RESET, _LATER),
        Setting("share.delivery.count.limit", _I, 5, "Deliveries of a record at most.", at_least(2), _LATER),
        Setting("share.heartbeat.interval.ms", _I, 5000, "Heartbeat interval of a share member, in ms.", at_least(1), _LATER),
        Setting("share.isolation.level", Kind.STRING, "read_uncommitted", _ISOLATION, _LEVELS, _LATER),
        Setting(
            "share.partition.max.record.locks", _I, 2000,
            "Records of a partition that members hold at once.", at_least(100), _LATER,
        ),
        Setting("share.record.lock.duration.ms", _I, 30_000, "How long a member holds a record, in ms.", at_least(1000), _LATER),
        Setting(
            "share.renew.acknowledge.enable", Kind.BOOLEAN, True,
            "Whether a member may hold a record for longer.", None, _LATER,
        ),
        Setting("share.session.timeout.ms", _I, 45_000, "Session timeout of a share member, in ms.", at_least(1), _LATER),
        Setting(
            "streams.assignment.interval.ms", _I, 1000,
            "Shortest time between two assignments of a streams group, in ms.", at_least(0), _LATER,
        ),
        Setting("streams.heartbeat.interval.ms", _I, 5000, "Heartbeat interval of a streams member, in ms.", at_least(1), _LATER),
        Setting(
            "streams.initial.rebalance.delay.ms", _I, 3000,
            "Wait for more members before the first assignment, in ms.", at_least(0), _LATER,
        ),
        Setting("streams.num.standby.replicas", _I, 0, "Standby replicas of each task.", at_least(0), _LATER),
        Setting("streams.session.timeout.ms", _I, 45_000, "Session timeout of a streams member, in ms.", at_least(1), _LATER),
    )
}  # fmt: skip

_OF_GROUPS_ALONE: Final = frozenset({"share.auto.offset.reset", "share.isolation.level", "share.renew.acknowledge.enable"})
_BOUNDED: Final = frozenset(
    {
        *(f"{kind}.assignment.interval.ms" for kind in ("consumer", "share", "streams")),
        *(f"{kind}.heartbeat.interval.ms" for kind in ("consumer", "share", "streams")),
        *(f"{kind}.session.timeout.ms" for kind in ("consumer", "share", "streams")),
        "share.record.lock.duration.ms",
        "share.delivery.count.limit",
        "share.partition.max.record.locks",
    }
)
_UNREAD: Final = {
    **{f"group.{kind}.min.assignment.interval.ms": 0 for kind in ("consumer", "share", "streams")},
    **{f"group.{kind}.max.assignment.interval.ms": 15_000 for kind in ("consumer", "share", "streams")},
    **{f"group.{kind}.min.heartbeat.interval.ms": 5000 for kind in ("share", "streams")},
    **{f"group.{kind}.max.heartbeat.interval.ms": 15_000 for kind in ("share", "streams")},
    **{f"group.{kind}.min.session.timeout.ms": 45_000 for kind in ("share", "streams")},
    **{f"group.{kind}.max.session.timeout.ms": 60_000 for kind in ("share", "streams")},
    "group.share.min.record.lock.duration.ms": 15_000,
    "group.share.max.record.lock.duration.ms": 60_000,
    "group.share.min.delivery.count.limit": 2,
    "group.share.max.delivery.count.limit": 10,
    "group.share.min.partition.max.record.locks": 100,
    "group.share.max.partition.max.record.locks": 4000,
    "group.streams.max.standby.replicas": 2,
}
"""Kafka's defaults of the bounds for which `BrokerConfig` has no property."""


def broker_synonym(name: str) -> str | None:
    """Return the broker's property that applies where a group has no setting, or None if there is none."""
    return None if name in _OF_GROUPS_ALONE else f"group.{name}"


def check_group_configs(broker: BrokerConfig, values: Mapping[str, str]) -> None:
    """Check settings of a group.

    Raises ConfigError for an unknown name, a bad value, and a value outside of the broker's bounds.
    """
    parsed = {}
    for name, text in values.items():
        if name not in GROUP_CONFIGS:
            raise ConfigError(name, text, "unknown group config name", f"Unknown group config name: {name}")
        parsed[name] = GROUP_CONFIGS[name].parse(text)
    for name, value in parsed.items():
        for bound, is_lowest in _bounds(name):
            limit = _of_broker(broker, bound)
            assert isinstance(value, int)
            if value < limit if is_lowest else value > limit:
                words = "greater" if is_lowest else "less"
                message = f"{name} must be {words} than or equal to {bound}"
                raise ConfigError(name, value, f"must be {'at least' if is_lowest else 'at most'} {limit} ({bound})", message)
    for kind in ("consumer", "share", "streams"):
        timeout, interval = f"{kind}.session.timeout.ms", f"{kind}.heartbeat.interval.ms"
        timeout_ms, interval_ms = (parsed.get(name, _of_broker(broker, f"group.{name}")) for name in (timeout, interval))
        assert isinstance(timeout_ms, int)
        assert isinstance(interval_ms, int)
        if timeout_ms <= interval_ms:
            raise ConfigError(
                timeout, timeout_ms, f"must be above {interval_ms} ({interval})", f"{timeout} must be greater than {interval}"
            )


def _bounds(name: str) -> list[tuple[str, bool]]:
    """Return the broker's properties that bound a group's setting, each with whether it is the lower bound."""
    if name == "streams.num.standby.replicas":
        return [("group.streams.max.standby.replicas", False)]
    if name not in _BOUNDED:
        return []
    kind, _, rest = name.partition(".")
    return [(f"group.{kind}.min.{rest}", True), (f"group.{kind}.max.{rest}", False)]


def _of_broker(broker: BrokerConfig, name: str) -> int:
    if name in BROKER_SETTINGS:
        value = getattr(broker, BROKER_SETTINGS[name].attribute)
    elif name in _UNREAD:
        value = _UNREAD[name]
    else:
        value = GROUP_CONFIGS[name.removeprefix("group.")].default
    assert isinstance(value, int)
    return value
