"""Connects to one broker of a bootstrap list, and waits for it."""

from __future__ import annotations

import socket
import sys
import time

from pybroker.client.address import parse_address
from pybroker.client.errors import ClientError, LoginError, reason_of
from pybroker.client.frames import Frames
from pybroker.tools.errors import CommandError

TYPE_CHECKING = False  # `typing` is slow to import
if TYPE_CHECKING:
    from pybroker.client.security import Security

API_VERSIONS = 18
CLIENT_ID = "pybroker-commands"
WAIT_S = 60.0
"""How long a command tries to reach a broker: `default.api.timeout.ms` of Kafka's clients, on which init containers rely."""
RESPONSE_S = 30.0
BACKOFF_S, BACKOFF_MAX_S = 0.1, 1.0


def servers(text: str) -> list[tuple[str, int]]:
    """Parse a bootstrap list: `host:port`, `[::1]:port`, with or without a protocol before it. Raises CommandError."""
    found = []
    for one in filter(None, (part.strip() for part in text.split(","))):
        try:
            found.append(parse_address(one.rpartition("://")[2]))
        except ValueError:
            raise CommandError(f"Invalid url in bootstrap.servers: {one}") from None
    if not found:
        raise CommandError("No resolvable bootstrap urls given in bootstrap.servers")
    return found


def connect(
    bootstrap: list[tuple[str, int]],
    *,
    wait_s: float = WAIT_S,
    response_s: float = RESPONSE_S,
    security: Security | None = None,
) -> Frames:
    """Return a connection to the first server that responds, trying again until `wait_s` is over.

    A container's published port takes connections before the broker does, so a connection counts only when the broker has
    responded to a request. A name that does not resolve yet is waited for too, because a container's name resolves only once it
    runs. One line on stderr reports that the command waits, and for what. Raises ClientError, and CommandError when no name
    resolves, or when the client may not log in.
    """
    end = time.monotonic() + wait_s
    backoff_s = BACKOFF_S
    attempt_s = response_s
    is_logged = False
    while True:
        reasons = []
        is_resolved = False
        for host, port in bootstrap:
            try:
                return _greeted(host, port, attempt_s=attempt_s, response_s=response_s, security=security)
            except socket.gaierror as error:
                reasons.append(f"{host}:{port}: {reason_of(error)}")
            except LoginError as error:
                raise CommandError(f"{host}:{port}: {error}") from error
            except (OSError, ClientError) as error:
                is_resolved = True
                reasons.append(f"{host}:{port}: {reason_of(error)}")
        left_s = end - time.monotonic()
        if left_s <= 0 and not is_resolved:
            raise CommandError(f"No resolvable bootstrap urls given in bootstrap.servers: {'; '.join(reasons)}")
        if left_s <= 0:
            raise ClientError("; ".join(reasons))
        if not is_logged:
            is_logged = True
            print(f"WARN no broker is available yet ({'; '.join(reasons)}); trying for {wait_s:g} s", file=sys.stderr)
        time.sleep(min(backoff_s, left_s))
        backoff_s = min(2 * backoff_s, BACKOFF_MAX_S)
        attempt_s = min(response_s, max(BACKOFF_MAX_S, left_s))


def _greeted(host: str, port: int, *, attempt_s: float, response_s: float, security: Security | None) -> Frames:
    """Return a connection that has responded to ApiVersions v0, after a login if there is one. Raises OSError and ClientError."""
    connected = socket.create_connection((_encoded(host), port), attempt_s)  # type: ignore[arg-type]  # bytes do
    if security is not None:
        connected = security.over(connected, host)
    connection = Frames(connected, address=f"{host}:{port}", client_id=CLIENT_ID)
    try:
        if security is None or not _logged_in(connection, security):
            connection.ask(API_VERSIONS, version=0)
    except ClientError:
        connection.close()
        raise
    connected.settimeout(response_s)
    return connection


def _logged_in(connection: Frames, security: Security) -> bool:
    from pybroker.client.connection import Connection

    return security.log_in(Connection(connection))


def _encoded(host: str) -> bytes | str:
    """Return bytes for a name that is ASCII, because the look-up of a text first imports the codec for international names."""
    return host.encode() if host.isascii() else host
