"""The TLS handshakes of one listener: bounded in time, and counted while they last. The loop's own TLS does them.

A connection in its handshake is no connection of the server yet, and counts as arriving (`Acceptor.arriving`), so it takes a
place under `max.connections`. When clients wait for a place, handshakes that have lasted for GRACE_MS are given up first,
the oldest first. So slow handshakes keep no client out that does its own in time.

Failures are one line for each kind, the first time and at each power of ten, because strangers cause as many as they like.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from pybroker.powers import is_power_of_ten
from pybroker.security.tls.contexts import ACCEPTED
from pybroker.security.tls.mapping_rules import NoRuleError

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

    from pybroker.network.context import ConnectionContext
    from pybroker.security.tls.listener import ListenerTls

logger = logging.getLogger(__name__)

HANDSHAKE_S: Final = 30.0
"""The time of a handshake, as the one in which librdkafka and Kafka's clients set a connection up."""
SHUTDOWN_S: Final = 5.0
"""How long the broker waits for the end of TLS from a peer whose connection it closes."""
GRACE_MS: Final = 1_000
_WORDS: Final = {
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": "the client has no certificate, and ssl.client.auth is required",
    "CERTIFICATE_VERIFY_FAILED": "the client's certificate is not accepted",
    "NO_SHARED_CIPHER": "the client has none of the cipher suites",
    "UNSUPPORTED_PROTOCOL": "the client has none of the versions in ssl.enabled.protocols",
    "WRONG_VERSION_NUMBER": "the client does not speak TLS",
    "HTTP_REQUEST": "the client speaks HTTP, not TLS",
    "UNEXPECTED_EOF_WHILE_READING": "the client ended it",
    "TLSV1_ALERT_UNKNOWN_CA": "the client does not trust the broker's certificate",
    "SSLV3_ALERT_CERTIFICATE_UNKNOWN": "the client does not accept the broker's certificate",
    "SSLV3_ALERT_BAD_CERTIFICATE": "the client does not accept the broker's certificate",
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": "the client finds the broker's certificate expired",
}


class Handshakes:
    """Sets up the accepted connections of one listener. A host may have as many handshakes as connections are left to it."""

    def __init__(self, name: str, tls: ListenerTls, left_of: Callable[[str], int]) -> None:
        """`left_of` returns how many more connections a host may have."""
        self._name, self._tls, self._left_of = name, tls, left_of
        self._per_ip: Counter[str] = Counter()
        self._begun: dict[asyncio.Task[None], float] = {}  # the oldest first
        self._failures: Counter[str] = Counter()

    async def set_up(self, connection: Callable[[], asyncio.BaseProtocol], accepted: socket.socket) -> None:
        """Do the handshake, and make the connection if it succeeds. Owns `accepted`."""
        loop, task, peer_host = asyncio.get_running_loop(), asyncio.current_task(), peer_of(accepted)
        assert task is not None
        if self._per_ip[peer_host] >= self._left_of(peer_host):
            accepted.close()
            self.failed(peer_host, "its host has max.connections.per.ip connections and handshakes")
            return
        self._per_ip[peer_host] += 1
        self._begun[task] = loop.time()
        ACCEPTED.set(accepted)
        try:
            await loop.connect_accepted_socket(
                connection,
                accepted,
                ssl=self._tls.context,
                ssl_handshake_timeout=HANDSHAKE_S,
                ssl_shutdown_timeout=SHUTDOWN_S,
            )
        except asyncio.CancelledError:
            self.failed(peer_host, "it lasted too long while other clients waited for a connection")
        except OSError as error:
            self.failed(peer_host, _words(error))
        finally:
            del self._begun[task]
            self._per_ip[peer_host] -= 1
            if not self._per_ip[peer_host]:
                del self._per_ip[peer_host]

    def identify(self, context: ConnectionContext, extra: Callable[[str], Any]) -> bool:
        """Note the principal of a client whose handshake is done. Returns False if it has none, and is not accepted."""
        if context.security_protocol != "SSL":  # else the client authenticates by SASL
            return True
        try:
            context.principal = self._tls.principal_of(extra("ssl_object"))
        except (ValueError, NoRuleError) as error:
            self._failures["no name"] += 1
            if is_power_of_ten(self._failures["no name"]):
                logger.info("Refusing a connection from %s at %s: %s", context.peer_host, self._name, error)
            return False
        return True

    def give_up(self, count: int) -> int:
        """End up to `count` handshakes that have lasted for GRACE_MS. Returns how many."""
        before = asyncio.get_running_loop().time() - GRACE_MS / 1000
        late = [task for task, begun in list(self._begun.items())[:count] if begun <= before]
        for task in late:
            task.cancel()
        return len(late)

    def close(self) -> None:
        """End all handshakes."""
        for task in self._begun:
            task.cancel()

    def failed(self, peer_host: str, reason: str) -> None:
        """Note a failure."""
        self._failures[reason] += 1
        count = self._failures[reason]
        level = logging.INFO if is_power_of_ten(count) else logging.DEBUG
        logger.log(level, "A TLS handshake of %s at %s failed: %s (%d such so far)", peer_host, self._name, reason, count)


def peer_of(accepted: socket.socket) -> str:
    """Return the host of an accepted socket's peer; the empty text if it has gone already."""
    try:
        return str(accepted.getpeername()[0]).removeprefix("::ffff:")
    except OSError:
        return ""


def _words(error: OSError) -> str:
    """Return what went wrong, without anything that the client chooses freely: each text has a line."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"{_WORDS['CERTIFICATE_VERIFY_FAILED']} ({error.verify_message})"
    if isinstance(error, ssl.SSLError):
        return _WORDS.get(error.reason or "", f"OpenSSL reports {error.reason or 'an error'}")
    if isinstance(error, ConnectionAbortedError):
        return f"it was not complete within {HANDSHAKE_S:.0f} s"
    return "the client ended it"
