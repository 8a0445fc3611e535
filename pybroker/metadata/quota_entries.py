"""Quotas as entries of the store: one entry for each entity that has some, and one that every change puts, so that changes are in
an order. The id of an entry follows from its entity.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from pybroker.metadata.member_entries import dump
from pybroker.metadata.store.base import StoreError
from pybroker.security.quotas.entity import Entity, entity_of

if TYPE_CHECKING:
    from pybroker.security.quotas.quotas import Values


def encode_quotas(entity: Entity, values: Values) -> bytes:
    """Return the value of an entity's entry."""
    return dump({"entity": dict(entity), "quotas": dict(values)})


def decode_quotas(key: str, value: bytes) -> tuple[Entity, Values]:
    """Decode what `encode_quotas` returns. Raises StoreError if the value has another form."""
    try:
        fields = json.loads(value)
        entity = entity_of([(kind, None if name is None else str(name)) for kind, name in fields["entity"].items()])
        return entity, {str(name): float(quota) for name, quota in fields["quotas"].items()}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise StoreError(f"the store's entry {key} cannot be read: {error!r}") from error
