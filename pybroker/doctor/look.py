"""Looks at one address: whether its name resolves, whether it connects, and what responds there."""

from __future__ import annotations

import errno
import queue
import socket
import threading
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from pybroker.client.connection import Connection
from pybroker.client.errors import ClientError, ClosedError, LoginError, SilentError, reason_of
from pybroker.client.frames import DAMAGE, Frames, Reader
from pybroker.doctor.advice import attempt, outcome
from pybroker.doctor.findings import Broker, BrokerResponse, Failure, Instead, Look, Software
from pybroker.doctor.health import partitions_of
from pybroker.model import BrokerId
from pybroker.protocol.api_keys import ApiKey
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from pybroker.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pybroker.client.security import Security
    from pybroker.doctor.examine import Report

_BROKER_RESOURCE: Final = 4
_OURS: Final = "metadata.store"
_BY_PEER: Final = "pybroker.advertised.by.peer"
_ADVERTISED: Final = "advertised.listeners"
_KAFKAS: Final = "num.io.threads"
_NODES_MAX: Final = 100  # how many nodes are asked for: the broker at hand is most often among the first
_CLIENT_ID: Final = "pybroker-doctor"
_FRAME_BYTES_MAX: Final = 100 << 20  # the first bytes of an alert of TLS, read as a size, are more
_SASL_HANDSHAKE: Final = 17
_ANY_MECHANISM: Final = b"\0\5PLAIN"
_MECHANISMS_MAX: Final = 100
_TLS_ALERT: Final = b"\x15\x03"
_HTTP: Final = b"HTTP"


@dataclass(slots=True, frozen=True)
class _Connected:
    """A connected socket, how to connect another one, and the function that reports each step."""

    socket: socket.socket
    address: tuple[str, int]
    timeout_s: float
    report: Report


def look(host: str, port: int, report: Report, timeout_s: float, security: Security | None = None) -> Look:
    """Look what is at host:port, and report it step by step. Blocks; each step takes at most `timeout_s`."""
    found = Look(host, port)
    try:
        addresses = list(dict.fromkeys(_addresses(host, port=port, timeout_s=timeout_s)))
    except (OSError, UnicodeError) as error:
        found.unresolved = (error.strerror if isinstance(error, OSError) else None) or str(error)
        report(f"does not resolve on this machine: {found.unresolved}")
        return found
    first: _Connected | None = None
    for address in addresses:
        try:
            connected = socket.create_connection(address, timeout_s)
        except OSError as error:
            failure = failure_of(error)
            found.attempts.append((address[0], failure))
            report(attempt(address[0], failure))
            continue
        found.attempts.append((address[0], None))
        report(attempt(address[0], None))
        if first is None:
            first = _Connected(connected, address, timeout_s, report)
        else:
            connected.close()
    if first is not None:
        with first.socket:
            _converse_securely(found, first, security)
        for line in outcome(found):
            report(line)
    return found


def failure_of(error: OSError) -> Failure:
    """Return why an attempt to connect failed."""
    if isinstance(error, TimeoutError) or error.errno == errno.ETIMEDOUT:
        return Failure.TIMEOUT
    return Failure.REFUSED if error.errno == errno.ECONNREFUSED else Failure.UNREACHABLE


def instead_of(error: ClientError) -> Instead:
    """Return what is there, judging by what came instead of a response."""
    if error.received.startswith(_TLS_ALERT):
        return Instead.TLS
    if error.received.startswith(_HTTP):
        return Instead.HTTP
    if isinstance(error, SilentError):
        return Instead.SILENT
    return Instead.CLOSED if isinstance(error, ClosedError) and not error.received else Instead.OTHER


def _addresses(host: str, *, port: int, timeout_s: float) -> list[tuple[str, int]]:
    """Look up the name, in a thread: the system's own limit is many times as long. Raises OSError, UnicodeError."""
    results: queue.SimpleQueue[list[tuple[str, int]] | OSError | UnicodeError] = queue.SimpleQueue()

    def resolve() -> None:
        try:
            found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as error:
            results.put(error)
        else:
            results.put([(str(address[0]), port) for *_, address in found])

    threading.Thread(target=resolve, daemon=True).start()
    try:
        result = results.get(timeout=timeout_s)
    except queue.Empty:
        raise TimeoutError(errno.ETIMEDOUT, f"the name service did not respond in {timeout_s:g} s") from None
    if isinstance(result, list):
        return result
    raise result


def _frames(connected: socket.socket, at: _Connected) -> Frames:
    host, port = at.address
    return Frames(
        connected, address=f"{host}:{port}", client_id=_CLIENT_ID, response_s=at.timeout_s, frame_bytes_max=_FRAME_BYTES_MAX
    )


