# cython: annotation_typing=False
"""The values that are kept of a request for those that are like it, in Python; `_repeats_native` is this text, compiled with the
types of `_repeats_native.pxd`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pybroker.api.context import RequestContext, Services
    from pybroker.protocol.forms import RequestForm

__all__ = ["Repeated"]


class Repeated:
    """The values that an API's handler keeps of a request, so that it handles those of the same form without decoding them.

    Attributes:
        form: finds these requests.
        version, client_id: those of the requests.
        route: set by the dispatcher, for itself.
        uses: the number of requests that were handled so.
    """

    __slots__ = ("client_id", "form", "route", "uses", "version")

    def __init__(self, form: RequestForm, context: RequestContext) -> None:
        self.form = form
        self.version = context.api_version
        self.client_id = context.client_id
        self.route: Any = None
        self.uses = 0

    def handle(self, broker: Services, records: memoryview) -> Any:
        """Return the response to the request that `form` found last, as a handler does; `records` are what it found.

        Returns None, with nothing done, for a request that must be decoded after all.
        """
        raise NotImplementedError

    def forget_records(self, request: Any) -> None:
        """Let go of the records of a decoded request, which are views into its bytes: it may have to wait without them."""
        raise NotImplementedError
