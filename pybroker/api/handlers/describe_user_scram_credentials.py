"""DescribeUserScramCredentials (key 50), v0: the users that may log in by SCRAM, without their secrets.

Behaviour
    All users, or those that the request names; one that has no credential is RESOURCE_NOT_FOUND. A user that is named twice is
    DUPLICATE_RESOURCE; in a request that is cut into pieces, only if one piece has both names.
Versions
    Only one.
Not done
    Nothing.
Source: ScramImage.describe; KIP-554.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from pybroker.api.pieces import Pieces
from pybroker.metadata.scram_users import described, users
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages.describe_user_scram_credentials import (
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)

if TYPE_CHECKING:
    from pybroker.api.context import RequestContext, Services
    from pybroker.metadata.image import ClusterImage

PIECES: Final = Pieces(("users", "results"))


def handle(
    broker: Services,
    context: RequestContext,  # noqa: ARG001
    request: DescribeUserScramCredentialsRequest,
) -> DescribeUserScramCredentialsResponse:
    """Respond with the mechanisms and iterations of users."""
    image = broker.controller.image
    counts = Counter([user.name for user in request.users] if request.users else users(image))
    results = [_described(image, name) if count == 1 else _repeated(name) for name, count in counts.items()]
    return DescribeUserScramCredentialsResponse(error_code=ErrorCode.NONE, error_message=None, results=results)


def _described(image: ClusterImage, name: str) -> DescribeUserScramCredentialsResult:
    found = described(image, name)
    if not found:
        return _missing(name)
    infos = [CredentialInfo(mechanism=mechanism, iterations=iterations) for mechanism, iterations in found]
    return DescribeUserScramCredentialsResult(user=name, error_code=ErrorCode.NONE, error_message=None, credential_infos=infos)


def _missing(name: str) -> DescribeUserScramCredentialsResult:
    return DescribeUserScramCredentialsResult(
        user=name,
        error_code=ErrorCode.RESOURCE_NOT_FOUND,
        error_message=f"Attempt to describe a user credential that does not exist: {name}",
    )


def _repeated(name: str) -> DescribeUserScramCredentialsResult:
    return DescribeUserScramCredentialsResult(
        user=name,
        error_code=ErrorCode.DUPLICATE_RESOURCE,
        error_message=f"Cannot describe SCRAM credentials for the same user twice in a single request: {name}",
    )
