"""AlterClientQuotas (key 49): set and remove quotas (KIP-546)."""

from __future__ import annotations

from pybroker.protocol.api_keys import ApiKey
from pybroker.protocol.schema import Request, Response, Struct, field
from pybroker.protocol.wire import Bool, Float64, Int16, Int32


class EntityData(Struct):
    """A part of an entity."""

    entity_type: str = field()
    entity_name: str | None = field()  # null: the default entity


class OpData(Struct):
    """A quota to set or to remove."""

    key: str = field()
    value: Float64 = field()
    remove: Bool = field()


class EntryData(Struct):
    """The changes of one entity's quotas."""

    entity: list[EntityData] = field()
    ops: list[OpData] = field()


class AlterClientQuotasRequest(Request, api_key=ApiKey.ALTER_CLIENT_QUOTAS, versions="0-1", flexible="1+"):
    """Entities whose quotas to change."""

    entries: list[EntryData] = field()
    validate_only: Bool = field()


class ResponseEntryData(Struct):
    """The result for one entity."""

    error_code: Int16 = field()
    error_message: str | None = field()
    entity: list[EntityData] = field()


class AlterClientQuotasResponse(Response, api_key=ApiKey.ALTER_CLIENT_QUOTAS, versions="0-1", flexible="1+"):
    """One result per entity."""

    throttle_time_ms: Int32 = field()
    entries: list[ResponseEntryData] = field()
