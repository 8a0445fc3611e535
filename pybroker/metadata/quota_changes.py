"""Changes of quotas: what AlterClientQuotas requests, checked as Kafka's controller checks it, in one commit.

Source: ClientQuotaControlManager; KIP-546.
"""

from __future__ import annotations

import ipaddress
import json
import logging
from typing import TYPE_CHECKING, Final, NamedTuple

from pybroker.metadata.entries import QUOTA_PREFIX
from pybroker.metadata.ordered_changes import commit_next, content_id
from pybroker.metadata.quota_entries import encode_quotas
from pybroker.protocol.error_codes import ErrorCode, KafkaError
from pybroker.security.quotas.entity import IP, Entity, check_value, entity_of
from pybroker.sharing.loop import complete

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pybroker.metadata.controller import Controller
    from pybroker.security.quotas.quotas import Quotas, Values
    from pybroker.sharing.work import Pausing

logger = logging.getLogger(__name__)

CHANGES_MAX: Final = 10_000
"""The number of entities that one request may change."""


class QuotaChange(NamedTuple):
    """A change of an entity: its parts, and pairs of a quota's name and its new value, None to remove it."""

    parts: Sequence[tuple[str, str | None]]
    values: Sequence[tuple[str, float | None]]


async def alter_quotas(
    controller: Controller, changes: Sequence[QuotaChange], *, validate_only: bool = False
) -> list[KafkaError | None]:
    """Make the changes that are valid, in one commit. Returns an error or None for each.

    Raises KafkaError if nothing was changed.
    """
    if len(changes) > CHANGES_MAX:
        raise KafkaError(ErrorCode.POLICY_VIOLATION, f"A request can change at most {CHANGES_MAX} entities, not {len(changes)}.")
    while True:
        compared = controller.image
        errors, new = await complete(_planned(compared.quotas, changes))
        if validate_only or not new:
            return errors
        puts = {_id(entity): encode_quotas(entity, values) for entity, values in new.items() if values}
        deletes = [_id(entity) for entity, values in new.items() if not values]
        if await commit_next(controller, QUOTA_PREFIX, since=compared.quotas_revision, puts=puts, deletes=deletes):
            for entity, values in new.items():
                logger.info("The quotas of %s are now %s", _text(entity), dict(values) or "none")
            return errors


def _planned(quotas: Quotas, changes: Sequence[QuotaChange]) -> Pausing[tuple[list[KafkaError | None], dict[Entity, Values]]]:
    """Return an error or None for each change, and the quotas of the entities that differ afterwards."""
    errors: list[KafkaError | None] = []
    new: dict[Entity, Values] = {}
    seen: set[Entity] = set()
    for parts, values in changes:
        yield
        try:
            entity = entity_of(parts)
            _check_address(entity)
            if entity in seen:
                raise ValueError(f"Ignoring duplicate entity {_text(entity)}")
            seen.add(entity)
            before = quotas.by_entity.get(entity, {})
            after = _changed(entity, before, values)
        except ValueError as error:
            errors.append(KafkaError(ErrorCode.INVALID_REQUEST, str(error)))
            continue
        errors.append(None)
        if after != before:
            new[entity] = after
    return errors, new


def _changed(entity: Entity, before: Values, changes: Sequence[tuple[str, float | None]]) -> dict[str, float]:
    after, seen = dict(before), set[str]()
    for key, value in changes:
        if key in seen:
            raise ValueError(f"Duplicate quota key {key} not updating quota for this entity {_text(entity)}")
        seen.add(key)
        if value is None:
            after.pop(key, None)
        else:
            check_value(entity, key, value)
            after[key] = value
    return after


def _check_address(entity: Entity) -> None:
    """Raise ValueError if the entity is an address that is none. Kafka looks names up; no handler waits for that here, so only
    `localhost` is a name.
    """
    kind, name = entity[0]
    if kind != IP or name is None or name == "localhost":
        return
    try:
        ipaddress.ip_address(name)
    except ValueError:
        raise ValueError(f"{name} is not a valid IP or resolvable host.") from None


def _id(entity: Entity) -> str:
    return content_id(json.dumps(entity).encode())


def _text(entity: Entity) -> str:
    return "ClientQuotaEntity(entries={" + ", ".join(f"{kind}={name}" for kind, name in entity) + "})"
