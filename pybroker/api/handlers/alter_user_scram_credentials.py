"""AlterUserScramCredentials (key 51), v0: set and remove credentials for logins by SCRAM.

Behaviour
    All valid changes are one commit, and are in force on every broker. Each user has one result. UNACCEPTABLE_CREDENTIAL for a
    user without a name, and for iterations outside of 4,096 to 16,384; UNSUPPORTED_SASL_MECHANISM for an unknown mechanism;
    RESOURCE_NOT_FOUND for a credential to delete that does not exist. A user that the request changes twice is
    DUPLICATE_RESOURCE, whatever the mechanisms are.
Versions
    Only one.
Not done
    Nothing.
Source: ScramControlManager.alterCredentials; KIP-554.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pybroker.metadata.scram_users import CHANGES_MAX, Alteration, plan_alterations
from pybroker.protocol.error_codes import ErrorCode, KafkaError
from pybroker.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
)

if TYPE_CHECKING:
    from pybroker.api.context import RequestContext, Services


async def handle(
    broker: Services,
    context: RequestContext,  # noqa: ARG001
    request: AlterUserScramCredentialsRequest,
) -> AlterUserScramCredentialsResponse:
    """Let the controller change the credentials, and respond when the change is durable."""
    alterations = [Alteration(one.name, one.mechanism) for one in request.deletions]
    alterations += [
        Alteration(one.name, one.mechanism, one.iterations, bytes(one.salt), bytes(one.salted_password))
        for one in request.upsertions
    ]
    if len(alterations) > CHANGES_MAX:
        raise KafkaError(ErrorCode.POLICY_VIOLATION, f"A request can change at most {CHANGES_MAX} credentials.")
    controller = broker.controller
    errors = await controller.carry_out(lambda: plan_alterations(controller.image, alterations))
    by_user: dict[str, KafkaError | None] = {}
    for one, error in zip(alterations, errors, strict=True):
        by_user[one.user] = by_user.get(one.user) or error
    return AlterUserScramCredentialsResponse(results=[_result(user, error) for user, error in by_user.items()])


def _result(user: str, error: KafkaError | None) -> AlterUserScramCredentialsResult:
    code, message = (ErrorCode.NONE, None) if error is None else (error.code, error.message)
    return AlterUserScramCredentialsResult(user=user, error_code=code, error_message=message)
