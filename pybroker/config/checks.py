"""The checks of properties that must fit each other, which no single row of the table can make."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pybroker.config.environment import PREFIX
from pybroker.config.listeners import has_logins
from pybroker.config.setting import ConfigError

if TYPE_CHECKING:
    from pybroker.config.broker import BrokerConfig


def check_together(config: BrokerConfig) -> None:
    """Check what no single row can check. Raises ConfigError."""
    if 0 < config.queued_max_request_bytes <= config.socket_request_max_bytes:
        reason = f"must be larger than socket.request.max.bytes ({config.socket_request_max_bytes}), or not positive for no bound"
        raise ConfigError("queued.max.request.bytes", config.queued_max_request_bytes, reason)
    if config.broker_id not in (-1, config.node_id):
        raise ConfigError("broker.id", config.broker_id, f"must equal node.id ({config.node_id}) when both are set")
    if set(config.process_roles) in ({"broker"}, {"controller"}) and not (
        config.controller_quorum_voters or config.controller_quorum_bootstrap_servers or "metadata.store" in config.origins
    ):
        reason = "needs controller.quorum.voters: set it, or leave process.roles out for a broker that is a cluster by itself"
        raise ConfigError("process.roles", ",".join(config.process_roles), reason)
    has_users = any(has_logins(one.security_protocol) for one in config.endpoints)
    if config.admin_address is not None and config.authorizer_class_name and not has_users and not config.pybroker_admin_token:
        reason = "needs pybroker.admin.token: with authorizer.class.name, and no listener where users log in, nobody could use it"
        raise ConfigError("pybroker.admin.listener", config.pybroker_admin_listener, reason)
    if not config.log_dirs or not all(config.log_dirs):
        raise ConfigError("log.dirs", ",".join(config.log_dirs), "has an empty entry: name a directory between the commas")
    if len({*config.log_dirs}) != len(config.log_dirs):
        raise ConfigError("log.dirs", ",".join(config.log_dirs), "names a directory twice: name each directory once")
    if (
        config.log_roll_jitter_ms is not None
        and config.log_roll_ms is not None
        and config.log_roll_jitter_ms > config.log_roll_ms
    ):
        raise ConfigError(
            "log.roll.jitter.ms", config.log_roll_jitter_ms, f"must not be above log.roll.ms ({config.log_roll_ms})"
        )
    _check_retention(config)
    _check_groups(config)
    if config.log_cleaner_min_compaction_lag_ms > config.log_cleaner_max_compaction_lag_ms:
        reason = f"must not be above log.cleaner.max.compaction.lag.ms ({config.log_cleaner_max_compaction_lag_ms})"
        raise ConfigError("log.cleaner.min.compaction.lag.ms", config.log_cleaner_min_compaction_lag_ms, reason)
    config.connection_limits  # noqa: B018  # parsed for its errors, like those below
    config.metrics_address  # noqa: B018
    config.admin_address  # noqa: B018
    if config.pybroker_virtual_time:
        _check_virtual_time(config)
    config.endpoints  # noqa: B018
    _check_outside(config)


def _check_virtual_time(config: BrokerConfig) -> None:
    """Check that the time can be moved, and that no other broker has another time."""
    key, text = "pybroker.virtual.time", "true"
    if not config.pybroker_admin_listener:
        raise ConfigError(key, text, "needs pybroker.admin.listener, by which the time is moved")
    if config.is_metadata_shared or config.controller_quorum_voters or config.controller_quorum_bootstrap_servers:
        raise ConfigError(key, text, "is for a broker that is a cluster by itself: several brokers need one and the same time")


def _check_outside(config: BrokerConfig) -> None:
    """Check that the address for clients outside has an effect, and belongs to a single listener."""
    key, address = "pybroker.advertised.outside", config.outside_address
    if address is None:
        return
    text, unadvertised = config.pybroker_advertised_outside, sorted(config.unadvertised_listeners)
    if not config.pybroker_advertised_by_peer:
        raise ConfigError(key, text, "is for a broker in a container; outside of one set advertised.listeners")
    if not unadvertised:
        named = "advertised.listeners"
        if (origin := config.origins.get(named, "")).startswith(PREFIX):
            named = origin
        raise ConfigError(key, text, f"has no effect, because {named} names every listener: set only one of the two")
    if address[1] and len(unadvertised) > 1:
        names = " and ".join(unadvertised)
        reason = f"has the port of one listener, but {names} are without an address: set advertised.listeners instead"
        raise ConfigError(key, text, reason)


def _check_retention(config: BrokerConfig) -> None:
    retention = {
        "log.retention.ms": config.log_retention_ms,
        "log.retention.minutes": config.log_retention_minutes,
        "log.retention.hours": config.log_retention_hours,
    }
    for name, value in retention.items():
        if value == 0:
            raise ConfigError(name, value, "must be above 0, or -1 for no limit")


def _check_groups(config: BrokerConfig) -> None:
    protocols = [protocol.lower() for protocol in config.group_coordinator_rebalance_protocols]
    if "classic" not in protocols:
        raise ConfigError("group.coordinator.rebalance.protocols", ",".join(protocols), "must name classic")
    if not config.group_consumer_assignors:
        raise ConfigError("group.consumer.assignors", "", "must name an assignor")
    for name in ("session.timeout.ms", "heartbeat.interval.ms"):
        attribute = name.replace(".", "_")
        low, value, high = (getattr(config, f"group_consumer_{bound}{attribute}") for bound in ("min_", "", "max_"))
        if low > high:
            raise ConfigError(f"group.consumer.max.{name}", high, f"must not be below group.consumer.min.{name} ({low})")
        if not low <= value <= high:
            raise ConfigError(f"group.consumer.{name}", value, f"must be between {low} and {high}, its min and max")
    if config.group_consumer_heartbeat_interval_ms >= config.group_consumer_session_timeout_ms:
        reason = f"must be below group.consumer.session.timeout.ms ({config.group_consumer_session_timeout_ms})"
        raise ConfigError("group.consumer.heartbeat.interval.ms", config.group_consumer_heartbeat_interval_ms, reason)
