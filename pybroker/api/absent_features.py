"""The APIs of features that pybroker does not have: each request gets the error by which a client learns that the feature is off.

Behaviour
    The codes and messages are those of a Kafka without a secret for delegation tokens, to a client that is not authenticated. An
    error is in each element of the response where it has elements, as `error_response` makes it.

Source: KafkaApis.allowTokenRequests; KIP-48.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple, NoReturn

from pybroker.protocol.api_keys import ApiKey
from pybroker.protocol.error_codes import ErrorCode, KafkaError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pybroker.api.context import RequestContext, Services


class AbsentFeature(NamedTuple):
    """The error that every request of an API gets. `purpose` and `not_done` are for docs/apis.md."""

    purpose: str
    not_done: str
    code: ErrorCode
    message: str | None = None

    def handle(self, broker: Services, context: RequestContext, request: object) -> NoReturn:
        """Refuse the request, as a handler does."""
        del broker, context, request
        raise KafkaError(self.code, self.message)


_TOKENS: Final = (
    "Delegation tokens: every request gets DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, as from a Kafka whose clients do not log in."
)
_NO_TOKENS: Final = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED

ABSENT_FEATURES: Final[Mapping[ApiKey, AbsentFeature]] = MappingProxyType({
    ApiKey.CREATE_DELEGATION_TOKEN: AbsentFeature("a token by which others log in as a user.", _TOKENS, _NO_TOKENS),
    ApiKey.RENEW_DELEGATION_TOKEN: AbsentFeature("let a token be valid for longer.", _TOKENS, _NO_TOKENS),
    ApiKey.EXPIRE_DELEGATION_TOKEN: AbsentFeature("let a token end.", _TOKENS, _NO_TOKENS),
    ApiKey.DESCRIBE_DELEGATION_TOKEN: AbsentFeature("the tokens of users.", _TOKENS, _NO_TOKENS),
})  # fmt: skip
"""By the key of the API."""
