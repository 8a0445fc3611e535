"""All quotas of a cluster, and which of them holds for a request.

Source: ClientQuotaManager.DefaultQuotaCallback of Kafka; KIP-55.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

from pybroker.security.quotas.entity import CLIENT_ID, CONNECTION_CREATION_RATE, IP, USER, Entity

if TYPE_CHECKING:
    from collections.abc import Iterable

Values = Mapping[str, float]
"""The quotas of an entity, by their names."""


class Limit(NamedTuple):
    """A quota that holds, and for which user and client id; one that is empty stands for all that share it."""

    value: float
    user: str
    client_id: str


class Quotas:
    """The quotas of a cluster, by the ids of their entries. Does not change."""

    def __init__(self, by_id: Mapping[str, tuple[Entity, Values]]) -> None:
        self.by_id = by_id
        self.by_entity: Mapping[Entity, Values] = MappingProxyType(dict(by_id.values()))

    def __bool__(self) -> bool:
        return bool(self.by_id)

    def changed(self, changes: Mapping[str, tuple[Entity, Values] | None]) -> Quotas:
        """Return these quotas after `changes` of entries; None removes one."""
        by_id = {**self.by_id, **changes}
        return Quotas(MappingProxyType({key: one for key, one in by_id.items() if one is not None}))

    def limits(self, user: str, client_id: str) -> dict[str, Limit]:
        """Return the quotas of a request by their names: each that of the closest entity, of the eight that it may have."""
        found: dict[str, Limit] = {}
        for entity, of_user, of_client in _closest_first(user, client_id):
            for key, value in self.by_entity.get(entity, {}).items():
                found.setdefault(key, Limit(value, user if of_user else "", client_id if of_client else ""))
        return found

    def connection_rate(self, host: str) -> float | None:
        """Return how many connections a second may be opened from an address; None if there is no limit."""
        for name in (host, None):
            if (value := self.by_entity.get(((IP, name),), {}).get(CONNECTION_CREATION_RATE)) is not None:
                return value
        return None


def _closest_first(user: str, client_id: str) -> Iterable[tuple[Entity, bool, bool]]:
    """Yield the entities that a request belongs to, with whether each user, and each client id, has a quota of its own."""
    if user:
        yield ((USER, user), (CLIENT_ID, client_id)), True, True
        yield ((USER, user), (CLIENT_ID, None)), True, True
        yield ((USER, user),), True, False
        yield ((USER, None), (CLIENT_ID, client_id)), True, True
        yield ((USER, None), (CLIENT_ID, None)), True, True
        yield ((USER, None),), True, False
    yield ((CLIENT_ID, client_id),), False, True
    yield ((CLIENT_ID, None),), False, True


NO_QUOTAS: Final = Quotas(MappingProxyType({}))
