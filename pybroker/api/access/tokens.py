"""Checks requests about delegation tokens: those of others need permissions, one's own need none.

Source: KafkaApis.handleCreateTokenRequest, handleDescribeTokensRequest, DelegationTokenManager.filterToken; KIP-373.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pybroker.api.delegation_tokens import may_request, owner_of, refused
from pybroker.api.parts import then
from pybroker.metadata.delegation_tokens import token_of
from pybroker.protocol.error_codes import ErrorCode
from pybroker.security.acl.binding import AclOperation, ResourceType

if TYPE_CHECKING:
    from pybroker.api.access.need import Request
    from pybroker.protocol.messages.create_delegation_token import CreateDelegationTokenRequest
    from pybroker.protocol.messages.describe_delegation_token import DescribeDelegationTokenRequest


def create_delegation_token(request: Request, message: CreateDelegationTokenRequest) -> Any:
    """Create a token of the client itself, or of a user for whom it may create tokens."""
    context, owner = request.context, owner_of(request.context, message)
    is_own = owner == context.connection.principal
    if may_request(context) and not is_own and not request.asker.may(AclOperation.CREATE_TOKENS, ResourceType.USER, owner):
        return refused(context, message, ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED)
    return request.plain(message)


def describe_delegation_token(request: Request, message: DescribeDelegationTokenRequest) -> Any:
    """Describe the client's own tokens, and those that it may see."""
    principal, asker, image = request.context.connection.principal, request.asker, request.broker.controller.image

    def may_see(described: Any) -> bool:
        token = token_of(image, described.token_id)
        return token is not None and (
            principal in token.principals
            or asker.may(AclOperation.DESCRIBE, ResourceType.DELEGATION_TOKEN, token.token_id, logs=False)
            or asker.may(AclOperation.DESCRIBE_TOKENS, ResourceType.USER, token.owner, logs=False)
        )

    def seen(response: Any) -> Any:
        response.tokens = list(filter(may_see, response.tokens))
        return response

    return then(request.plain(message), seen)
