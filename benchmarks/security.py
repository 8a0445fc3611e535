"""Measures what TLS, logins, ACLs and quotas cost the broker, beside Apache Kafka.

    python -m benchmarks.security [--only tls] [--rounds 3] [--seconds 2] [--warm 8] [--acls 1000] [--no-kafka]

tls        CPU-s per GB of records produced and fetched over TLS, one batch in each request
handshakes CPU of a new connection with TLS and its first request, by the key of the broker, beside one without TLS
logins     CPU of a new connection, its login and its first request
requests   CPU of a small request on 50 connections: without anything, with an authorizer and ACLs, and with quotas

All brokers get the same bytes from the same generators, are warmed up before each figure, and then take turns, `--rounds` times
`--seconds` each; the median counts. GB = 1e9 bytes of values.
"""

from __future__ import annotations

import argparse
import datetime as dt
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from benchmarks import load, peers, small_requests
from benchmarks.compaction import values_of
from benchmarks.compressed_appends import OVERRIDES
from benchmarks.load import Load
from benchmarks.peers import KAFKA, OURS, Peer
from benchmarks.secure_clients import PASSWORD, USER, connects
from pybroker.client.connection import Connection
from pybroker.config.acl_settings import AUTHORIZERS
from pybroker.protocol.messages.alter_client_quotas import AlterClientQuotasRequest, EntityData, EntryData, OpData
from pybroker.tools.target import Target
from testing.clients.certificates import Stores
from testing.clients.stock import create_topic
from testing.samples import T0_MS, Sample
from testing.wire import raw
from testing.wire.batches import sample_batch

PARTS = ("tls", "handshakes", "logins", "requests")
BATCH_BYTES = (16_000, 200_000)
VALUE_BYTES = 1_000
KEYS = {"SSL": "ECDSA P-256", "RSA2048": "RSA 2048", "RSA4096": "RSA 4096"}
"""The keys of the listeners with TLS, by the listeners' names."""
LISTENERS = {**dict.fromkeys(KEYS, "SSL"), "SASL_PLAINTEXT": "SASL_PLAINTEXT"}
MODULES = "org.apache.kafka.common.security"
QUOTAS = {"producer_byte_rate": 1e12, "consumer_byte_rate": 1e12, "request_percentage": 1e6}

Measure = Callable[[Peer, float, float], Load]
"""Loads a broker for some seconds, after some that warm it up."""


def rsa_pem(bits: int) -> bytes:
    """Return a key and its own certificate."""
    key = rsa.generate_private_key(65_537, bits)
    name, now = x509.Name.from_rfc4514_string(f"CN=rsa-{bits}"), dt.datetime.now(dt.UTC)
    builder = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number(), now, now + dt.timedelta(days=1))
    plain = serialization.NoEncryption()
    key_pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain)
    return key_pem + builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def settings(folder: Path) -> dict[str, str]:
    """Return the settings of all listeners, for either broker."""
    stores, sasl = Stores(folder), "listener.name.sasl_plaintext"
    tls = stores.of_broker()
    del tls["listeners"]
    for name, bits in (("RSA2048", 2_048), ("RSA4096", 4_096)):
        tls[f"listener.name.{name.lower()}.ssl.keystore.location"] = stores.write(f"{name}.pem", rsa_pem(bits))
    return {
        **OVERRIDES,
        **tls,
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
        f"{sasl}.plain.sasl.jaas.config": f'{MODULES}.plain.PlainLoginModule required user_{USER}="{PASSWORD}";',
        f"{sasl}.scram-sha-256.sasl.jaas.config": f"{MODULES}.scram.ScramLoginModule required;",
    }


def compare(running: Sequence[Peer], what: str, measure: Measure, options: argparse.Namespace) -> dict[str, float]:
    """Return the CPU of one request at each broker in us, by the broker's name, and print it."""
    for peer in running:
        measure(peer, 0, options.warm)
    rounds = [[measure(peer, options.seconds, load.SETTLE_S).cpu_us for peer in running] for _ in range(options.rounds)]
    cpu_us = {peer.name: statistics.median(taken) for peer, taken in zip(running, zip(*rounds, strict=True), strict=True)}
    peers.row((what, *cpu_us.values(), "us"))
    return cpu_us


