"""Delegation tokens in the metadata store: created, changed and removed as Kafka's controller does it.

A token is a resource of the kind `token`, whose name is the token's id. Its values are the principals and the times. Nothing in
them follows from the secret key, so a reader of the store cannot log in by them.

Source: DelegationTokenControlManager, DelegationTokenData; KIP-900.
"""

from __future__ import annotations

import json
import logging
from hmac import compare_digest
from typing import TYPE_CHECKING, Final

from pybroker.failures import drop_frames
from pybroker.metadata.entries import encode_configs
from pybroker.metadata.image import ConfigResource
from pybroker.metadata.plan import Plan
from pybroker.protocol.error_codes import ErrorCode, KafkaError
from pybroker.security.tokens import Token, hmac_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pybroker.metadata.controller import Controller
    from pybroker.metadata.image import ClusterImage
    from pybroker.sharing.work import Pausing

logger = logging.getLogger(__name__)

TOKEN_KIND: Final = "token"  # noqa: S105  a kind
TOKENS_MAX: Final = 10_000
"""The number of tokens that one principal may have created. Kafka has no bound."""
BYTES_MAX: Final = 4_096
"""The size of a token's entry in bytes, which its renewers make large."""
_REMOVED_AT_ONCE: Final = 100


def token_of(image: ClusterImage, token_id: str) -> Token | None:
    """Return a token; None if there is none."""
    values = image.configs_of(TOKEN_KIND, token_id)
    if not values:
        return None
    try:
        return Token(
            token_id,
            values["owner"],
            values["requester"],
            tuple(map(str, json.loads(values["renewers"]))),
            int(values["issued_ms"]),
            int(values["max_ms"]),
            int(values["expires_ms"]),
        )
    except (ValueError, KeyError, TypeError) as error:
        logger.error("Delegation token %r cannot be read, so it is not valid: %r", token_id, error)  # noqa: TRY400  a value
        return None


def tokens(image: ClusterImage) -> Pausing[list[Token]]:
    """Return all tokens. It yields after each resource of the image."""
    found = []
    for kind, name in image.configs:
        if kind == TOKEN_KIND and (token := token_of(image, name)) is not None:
            found.append(token)
        yield
    return found


async def create_token(controller: Controller, token: Token) -> None:
    """Add a token. Raises KafkaError."""

    def planned() -> Pausing[Plan]:
        created = sum(one.requester == token.requester for one in (yield from tokens(controller.image)))
        if created >= TOKENS_MAX:
            reason = f"{token.requester} has {created} delegation tokens, and can have at most {TOKENS_MAX}"
            return Plan(errors=[KafkaError(ErrorCode.POLICY_VIOLATION, reason)])
        plan = Plan(errors=[None], notes=[f"Created delegation token {token.token_id} of {token.owner}, for {token.requester}"])
        plan.change_configs(controller.image, _resource(token), _values(token))
        return plan

    if (size := len(encode_configs(_values(token)))) > BYTES_MAX:
        reason = f"The owner and the renewers of a delegation token have {size} bytes, and can have at most {BYTES_MAX}"
        raise KafkaError(ErrorCode.POLICY_VIOLATION, reason)
    await _carry_out(controller, planned)


async def change_expiry(
    controller: Controller, secret_key: str, hmac: bytes, new_expiry: Callable[[Token], int | None]
) -> int | None:
    """Change when the token with this HMAC expires, to what `new_expiry` returns for it, and return that; None removes the token.

    Raises KafkaError: DELEGATION_TOKEN_NOT_FOUND, and those of `new_expiry`.
    """

    expires_ms: int | None = None

    def planned() -> Pausing[Plan]:
        nonlocal expires_ms
        image, found = controller.image, None
        for kind, name in image.configs:
            if kind == TOKEN_KIND and compare_digest(hmac_of(secret_key, name), hmac):
                found = token_of(image, name)
            yield
        try:
            if found is None:
                raise KafkaError(ErrorCode.DELEGATION_TOKEN_NOT_FOUND)
            expires_ms = new_expiry(found)
        except KafkaError as error:
            return Plan(errors=[drop_frames(error)])
        plan = Plan(errors=[None])
        if expires_ms is None:
            plan.change_configs(image, _resource(found), {})
            plan.notes.append(f"Removed delegation token {found.token_id} of {found.owner}")
        else:
            plan.change_configs(image, _resource(found), _values(found._replace(expires_ms=expires_ms)))
            plan.notes.append(f"Delegation token {found.token_id} of {found.owner} expires at {expires_ms}")
        return plan

    await _carry_out(controller, planned)
    return expires_ms


async def remove_expired(controller: Controller, now_ms: int) -> None:
    """Remove the tokens that are not valid any more. Raises KafkaError."""
    more = True

    def planned() -> Pausing[Plan]:
        nonlocal more
        plan = Plan(errors=[None])
        expired = [token for token in (yield from tokens(controller.image)) if token.is_expired(now_ms)]
        more = len(expired) > _REMOVED_AT_ONCE
        for token in expired[:_REMOVED_AT_ONCE]:
            plan.change_configs(controller.image, _resource(token), {})
            plan.notes.append(f"Removed delegation token {token.token_id} of {token.owner}, which has expired")
        return plan

    while more:
        await _carry_out(controller, planned)


async def _carry_out(controller: Controller, planned: Callable[[], Pausing[Plan]]) -> None:
    (error,) = await controller.carry_out(planned)
    if error is not None:
        raise error


def _resource(token: Token) -> ConfigResource:
    return ConfigResource(TOKEN_KIND, token.token_id)


def _values(token: Token) -> Mapping[str, str]:
    return {
        "owner": token.owner,
        "requester": token.requester,
        "renewers": json.dumps(token.renewers),
        "issued_ms": str(token.issued_ms),
        "max_ms": str(token.max_ms),
        "expires_ms": str(token.expires_ms),
    }
