"""DescribeDelegationToken (key 41), v0-3: the tokens of users.

Behaviour
    The tokens of which an owner in the request is the owner, the requester or a renewer; null means all tokens, and no owners
    none. With their HMACs, as in Kafka: a client that may see a token may use it. A client that may have no tokens gets the
    errors of CreateDelegationToken. Tokens that have expired are in the response until they are removed.
Versions
    v2 flexible. v3 the requester (KIP-373).
Not done
    Nothing.
Source: KafkaApis.handleDescribeTokensRequest, DelegationTokenManager.filterToken; KIP-48.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pybroker.api.delegation_tokens import requester_fields, required_key
from pybroker.metadata.delegation_tokens import tokens
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages.describe_delegation_token import (
    DescribedDelegationToken,
    DescribedDelegationTokenRenewer,
    DescribeDelegationTokenResponse,
)
from pybroker.security import principal
from pybroker.security.tokens import hmac_of
from pybroker.sharing.loop import in_slices

if TYPE_CHECKING:
    from asyncio import Future
    from collections.abc import Collection

    from pybroker.api.context import RequestContext, Services
    from pybroker.metadata.image import ClusterImage
    from pybroker.protocol.messages.describe_delegation_token import DescribeDelegationTokenRequest
    from pybroker.security.tokens import Token
    from pybroker.sharing.work import Pausing


def handle(
    broker: Services, context: RequestContext, request: DescribeDelegationTokenRequest
) -> DescribeDelegationTokenResponse | Future[DescribeDelegationTokenResponse]:
    """Respond from the image of the cluster."""
    secret_key, owners = required_key(broker, context), request.owners
    names = None if owners is None else {f"{one.principal_type}:{one.principal_name}" for one in owners}
    return in_slices(_describe(broker.controller.image, context, names, secret_key))


def _describe(
    image: ClusterImage, context: RequestContext, owners: Collection[str] | None, secret_key: str
) -> Pausing[DescribeDelegationTokenResponse]:
    found = []
    for token in (yield from tokens(image)) if owners is None or owners else ():
        if owners is None or not token.principals.isdisjoint(owners):
            found.append(_described(context, token, hmac_of(secret_key, token.token_id)))
        yield
    return DescribeDelegationTokenResponse(error_code=ErrorCode.NONE, tokens=found)


def _described(context: RequestContext, token: Token, hmac: bytes) -> DescribedDelegationToken:
    owner_type, owner = principal.parse(token.owner)
    return DescribedDelegationToken(
        principal_type=owner_type,
        principal_name=owner,
        **requester_fields(context, token.requester),
        issue_timestamp=token.issued_ms,
        expiry_timestamp=token.expires_ms,
        max_timestamp=token.max_ms,
        token_id=token.token_id,
        hmac=hmac,
        renewers=[
            DescribedDelegationTokenRenewer(principal_type=kind, principal_name=name)
            for kind, name in map(principal.parse, token.renewers)
        ],
    )