def table(title: str, unit: str, rows: Mapping[str, Mapping[str, float]], names: Sequence[str]) -> None:
    """Print figures by what was measured and by broker."""
    ratio = ["ratio"] if len(names) > 1 else []
    ratios = {what: [by_name[OURS] / by_name[KAFKA]] if ratio else [] for what, by_name in rows.items()}
    cells = [(what, *by_name.values(), *ratios[what]) for what, by_name in rows.items()]
    peers.table(title, ["", *(f"{name}, {unit}" for name in names), *ratio], cells)


def tls(running: Sequence[Peer], options: argparse.Namespace) -> None:
    rows = {}
    for batch_bytes in BATCH_BYTES:
        values = values_of(VALUE_BYTES)
        count = batch_bytes // VALUE_BYTES
        batch = sample_batch([Sample(None, values[number % len(values)], T0_MS) for number in range(count)])
        for peer in running:
            for topic in ("in", "out"):
                create_topic(peer.bootstrap, f"{topic}-{batch_bytes}")
            with raw.Connection(peer.bootstrap) as connection:
                assert raw.produce(connection, 7, f"out-{batch_bytes}", batch).error == 0
        ask = raw.Ask(topic=f"out-{batch_bytes}", bytes_max=len(batch))
        frames = {
            "in": raw.request(raw.PRODUCE, 7, raw.produce_body(7, f"in-{batch_bytes}", {0: batch}, acks=1)),
            "out": raw.request(raw.FETCH, 11, raw.fetch_body(11, [ask])),
        }
        for direction, frame in frames.items():
            for protocol in ("PLAINTEXT", "SSL"):

                def measure(peer: Peer, seconds: float, warm_s: float, frame: bytes = frame, name: str = protocol) -> Load:
                    address = peer.addresses.get(name, "")
                    return load.run(peer, frame, connections=1, depth=4, seconds=seconds, warm_s=warm_s, tls_address=address)

                what = f"{direction}, batches of {batch_bytes // 1000} kB, {protocol}"
                cpu_us = compare(running, what, measure, options)
                rows[what] = {name: one * 1000 / batch_bytes for name, one in cpu_us.items()}
    table("Broker CPU per GB", "CPU-s/GB", rows, [peer.name for peer in running])


def handshakes(running: Sequence[Peer], options: argparse.Namespace) -> None:
    rows = {"without TLS": compare(running, "without TLS", _connecting("PLAINTEXT", ""), options)}
    for listener, key in KEYS.items():
        rows[key] = compare(running, key, _connecting("TLS", listener), options)
    table("Broker CPU of a connection with its first request, by the broker's key", "us", rows, [peer.name for peer in running])


def logins(running: Sequence[Peer], options: argparse.Namespace) -> None:
    credential = UserScramCredentialUpsertion(
        USER, ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096), PASSWORD.encode(), b"salt" * 8
    )
    for peer in running:
        admin = AdminClient({"bootstrap.servers": peer.bootstrap})
        admin.alter_user_scram_credentials([credential])[USER].result(30)
    rows = {way: compare(running, way, _connecting(way, "SASL_PLAINTEXT"), options) for way in ("PLAIN", "SCRAM-SHA-256")}
    table("Broker CPU of a connection with its login and its first request", "us", rows, [peer.name for peer in running])


def _connecting(way: str, listener: str) -> Measure:
    return lambda peer, seconds, warm_s: connects(
        peer, peer.addresses.get(listener, peer.bootstrap), way, seconds=seconds, warm_s=warm_s
    )


