"""The clients that may have delegation tokens, and the principals that their requests name: shared by the handlers.

Source: KafkaApis.allowTokenRequests, ControllerApis; KIP-48, KIP-373.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pybroker.protocol.error_codes import ErrorCode, KafkaError
from pybroker.protocol.messages.create_delegation_token import CreateDelegationTokenResponse
from pybroker.security import principal
from pybroker.security.tokens import secret_key_of

if TYPE_CHECKING:
    from pybroker.api.context import RequestContext, Services
    from pybroker.protocol.messages.create_delegation_token import CreateDelegationTokenRequest

NO_TIME: Final = -1
_REQUESTER_VERSION: Final = 3


def may_request(context: RequestContext) -> bool:
    """Return whether the client of a connection may ask about tokens: it has proved its identity, and not by a token."""
    connection = context.connection
    if connection.security_protocol == "PLAINTEXT" or connection.principal == principal.ANONYMOUS:
        return False
    return connection.login is None or not connection.login.is_by_token


def check_allowed(context: RequestContext) -> None:
    """Raise KafkaError if the client may not ask about tokens."""
    if not may_request(context):
        raise KafkaError(ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED)


def required_key(broker: Services, context: RequestContext) -> str:
    """Return the secret key. Raises KafkaError if the client may not ask about tokens, and where there is no key."""
    check_allowed(context)
    secret_key = secret_key_of(broker.config)
    if secret_key is None:
        raise KafkaError(ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED)
    return secret_key


def owner_of(context: RequestContext, request: CreateDelegationTokenRequest) -> str:
    """Return the principal of the token to create: the client itself, unless the request names another one."""
    if not request.owner_principal_name:
        return context.connection.principal
    return f"{request.owner_principal_type or ''}{principal.SEPARATOR}{request.owner_principal_name}"


def requester_fields(context: RequestContext, requester: str) -> dict[str, Any]:
    """Return the fields with the requester of a token, which requests before v3 do not have."""
    if context.api_version < _REQUESTER_VERSION:
        return {}
    requester_type, _, name = requester.partition(principal.SEPARATOR)
    return {"token_requester_principal_type": requester_type, "token_requester_principal_name": name}


def refused(context: RequestContext, request: CreateDelegationTokenRequest, code: ErrorCode) -> CreateDelegationTokenResponse:
    """Return the response to a token that is not created."""
    owner_type, _, owner = owner_of(context, request).partition(principal.SEPARATOR)
    return CreateDelegationTokenResponse(
        error_code=code,
        principal_type=owner_type,
        principal_name=owner,
        **requester_fields(context, context.connection.principal),
        issue_timestamp_ms=NO_TIME,
        expiry_timestamp_ms=NO_TIME,
        max_timestamp_ms=NO_TIME,
    )
