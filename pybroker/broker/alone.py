"""Settings that only several brokers can keep, for a broker that is alone: what they mean there, in one line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pybroker.config.broker import BrokerConfig

FACTORS: Final = ("default.replication.factor", "offsets.topic.replication.factor", "transaction.state.log.replication.factor")
MIN_ISR: Final = "min.insync.replicas"
ANY: Final = "pybroker.replication.factor.accept"


def warning_of(config: BrokerConfig) -> str | None:
    """Return the line; None where there is nothing to warn of. A default is not a person's wish."""
    wanted = {name: getattr(config, name.replace(".", "_")) for name in (*FACTORS, MIN_ISR) if name in config.origins}
    factors = [f"{name}={wanted[name]}" for name in FACTORS if wanted.get(name, 1) > 1]
    parts = []
    if factors and config.pybroker_replication_factor_accept != "any":
        parts.append(
            f"with {', '.join(factors)} the topics that this concerns cannot be created (set 1, or {ANY}=any, which keeps one "
            "replica)"
        )
    if wanted.get(MIN_ISR, 1) > 1:
        parts.append(f"{MIN_ISR}={wanted[MIN_ISR]} protects no record, because topics have one replica")
    return f"This broker is alone: {'; '.join(parts)}" if parts else None
