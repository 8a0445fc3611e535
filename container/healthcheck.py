"""The image's health check: exit 0 when the broker of this container is ready for clients, 1 with one line when it is not.

    python3 -I -S /opt/pybroker/healthcheck.py

Ready means that coordinators are loaded and the wanted topics exist: then the broker writes the file that PYBROKER_READY_FILE
names (/tmp/pybroker-ready by default), which holds `HOST PORT` of the listener to ask, or `HOST PORT TLS`, and removes it when it
stops. While it is not there, a file of the same name with `.reason` at its end has the broker's reason. The ready file
alone proves nothing of a broker that was killed or hangs, so one ApiVersions v0 goes to that listener and a sound response has
to come back.

It runs every two seconds for as long as the container does: so it imports only what the bare interpreter has, and nothing of the
broker. It reads no more than a response can be long, and waits no longer than TIMEOUT_S in all.
"""

import _socket  # the module in C: `socket` itself costs as much as all the rest, for enumerations that nothing here uses
import os
import struct
import sys
import time

READY_FILE = "/tmp/pybroker-ready"  # noqa: S108 (a name that the broker and its health check share, in a container of their own)
TIMEOUT_S = 1.5
RESPONSE_BYTES_MAX = 10_000

API_VERSIONS, VERSION, CORRELATION_ID = 18, 0, 0x48656C6F
CLIENT_ID = b"healthcheck"


def main() -> str | None:
    """Return what keeps the broker from being ready; None when it is ready."""
    path = os.environ.get("PYBROKER_READY_FILE") or READY_FILE
    try:
        with open(path, encoding="ascii") as file:  # noqa: PTH123 (pathlib costs more than the rest of this program)
            words = file.read(1000).split()
    except OSError as error:
        return reason_beside(path) or f"the broker is not ready yet: {path}: {error.strerror}"
    except UnicodeDecodeError:
        words = []
    if len(words) not in (2, 3) or not words[1].isdigit():
        return f"{path} should say HOST PORT"
    if words[1] == "0":
        return None  # a controller without a broker, or a broker whose clients all need a certificate: there is none to ask
    try:
        return complaint(ask(words[0], int(words[1]), has_tls=len(words) == 3))
    except (OSError, OverflowError) as error:
        return f"{words[0]}:{words[1]}: {error}"


def reason_beside(path: str) -> str | None:
    """Return what the broker wrote about why it is not ready; None when it wrote nothing."""
    try:
        with open(path + ".reason", encoding="utf-8", errors="replace") as file:  # noqa: PTH123 (as above)
            return file.read(1000).strip() or None
    except OSError:
        return None


def ask(host: str, port: int, *, has_tls: bool) -> bytes:
    """Return the response to ApiVersions v0 without its length, or as much as came before the connection ended."""
    body = struct.pack(">hhih", API_VERSIONS, VERSION, CORRELATION_ID, len(CLIENT_ID)) + CLIENT_ID
    deadline = time.monotonic() + TIMEOUT_S
    family, kind, protocol, _, address = _socket.getaddrinfo(host, port, 0, _socket.SOCK_STREAM)[0]
    connection = secured(family, kind, protocol) if has_tls else _socket.socket(family, kind, protocol)
    try:
        connection.settimeout(TIMEOUT_S)
        connection.connect(address)
        connection.send(struct.pack(">i", len(body)) + body)
        came = b""
        while len(came) < 4 or len(came) < min(4 + struct.unpack_from(">i", came)[0], RESPONSE_BYTES_MAX):
            connection.settimeout(max(0.001, deadline - time.monotonic()))
            piece = connection.recv(RESPONSE_BYTES_MAX)
            if not piece:
                break
            came += piece
    finally:
        connection.close()
    return came[4:]


def secured(family: int, kind: int, protocol: int) -> _socket.socket:
    """Return a socket that has TLS once it connects. It asks the own machine, so it trusts every certificate."""
    import socket  # noqa: PLC0415  only for TLS, as the next one
    import ssl  # noqa: PLC0415

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context.wrap_socket(socket.socket(family, kind, protocol))


def complaint(response: bytes) -> str | None:
    """Return what is wrong with a response to ApiVersions v0: correlation id, error code, and six bytes for each API."""
    if len(response) < 10:
        return f"the response to ApiVersions has {len(response)} bytes"
    correlation_id, error_code, count = struct.unpack_from(">ihi", response)
    if correlation_id != CORRELATION_ID:
        return f"the response to ApiVersions has correlation id {correlation_id}"
    if error_code:
        return f"the response to ApiVersions has error code {error_code}"
    if count <= 0 or len(response) != 10 + 6 * count:
        return f"the response to ApiVersions counts {count} APIs in {len(response)} bytes"
    return None


if __name__ == "__main__":
    reason = main()
    if reason is not None:
        sys.exit(f"not ready: {reason}")
