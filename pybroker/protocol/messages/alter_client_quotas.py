"""AlterClientQuotas (key 49): set and remove quotas (KIP-546)."""

from __future__ import annotations

from pybroker.protocol.api_keys import ApiKey
from pybroker.protocol.schema import field, request, response, struct
from pybroker.protocol.wire import Bool, Float64, Int16, Int32


@struct
class EntityData:
    """A part of an entity."""

    entity_type: str = field()
    entity_name: str | None = field()  # null: the default entity


@struct
class OpData:
    """A quota to set or to remove."""

    key: str = field()
    value: Float64 = field()
    remove: Bool = field()


@struct
class EntryData:
    """The changes of one entity's quotas."""

    entity: list[EntityData] = field()
    ops: list[OpData] = field()


@request(api_key=ApiKey.ALTER_CLIENT_QUOTAS, versions="0-1", flexible="1+")
class AlterClientQuotasRequest:
    """Entities whose quotas to change."""

    entries: list[EntryData] = field()
    validate_only: Bool = field()


@struct
class ResponseEntryData:
    """The result for one entity."""

    error_code: Int16 = field()
    error_message: str | None = field()
    entity: list[EntityData] = field()


@response(api_key=ApiKey.ALTER_CLIENT_QUOTAS, versions="0-1", flexible="1+")
class AlterClientQuotasResponse:
    """One result per entity."""

    throttle_time_ms: Int32 = field()
    entries: list[ResponseEntryData] = field()
