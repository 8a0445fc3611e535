"""CreateDelegationToken (key 38): a token by which others log in as a user (KIP-48)."""

from __future__ import annotations

from pybroker.protocol.api_keys import ApiKey
from pybroker.protocol.schema import Request, Response, Struct, field
from pybroker.protocol.wire import Int16, Int32, Int64


class CreatableRenewers(Struct):
    """A user that may renew the token."""

    principal_type: str = field()
    principal_name: str = field()


class CreateDelegationTokenRequest(Request, api_key=ApiKey.CREATE_DELEGATION_TOKEN, versions="0-3", flexible="2+"):
    """A token to create."""

    owner_principal_type: str | None = field("3+")  # null: the user of the connection
    owner_principal_name: str | None = field("3+")
    renewers: list[CreatableRenewers] = field()
    max_lifetime_ms: Int64 = field()  # -1: the broker's


class CreateDelegationTokenResponse(Response, api_key=ApiKey.CREATE_DELEGATION_TOKEN, versions="0-3", flexible="2+"):
    """The token."""

    error_code: Int16 = field()
    principal_type: str = field()
    principal_name: str = field()
    token_requester_principal_type: str = field("3+")
    token_requester_principal_name: str = field("3+")
    issue_timestamp_ms: Int64 = field()
    expiry_timestamp_ms: Int64 = field()
    max_timestamp_ms: Int64 = field()
    token_id: str = field()
    hmac: bytes = field()
    throttle_time_ms: Int32 = field()
