"""DescribeClientQuotas (key 48): the quotas of users, clients and addresses (KIP-546)."""

from __future__ import annotations

from pybroker.protocol.api_keys import ApiKey
from pybroker.protocol.messages.alter_client_quotas import EntityData
from pybroker.protocol.schema import Request, Response, Struct, field
from pybroker.protocol.wire import Bool, Float64, Int8, Int16, Int32


class ComponentData(Struct):
    """The part of one type that an entity must have."""

    entity_type: str = field()
    match_type: Int8 = field()  # 0: the name `match`, 1: the default entity, 2: any that is named
    match: str | None = field()


class DescribeClientQuotasRequest(Request, api_key=ApiKey.DESCRIBE_CLIENT_QUOTAS, versions="0-1", flexible="1+"):
    """A filter of entities."""

    components: list[ComponentData] = field()
    strict: Bool = field()  # whether an entity with parts of other types does not match


class ValueData(Struct):
    """A quota."""

    key: str = field()
    value: Float64 = field()


class EntryData(Struct):
    """The quotas of one entity."""

    entity: list[EntityData] = field()
    values: list[ValueData] = field()


class DescribeClientQuotasResponse(Response, api_key=ApiKey.DESCRIBE_CLIENT_QUOTAS, versions="0-1", flexible="1+"):
    """The entities that match."""

    throttle_time_ms: Int32 = field()
    error_code: Int16 = field()
    error_message: str | None = field()
    entries: list[EntryData] | None = field()  # null: there is an error
