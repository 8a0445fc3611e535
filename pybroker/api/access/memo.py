"""Kept responses of a broker with an authorizer: each is for one principal at one host.

ACLs are part of the image, so a change of ACLs drops what was kept. A response with a refusal is not kept: each refusal is a
line of the audit log. While permissions are logged, too, nothing is found.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pybroker.api.response_memo import ResponseMemo
from pybroker.protocol.error_codes import ErrorCode
from pybroker.security.acl.authorizer import logs_permissions

if TYPE_CHECKING:
    from pybroker.api.response_memo import KeptResponse
    from pybroker.metadata.image import ClusterImage
    from pybroker.network.context import ConnectionContext


class PrincipalMemo(ResponseMemo):
    """The responses of one API about one image, to each principal."""

    __slots__ = ()

    @staticmethod
    def key(connection: ConnectionContext, version: int, body: memoryview) -> Any:
        """Return everything that a response follows from, except the image. `body` is borrowed."""
        listener = f"{connection.principal}\0{connection.peer_host}\0{connection.listener_name}"
        return version, listener, connection.advertised_host, connection.advertised_port, body.tobytes()

    def find(self, image: ClusterImage, key: Any) -> KeptResponse | None:
        """Return the response that was kept for `key` about `image`."""
        found = super().find(image, key)
        return None if logs_permissions() else found

    def keep(self, image: ClusterImage, key: Any, response: KeptResponse) -> None:
        """Keep a response about `image` that refuses nothing."""
        if ErrorCode.TOPIC_AUTHORIZATION_FAILED not in response.error_codes:
            super().keep(image, key, response)
