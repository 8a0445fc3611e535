"""`pybroker certs`: an authority, a key store for brokers and one for clients, for development, and the lines that use them."""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import socket
from pathlib import Path

import click

from pybroker import extras
from pybroker.config.properties import parse_properties

_OUTPUT = """\
server.properties:
  listeners=SSL://:9093
  ssl.keystore.type=PEM
  ssl.keystore.location={folder}/broker.pem
  ssl.truststore.type=PEM
  ssl.truststore.location={folder}/ca.pem
  ssl.client.auth=required

Java and Kafka's tools (client.properties, --command-config):
  security.protocol=SSL
  ssl.keystore.type=PEM
  ssl.keystore.location={folder}/client.pem
  ssl.truststore.type=PEM
  ssl.truststore.location={folder}/ca.pem

librdkafka (Go, .NET, Python's confluent-kafka):
  security.protocol=ssl
  ssl.ca.location={folder}/ca.pem
  ssl.certificate.location={folder}/client.crt
  ssl.key.location={folder}/client.key

Python's kafka-python:
  security_protocol="SSL", ssl_cafile="{folder}/ca.pem", ssl_certfile="{folder}/client.crt", ssl_keyfile="{folder}/client.key"

Brokers are reached as: {hosts}
The client's principal is User:CN=client"""


_OUTPUT_OF_USERS = """
server.properties, for users in the place of clients' certificates:
  listeners=SASL_SSL://:9093
  sasl.enabled.mechanisms=SCRAM-SHA-512
  ssl.keystore.type=PEM
  ssl.keystore.location={folder}/broker.pem
and the line in {folder}/users.properties

The settings of each client, with its password, are in: {files}"""

MECHANISM = "SCRAM-SHA-512"
USERS = "pybroker.scram.users"
_CLIENT = """\
security.protocol=SASL_SSL
sasl.mechanism=SCRAM-SHA-512
sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required username="{name}" password="{password}";
ssl.truststore.type=PEM
ssl.truststore.certificates={trusted}
"""


@click.command("certs")
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path))
@click.option("--host", "hosts", multiple=True, help="A name or address by which clients reach the broker; may be repeated.")
@click.option(
    "--user", "users", multiple=True,
    help="A user for SCRAM: its settings are in NAME.properties, and those of a broker in users.properties; may be repeated.",
)  # fmt: skip
def command(folder: Path, hosts: tuple[str, ...], users: tuple[str, ...]) -> None:
    """Make keys and certificates for TLS in FOLDER, and users, for development.

    The authority, and what there is already, stays; the broker's certificate is made again for other hosts.
    """
    if wrong := [name for name in users if re.fullmatch(r"[\w.-]+", name) is None]:
        raise click.BadParameter(f"{wrong[0]!r} has other characters than letters, digits and _.-", param_hint="--user")
    if wrong := [host for host in hosts if re.fullmatch(r"[\w.:*-]+", host) is None]:
        raise click.BadParameter(f"{wrong[0]!r} is no name or address of a host", param_hint="--host")
    try:
        from pybroker.security.tls import certificates
    except ImportError as error:
        raise click.ClickException(f"pybroker certs needs the package cryptography: {extras.command('security')}") from error

    folder = folder.absolute()
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise click.ClickException(f"cannot make the folder {folder}: {error.strerror}") from error
    names = tuple(dict.fromkeys((*hosts, "localhost", "127.0.0.1", "::1", *_own_hosts())))
    key, authority = folder / "ca.key", folder / "ca.pem"
    if key.exists() and authority.exists():
        try:
            signer = certificates.pair_from(key.read_bytes(), authority.read_bytes())
        except (OSError, ValueError) as error:
            raise click.ClickException(f"the authority in {folder} cannot be read: {error}") from error
    else:
        signer = certificates.authority("pybroker development CA")
        _write(key, signer.key_pem())
        _write(authority, signer.certificate_pem())
    if not _has(folder / "broker.pem", folder / "broker.hosts", "\n".join(names)):
        broker = certificates.issued(signer, "CN=broker", names)
        _write(folder / "broker.pem", broker.key_pem() + broker.certificate_pem() + signer.certificate_pem())
        _write(folder / "broker.hosts", "\n".join(names).encode())
    if not (folder / "client.pem").exists():
        client = certificates.issued(signer, "CN=client")
        _write(folder / "client.key", client.key_pem())
        _write(folder / "client.crt", client.certificate_pem() + signer.certificate_pem())
        _write(folder / "client.pem", client.key_pem() + client.certificate_pem() + signer.certificate_pem())
    _write_users(folder, users)
    click.echo(_OUTPUT.format(folder=folder, hosts=", ".join(names)))
    if users:
        files = ", ".join(f"{folder / name}.properties" for name in users)
        click.echo(_OUTPUT_OF_USERS.format(folder=folder, files=files))


def _write_users(folder: Path, users: tuple[str, ...]) -> None:
    """Write the settings of each new user, and those of all that a start of a broker adds."""
    trusted = "\\n".join((folder / "ca.pem").read_text().splitlines())
    added = folder / "users.properties"
    known = parse_properties(added.read_text())[USERS] if added.exists() else ""
    for name in users:
        file = folder / f"{name}.properties"
        if file.exists():
            continue
        password = secrets.token_urlsafe(24)
        _write(file, _CLIENT.format(name=name, password=password, trusted=trusted).encode())
        known += f"{',' if known else ''}{MECHANISM}=[name={name},password={password}]"
    if known:
        _write(added, f"{USERS}={known}\n".encode())


def _has(made: Path, noted: Path, hosts: str) -> bool:
    """Return whether the broker's store is there, for these hosts."""
    with contextlib.suppress(OSError):
        return made.exists() and noted.read_text() == hosts
    return False


def _own_hosts() -> list[str]:
    """Return the name of this machine, and the addresses that the name has."""
    name = socket.gethostname()
    found = [name]
    with contextlib.suppress(OSError):
        found += [str(entry[4][0]) for entry in socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)]
    return [host for host in found if "%" not in host]


def _write(path: Path, content: bytes) -> None:
    """Replace a file by one that only its owner can read, as a whole."""
    temporary = path.with_name(f".{path.name}.new")
    temporary.unlink(missing_ok=True)
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
    temporary.replace(path)
