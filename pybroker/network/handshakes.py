"""The TLS handshakes of one listener: bounded in time and in memory, and counted while they last.

A connection in its handshake is no connection of the server yet, and counts as arriving (`Acceptor.arriving`), so it takes a
place under `max.connections`. Its memory is counted in the pool of requests, of which the handshakes of a listener take at most
a part; beyond that, clients wait to be accepted. When clients wait, handshakes that have lasted for GRACE_MS are given up first,
the oldest first. So slow handshakes keep no client out that does its own in time.

A failure is one line, within the bounds of FailureLog. That a client ended its handshake without a reason is a line only the
first time and at each power of ten, because checks that a port is open do so.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Final

from pybroker.network.tls_transport import SLICE_BYTES, TlsTransport
from pybroker.powers import is_power_of_ten
from pybroker.security.tls.mapping_rules import NoRuleError
from pybroker.sharing.turns.watchdog import watchdog_of

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

    from pybroker.network.context import ConnectionContext
    from pybroker.network.memory_pool import MemoryPool
    from pybroker.security.failures import FailureLog
    from pybroker.security.tls.listener import ListenerTls

logger = logging.getLogger(__name__)

HANDSHAKE_S: Final = 30.0
"""The time of a handshake, as the one in which librdkafka and Kafka's clients set a connection up."""
GRACE_MS: Final = 1_000
HANDSHAKE_BYTES: Final = 64 * 1024
"""The most that a handshake takes: OpenSSL's state, the messages of both sides, and the objects around them."""
POOL_DIVISOR: Final = 4
"""The handshakes of a listener take at most the pool divided by this, but HANDSHAKES_MIN may always be under way."""
HANDSHAKES_MIN: Final = 4
_ENDED: Final = "the client ended it"
_WORDS: Final = {
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": "the client has no certificate, and ssl.client.auth is required",
    "CERTIFICATE_VERIFY_FAILED": "the client's certificate is not accepted",
    "NO_SHARED_CIPHER": "the client has none of the cipher suites",
    "UNSUPPORTED_PROTOCOL": "the client has none of the versions in ssl.enabled.protocols",
    "WRONG_VERSION_NUMBER": "the client does not speak TLS",
    "HTTP_REQUEST": "the client speaks HTTP, not TLS",
    "UNEXPECTED_EOF_WHILE_READING": _ENDED,
    "TLSV1_ALERT_UNKNOWN_CA": "the client does not trust the broker's certificate",
    "SSLV3_ALERT_CERTIFICATE_UNKNOWN": "the client does not accept the broker's certificate",
    "SSLV3_ALERT_BAD_CERTIFICATE": "the client does not accept the broker's certificate",
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": "the client finds the broker's certificate expired",
}


class Handshakes:
    """Sets up the accepted connections of one listener. A host may have as many handshakes as connections are left to it.

    Attributes:
        completed, failed: the number of clients that were let in by TLS alone, and of those whose TLS was refused.
    """

    def __init__(
        self, name: str, tls: ListenerTls, *, pool: MemoryPool, left_of: Callable[[str], int], failures: FailureLog
    ) -> None:
        """`left_of` returns how many more connections a host may have."""
        self._name, self._tls, self._pool, self._left_of, self._log = name, tls, pool, left_of, failures
        self._max = max(pool.size // POOL_DIVISOR // HANDSHAKE_BYTES, HANDSHAKES_MIN)
        self._scratch = memoryview(bytearray(SLICE_BYTES))
        self._steps = ThreadPoolExecutor(1, f"handshake-{name}")
        self._steps.submit(int)  # starts the thread, for which the loop would have to wait
        self.completed = self.failed = self._ended = 0
        self._per_ip: Counter[str] = Counter()
        self._begun: dict[asyncio.Task[None], float] = {}  # the oldest first

    async def set_up(self, connection: Callable[[], asyncio.BaseProtocol], accepted: socket.socket) -> None:
        """Do the handshake, and make the connection if it succeeds. Owns `accepted`."""
        loop, task, peer_host = asyncio.get_running_loop(), asyncio.current_task(), peer_of(accepted)
        assert task is not None
        if self._per_ip[peer_host] >= self._left_of(peer_host):
            accepted.close()
            self._fail(peer_host, "its host has max.connections.per.ip connections and handshakes")
            return
        self._per_ip[peer_host] += 1
        self._begun[task] = loop.time()
        turns = watchdog_of(loop).watch
        tls = TlsTransport(self._tls.context, connection, scratch=self._scratch, steps=self._steps, turns=turns)
        self._pool.count(HANDSHAKE_BYTES)
        try:
            async with asyncio.timeout(HANDSHAKE_S):
                await loop.connect_accepted_socket([tls].pop, accepted)
                await tls.established
        except asyncio.CancelledError:
            self._fail(peer_host, "it lasted too long while other clients waited for a connection")
        except OSError as error:
            self._fail(peer_host, _words(error))
        finally:
            if tls.established.cancelled():
                tls.abort()
            self._pool.uncount(HANDSHAKE_BYTES)
            del self._begun[task]
            self._per_ip[peer_host] -= 1
            if not self._per_ip[peer_host]:
                del self._per_ip[peer_host]
            del tls  # an error refers to this frame, and `tls` to the error: the cycle would keep what OpenSSL has allocated

    @property
    def room(self) -> int:
        """How many more may begin."""
        return self._max - len(self._begun)

    def identify(self, context: ConnectionContext, extra: Callable[[str], Any]) -> bool:
        """Note the principal of a client whose handshake is done. Returns False if it has none, and is not accepted."""
        if context.security_protocol != "SSL":  # else the client authenticates by SASL
            return True
        try:
            context.principal = self._tls.principal_of(extra("ssl_object"))
        except (ValueError, NoRuleError) as error:
            self._fail(context.peer_host, str(error))
            return False
        self.completed += 1
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
        self._steps.shutdown(wait=False, cancel_futures=True)

    def _fail(self, peer_host: str, reason: str) -> None:
        text = f"A TLS handshake of {peer_host} at {self._name} failed: {reason}"
        if reason != _ENDED:
            self.failed += 1
            self._log.add(peer_host, text)
            return
        self._ended += 1
        if is_power_of_ten(self._ended):
            logger.info("%s (%d such so far)", text, self._ended)


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
    if isinstance(error, TimeoutError):
        return f"it was not complete within {HANDSHAKE_S:.0f} s"
    return _ENDED
