"""The security of a client by its properties: TLS over its sockets, and the login of its connections.

security.protocol    PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL
ssl.*                as those of a listener
sasl.*               `client_login` has them
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pybroker.client.errors import LoginError
from pybroker.config.listeners import has_logins, has_tls
from pybroker.config.server_settings import SECURITY_PROTOCOLS
from pybroker.config.setting import ConfigError
from pybroker.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    import socket
    from collections.abc import Mapping
    from ssl import SSLContext

    from pybroker.client.connection import Connection
    from pybroker.security.sasl.client_login import ClientLogin

PROTOCOL = "security.protocol"


class Security:
    """How the connections of a client are secured."""

    __slots__ = ("_login", "_tls")

    def __init__(self, tls: SSLContext | None, login: ClientLogin | None) -> None:
        self._tls, self._login = tls, login

    def over(self, connected: socket.socket, host: str) -> socket.socket:
        """Return a socket with TLS over a connected one, if there is TLS; the certificate must have the host. Raises OSError."""
        return connected if self._tls is None else self._tls.wrap_socket(connected, server_hostname=host)

    def log_in(self, connection: Connection) -> bool:
        """Log in on a new connection, and return whether there is a login. Raises ClientError.

        It asks which versions the broker serves, unless the connection knows them: Apache Kafka closes a connection that asks
        twice before its login.
        """
        if self._login is None:
            return False
        from pybroker.security.sasl.exchange import SaslError  # noqa: PLC0415  only for a login

        if not connection.versions and (code := connection.ask_versions(0)) != ErrorCode.NONE:
            raise LoginError(f"ApiVersions has the error code {code}")
        requests = self._login.requests()
        try:
            request = next(requests)
            while True:
                request = requests.send(connection.call(request))
        except StopIteration:
            return True
        except SaslError as error:
            raise LoginError(str(error)) from error


def security_of(properties: Mapping[str, str]) -> Security | None:
    """Return the security of a client with these properties; None with PLAINTEXT. Raises ConfigError."""
    protocol = properties.get(PROTOCOL, "PLAINTEXT").upper()
    if protocol not in SECURITY_PROTOCOLS:
        raise ConfigError(PROTOCOL, protocol, f"must be one of {', '.join(SECURITY_PROTOCOLS)}")
    tls = login = None
    if has_tls(protocol):
        from pybroker.security.tls.contexts import client_context  # noqa: PLC0415  only with TLS
        from pybroker.security.tls.settings import settings_of_client  # noqa: PLC0415

        tls = client_context(settings_of_client(properties))
    if has_logins(protocol):
        from pybroker.security.sasl.client_login import login_of_client  # noqa: PLC0415  only for a login

        login = login_of_client(properties)
    return Security(tls, login) if tls is not None or login is not None else None
