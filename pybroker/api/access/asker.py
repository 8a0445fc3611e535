"""One request's questions to the authorizer. Each decision about the request is one line of the audit log."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pybroker.protocol.error_codes import ErrorCode, KafkaError
from pybroker.security.acl.authorizer import logs_permissions
from pybroker.security.acl.binding import CLUSTER_NAME, AclOperation, ResourceType

if TYPE_CHECKING:
    from collections.abc import Collection

    from pybroker.api.context import RequestContext
    from pybroker.security.acl.authorizer import Authorizer


TOPIC_OPERATIONS: Final = tuple(map(AclOperation, (3, 4, 5, 6, 7, 8, 10, 11)))
GROUP_OPERATIONS: Final = tuple(map(AclOperation, (3, 6, 8, 10, 11)))
CLUSTER_OPERATIONS: Final = tuple(map(AclOperation, (5, 7, 8, 9, 10, 11, 12)))
"""The operations that there are, by the type of the resource; `nodes.py` has them as bits."""

ERRORS: Final = {
    ResourceType.TOPIC: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ResourceType.GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ResourceType.CLUSTER: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ResourceType.TRANSACTIONAL_ID: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    ResourceType.DELEGATION_TOKEN: ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
    ResourceType.USER: ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
}
"""The error of a client that may not do what it has asked for, by the type of the resource."""

_SUPPORTED: Final = {
    ResourceType.TOPIC: TOPIC_OPERATIONS,
    ResourceType.GROUP: GROUP_OPERATIONS,
    ResourceType.CLUSTER: CLUSTER_OPERATIONS,
}


class Asker:
    """The client of a request, in front of the authorizer."""

    __slots__ = ("_api_name", "_authorizer", "_host", "_logged", "_logs_allowed", "_principal")

    def __init__(self, authorizer: Authorizer, context: RequestContext, api_name: str) -> None:
        connection = context.connection
        self._authorizer = authorizer
        self._principal = connection.principal
        self._host = connection.peer_host
        self._api_name = api_name
        self._logs_allowed = logs_permissions()
        self._logged: set[tuple[AclOperation, ResourceType, str]] | None = None

    def may(
        self, operation: AclOperation, resource_type: ResourceType, name: str = CLUSTER_NAME, *, logs: bool = True, count: int = 1
    ) -> bool:
        """Return whether the client may do an operation on a resource, which the request names `count` times.

        Without `logs` a denial writes no line: something else may allow the request, or only a list is filtered.
        """
        is_allowed = self._authorizer.allows(self._principal, self._host, operation, resource_type, name)
        if self._logs_allowed if is_allowed else logs:
            self._log(operation, resource_type, name, is_allowed=is_allowed, count=count)
        return is_allowed

    def refusal(self, operation: AclOperation, resource_type: ResourceType, name: str = CLUSTER_NAME) -> ErrorCode | None:
        """Return the error of a client that may not do an operation on a resource; None if it may."""
        return None if self.may(operation, resource_type, name) else ERRORS[resource_type]

    def require(self, operation: AclOperation, resource_type: ResourceType, name: str = CLUSTER_NAME) -> None:
        """Raise KafkaError if the client may not do an operation on a resource."""
        if (code := self.refusal(operation, resource_type, name)) is not None:
            raise KafkaError(code)

    def may_any(self, operation: AclOperation, resource_type: ResourceType) -> bool:
        """Return whether the client may do an operation on some resource of a type."""
        return self._authorizer.allows_any(self._principal, self._host, operation, resource_type)

    def operations(self, resource_type: ResourceType, name: str = CLUSTER_NAME) -> int:
        """Return the operations that the client may do on a resource, as bits (KIP-430)."""
        supported: Collection[AclOperation] = _SUPPORTED[resource_type]
        return self._authorizer.operations(self._principal, self._host, resource_type, name, supported)

    def _log(self, operation: AclOperation, resource_type: ResourceType, name: str, *, is_allowed: bool, count: int) -> None:
        what = (operation, resource_type, name)
        if self._logged is None:
            self._logged = set()
        if what not in self._logged:
            self._logged.add(what)
            key = (self._principal, self._host, *what)
            self._authorizer.log(key, is_allowed=is_allowed, request=self._api_name, count=count)