def requests(running: Sequence[Peer], options: argparse.Namespace) -> None:
    """Measure in the same turns the brokers as they run, the same with quotas, and others that have an authorizer and ACLs."""
    rows: dict[str, dict[str, float]] = {}
    names = [peer.name for peer in running]
    authorized = {
        "authorizer.class.name": AUTHORIZERS[0], "super.users": "User:admin", "allow.everyone.if.no.acl.found": "true",
    }  # fmt: skip
    with started(options, lambda _: {**OVERRIDES, **authorized}) as guarded:
        frames = {peer: small_requests.requests(peer.bootstrap) for peer in (*running, *guarded)}
        for peer in guarded:
            create_acls(peer, options.acls)
        for request in frames[running[0]]:

            def measure(peer: Peer, seconds: float, warm_s: float, request: str = request) -> Load:
                return load.run(peer, frames[peer][request], connections=50, depth=1, seconds=seconds, warm_s=warm_s)

            rows[request] = compare(running, request, measure, options)
            rows[f"{request}, ACLs"] = compare(guarded, f"{request}, ACLs", measure, options)
            for peer in running:
                set_quotas(peer, is_set=True)
            rows[f"{request}, quotas"] = compare(running, f"{request}, quotas", measure, options)
            for peer in running:
                set_quotas(peer, is_set=False)
    table("Broker CPU per request", "us", rows, names)


def create_acls(peer: Peer, count: int) -> None:
    """Create ACLs of other principals about other topics, and those that allow what the generator asks for."""

    def acl(name: str, principal: str, pattern: ResourcePatternType) -> AclBinding:
        return AclBinding(ResourceType.TOPIC, name, pattern, principal, "*", AclOperation.ALL, AclPermissionType.ALLOW)

    literal, prefixed = ResourcePatternType.LITERAL, ResourcePatternType.PREFIXED
    wanted = [acl(f"other-{n}", f"User:{n}", prefixed if n % 2 else literal) for n in range(count)]
    wanted.append(acl(small_requests.TOPIC, "User:ANONYMOUS", prefixed))
    admin = AdminClient({"bootstrap.servers": peer.bootstrap})
    for first in range(0, len(wanted), 500):
        for future in admin.create_acls(wanted[first : first + 500]).values():
            future.result(60)


def set_quotas(peer: Peer, *, is_set: bool) -> None:
    """Set quotas that no generator reaches, or remove them."""
    ops = [OpData(key=key, value=value, remove=not is_set) for key, value in QUOTAS.items()]
    entry = EntryData(entity=[EntityData(entity_type="client-id", entity_name=None)], ops=ops)
    with closing(Connection(Target(peer.bootstrap, {}).connect())) as connection:
        connection.ask_versions(3)
        response = connection.call(AlterClientQuotasRequest(entries=[entry], validate_only=False))
    assert not response.entries[0].error_code, response


@contextmanager
def started(
    options: argparse.Namespace, overrides: Callable[[Path], Mapping[str, str]], listeners: Mapping[str, str] | None = None
) -> Iterator[list[Peer]]:
    """Yield the brokers that the options ask for, with further listeners."""
    with peers.folder(options) as folder, ExitStack() as stack:
        running = []
        for name in peers.names(options):
            peer = stack.enter_context(closing(Peer(name, folder / name.split()[-1])))
            peer.log.parent.mkdir(parents=True, exist_ok=True)
            peer.start(overrides(folder), listeners)
            running.append(peer)
        yield running


def main() -> None:
    parser = peers.arguments(__doc__)
    parser.add_argument("--only", choices=PARTS, help="measure only this part")
    parser.add_argument("--rounds", type=int, default=3, help="rounds, of which the median counts (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=2, help="seconds of a round (default: %(default)s)")
    parser.add_argument("--warm", type=float, default=8, help="seconds that warm each broker up (default: %(default)s)")
    parser.add_argument("--acls", type=int, default=1_000, help="ACLs about other topics (default: %(default)s)")
    options = peers.parsed(parser)
    with started(options, settings, LISTENERS) as running:
        for part in PARTS:
            if options.only in (None, part):
                globals()[part](running, options)


if __name__ == "__main__":
    main()
