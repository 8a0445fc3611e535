"""A row of the table of what APIs need."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pybroker.api.access.asker import ERRORS
from pybroker.api.parts import plain
from pybroker.security.acl.binding import CLUSTER_NAME, AclOperation, ResourceType

if TYPE_CHECKING:
    from collections.abc import Callable

    from pybroker.api.access.asker import Asker
    from pybroker.api.context import RequestContext, Services
    from pybroker.api.registry import Api
    from pybroker.protocol.error_codes import ErrorCode


@dataclass(frozen=True, slots=True)
class Need:
    """A permission that an API needs.

    Attributes:
        name: the field of the request, or of its elements, that has the resource's name; CLUSTER_NAME for the cluster.
        of: the list of the request whose elements are checked, each on its own; empty: the request is refused as a whole.
        into: the list of the response with their results.
        instead: a permission that also suffices.
        hides: what is not allowed is left out, and is no error.
        when: the case in which this is needed, for people; empty: always.
        code: the error, where it is not that of the resource's type.
    """

    operation: AclOperation
    resource_type: ResourceType
    name: str = CLUSTER_NAME
    of: str = ""
    into: str = ""
    instead: Need | None = None
    hides: bool = False
    when: str = ""
    code: ErrorCode | None = None

    @property
    def error(self) -> ErrorCode:
        """The error of a client that is not allowed."""
        return ERRORS[self.resource_type] if self.code is None else self.code


@dataclass(slots=True)
class Request:
    """A request on its way to the handler."""

    api: Api
    broker: Services
    context: RequestContext
    asker: Asker

    def plain(self, message: Any) -> Any:
        """Handle a request of this API without checks, in pieces if it is large."""
        return plain(self.api, self.broker, self.context, message)


@dataclass(frozen=True, slots=True)
class Access:
    """All that an API needs. `handle` is the API's own way to check it, where the general one does not do.

    The general way knows needs of the whole request, and then one of the elements of one list.
    """

    needs: tuple[Need, ...] = ()
    handle: Callable[[Request, Any], Any] | None = None
