"""DescribeUserScramCredentials (key 50), v0: which users may log in by SCRAM. None.

Behaviour
    There are no credentials (`api/absent_features.py` has why none can be set): a request for all users gets an empty response,
    and each user that is named is RESOURCE_NOT_FOUND. A user that is named twice is DUPLICATE_RESOURCE; in a request that is cut
    into pieces, only if one piece has both names.
Versions
    Only one.
Not done
    Logins.
Source: ScramImage.describe; KIP-554.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from pybroker.api.pieces import Pieces
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)

if TYPE_CHECKING:
    from pybroker.api.context import RequestContext, Services

PIECES: Final = Pieces(("users", "results"))


def handle(
    broker: Services,  # noqa: ARG001
    context: RequestContext,  # noqa: ARG001
    request: DescribeUserScramCredentialsRequest,
) -> DescribeUserScramCredentialsResponse:
    """Respond that no user has a credential."""
    counts = Counter(user.name for user in request.users or ())
    results = [_missing(name) if count == 1 else _repeated(name) for name, count in counts.items()]
    return DescribeUserScramCredentialsResponse(error_code=ErrorCode.NONE, error_message=None, results=results)


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
