"""The entities that quotas are about, and which values a quota may have.

An entity is a user, a client id, both, or an address. A name that is None is the default: for all of that type without a quota
of their own.

Source: ClientQuotaEntity, QuotaConfigs, ClientQuotaControlManager of Kafka; KIP-55, KIP-546, KIP-612.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

USER: Final = "user"
CLIENT_ID: Final = "client-id"
IP: Final = "ip"
TYPES: Final = (USER, CLIENT_ID, IP)

PRODUCER_BYTE_RATE: Final = "producer_byte_rate"
CONSUMER_BYTE_RATE: Final = "consumer_byte_rate"
REQUEST_PERCENTAGE: Final = "request_percentage"
CONTROLLER_MUTATION_RATE: Final = "controller_mutation_rate"
CONNECTION_CREATION_RATE: Final = "connection_creation_rate"

_OF_CLIENTS: Final[Mapping[str, float]] = {
    PRODUCER_BYTE_RATE: 2**63 - 1,
    CONSUMER_BYTE_RATE: 2**63 - 1,
    REQUEST_PERCENTAGE: math.inf,
    CONTROLLER_MUTATION_RATE: math.inf,
}
_OF_ADDRESSES: Final[Mapping[str, float]] = {CONNECTION_CREATION_RATE: 2**31 - 1}
"""The largest value of each quota; one that has a bound is an integer."""
NAMES: Final = (*_OF_CLIENTS, *_OF_ADDRESSES)
"""All quotas."""

_EPSILON: Final = 1e-6
_TYPE_NAMES: Final = {2**63 - 1: "a LONG", 2**31 - 1: "an INT"}

Entity = tuple[tuple[str, str | None], ...]
"""Pairs of type and name, in the order of TYPES."""


def entity_of(parts: Sequence[tuple[str, str | None]]) -> Entity:
    """Return the entity with these parts. Raises ValueError if there is no such entity."""
    if not parts:
        raise ValueError("Invalid empty client quota entity")
    for index, (kind, name) in enumerate(parts):
        if any(kind == other for other, _ in parts[:index]):
            raise ValueError(f"Invalid empty client quota entity, duplicate entity entry {kind}")
        if kind not in TYPES:
            raise ValueError(f"Unhandled client quota entity type: {kind}")
        if name == "":
            raise ValueError(f"Empty {kind} not supported")
    if len(parts) > 1 and any(kind == IP for kind, _ in parts):
        raise ValueError("Invalid empty client quota entity")
    return tuple(sorted(parts, key=lambda part: TYPES.index(part[0])))


def check_value(entity: Entity, key: str, value: float) -> None:
    """Raise ValueError if the entity cannot have this quota."""
    keys = _OF_ADDRESSES if entity[0][0] == IP else _OF_CLIENTS
    if key not in keys:
        raise ValueError(f"Invalid configuration key {key}")
    if not value > 0:
        raise ValueError(f"Quota {key} must be greater than 0")
    largest = keys[key]
    if value > largest:
        raise ValueError(f"Proposed value for {key} is too large for {_TYPE_NAMES[int(largest)]}.")
    if not math.isinf(largest) and abs(math.floor(value + _EPSILON) - value) > _EPSILON:
        raise ValueError(f"{key} cannot be a fractional value.")