def _converse_securely(found: Look, at: _Connected, security: Security | None) -> None:
    if security is None:
        _converse(found, at)
        return
    try:
        with security.over(at.socket, found.host) as connected:
            _converse(found, replace(at, socket=connected), security)
    except OSError as error:  # ssl's are such errors
        found.refusal = f"the TLS handshake failed: {getattr(error, 'verify_message', '') or reason_of(error)}"


def _converse(found: Look, at: _Connected, security: Security | None = None) -> None:
    frames = _frames(at.socket, at)
    connection = Connection(frames)
    at.report("asking which APIs it serves")
    try:
        connection.ask_versions(0)  # every broker since 0.10 knows this version
    except ClientError as error:
        found.instead = instead_of(error)
        if found.instead in (Instead.CLOSED, Instead.SILENT, Instead.OTHER):
            found.instead = _probe(at, _what_came(error, at)) or found.instead
        return
    try:
        if security is not None:
            at.report("TLS and login as the client's properties have them")
            security.log_in(connection)
        found.response = _response(connection)
    except LoginError as error:
        found.refusal = str(error)
    except ClientError as error:
        at.report(f"{_what_came(error, at)} to Metadata; asking whether it wants a login")
        found.mechanisms = _mechanisms(at)
        found.instead = Instead.LOGIN if found.mechanisms else instead_of(error)


def _what_came(error: ClientError, at: _Connected) -> str:
    if isinstance(error, SilentError):
        return f"no response in {at.timeout_s:g} s"
    return "no response" if isinstance(error, ClosedError) else "no response of Kafka's protocol"


def _response(connection: Connection) -> BrokerResponse | None:
    topics: list[MetadataRequestTopic] | None = None if connection.version_of(ApiKey.METADATA) else []  # v0 has another "all"
    metadata = connection.call(MetadataRequest(topics=topics, allow_auto_topic_creation=False))
    advertised = (Broker(BrokerId(one.node_id), one.host, one.port) for one in metadata.brokers)
    brokers = tuple(sorted(advertised, key=lambda one: one.node_id))
    node_id, settings = _own_node(connection, [broker.node_id for broker in brokers])
    software = Software.PYBROKER if _OURS in settings else Software.KAFKA if _KAFKAS in settings else Software.UNKNOWN
    return BrokerResponse(
        software=software,
        cluster_id=metadata.cluster_id,
        node_id=node_id,
        apis=len(connection.versions),
        brokers=brokers,
        has_advertised=bool(settings.get(_ADVERTISED)),
        is_in_container=settings.get(_BY_PEER) == "true",
        partitions=partitions_of(metadata, connection),
    )


def _own_node(connection: Connection, node_ids: Sequence[BrokerId]) -> tuple[BrokerId | None, Mapping[str, str | None]]:
    """Return which of the nodes this broker is, and some settings: a broker reports only its own."""
    keys = [_OURS, _KAFKAS, _ADVERTISED, _BY_PEER]
    resources = [
        DescribeConfigsResource(resource_type=_BROKER_RESOURCE, resource_name=str(node_id), configuration_keys=keys)
        for node_id in node_ids[:_NODES_MAX]
    ]
    try:
        response = connection.call(DescribeConfigsRequest(resources=resources))
    except ClientError:  # some brokers may forbid it; everything else is known
        return None, {}
    for result in response.results:
        settings = {config.name: config.value for config in result.configs}
        if result.error_code == ErrorCode.NONE and settings:
            return BrokerId(int(result.resource_name)), settings
    return None, {}


def _mechanisms(at: _Connected) -> tuple[str, ...]:
    """Return the SASL mechanisms of a listener that wants a login; empty where none is wanted."""
    try:
        with socket.create_connection(at.address, at.timeout_s) as connected:
            reader = Reader(_frames(connected, at).ask(_SASL_HANDSHAKE, version=0, body=_ANY_MECHANISM))
            reader.int16()  # the error code
            return tuple(reader.string() or "" for _ in range(min(reader.int32(), _MECHANISMS_MAX)))
    except (OSError, ClientError, *DAMAGE):
        return ()


def _probe(at: _Connected, what_came: str) -> Instead | None:
    """Greet a server that did not understand Kafka's protocol in TLS and in HTTP, and return what it is."""
    import ssl  # noqa: PLC0415  (dear, and needed by few)

    at.report(f"{what_came}; asking whether it speaks TLS")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE  # only its protocol is of interest; it is not trusted
    try:
        with socket.create_connection(at.address, at.timeout_s) as plain, context.wrap_socket(plain):
            return Instead.TLS
    except ssl.SSLError as error:
        if "ALERT" in (error.reason or ""):  # it refuses this client, in TLS
            return Instead.TLS
    except OSError:
        pass  # closed or silent: not TLS
    at.report("no TLS; asking whether it is a web server")
    try:
        with socket.create_connection(at.address, at.timeout_s) as plain:
            plain.sendall(b"GET / HTTP/1.0\r\n\r\n")
            return Instead.HTTP if plain.recv(len(_HTTP)) == _HTTP else None
    except OSError:
        return None
