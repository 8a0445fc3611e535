"""DescribeDelegationToken (key 41): the tokens of users (KIP-48)."""

from __future__ import annotations

from pybroker.protocol.api_keys import ApiKey
from pybroker.protocol.schema import Request, Response, Struct, field
from pybroker.protocol.wire import Int16, Int32, Int64


class DescribeDelegationTokenOwner(Struct):
    """A user."""

    principal_type: str = field()
    principal_name: str = field()


class DescribeDelegationTokenRequest(Request, api_key=ApiKey.DESCRIBE_DELEGATION_TOKEN, versions="0-3", flexible="2+"):
    """Users whose tokens to describe."""

    owners: list[DescribeDelegationTokenOwner] | None = field()  # null: all users


class DescribedDelegationTokenRenewer(Struct):
    """A user that may renew the token."""

    principal_type: str = field()
    principal_name: str = field()


class DescribedDelegationToken(Struct):
    """A token."""

    principal_type: str = field()
    principal_name: str = field()
    token_requester_principal_type: str = field("3+")
    token_requester_principal_name: str = field("3+")
    issue_timestamp: Int64 = field()  # ms
    expiry_timestamp: Int64 = field()
    max_timestamp: Int64 = field()
    token_id: str = field()
    hmac: bytes = field()
    renewers: list[DescribedDelegationTokenRenewer] = field()


class DescribeDelegationTokenResponse(Response, api_key=ApiKey.DESCRIBE_DELEGATION_TOKEN, versions="0-3", flexible="2+"):
    """The tokens of these users."""

    error_code: Int16 = field()
    tokens: list[DescribedDelegationToken] = field()
    throttle_time_ms: Int32 = field()
