"""DescribeDelegationToken (key 41): the tokens of users (KIP-48)."""

from __future__ import annotations

from pybroker.protocol.api_keys import ApiKey
from pybroker.protocol.schema import field, request, response, struct
from pybroker.protocol.wire import Int16, Int32, Int64


@struct
class DescribeDelegationTokenOwner:
    """A user."""

    principal_type: str = field()
    principal_name: str = field()


@request(api_key=ApiKey.DESCRIBE_DELEGATION_TOKEN, versions="0-3", flexible="2+")
class DescribeDelegationTokenRequest:
    """Users whose tokens to describe."""

    owners: list[DescribeDelegationTokenOwner] | None = field()  # null: all users


@struct
class DescribedDelegationTokenRenewer:
    """A user that may renew the token."""

    principal_type: str = field()
    principal_name: str = field()


@struct
class DescribedDelegationToken:
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


@response(api_key=ApiKey.DESCRIBE_DELEGATION_TOKEN, versions="0-3", flexible="2+")
class DescribeDelegationTokenResponse:
    """The tokens of these users."""

    error_code: Int16 = field()
    tokens: list[DescribedDelegationToken] = field()
    throttle_time_ms: Int32 = field()
