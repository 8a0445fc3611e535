"""Stock clients at every kind of listener: they get in, or get the right error; a line here for each failure; nothing is left.

    SECURITY_MATRIX=all python -m pytest integration/security/test_stock_clients.py

With this, old and new releases of Java's client take part, and every mechanism is tried with and without TLS.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import socket
import time
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourcePatternType,
    ResourceType,
)
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, load_pem_private_key, pkcs12
from cryptography.x509 import load_pem_x509_certificate

from integration.security.clients import JAVA, OLD_JAVA, PYTHON, Result, StockClients
from integration.security.sasl import PASSWORD, USER, USERS, WRONG
from pybroker.config.acl_settings import AUTHORIZERS
from pybroker.security.failures import LINES_MAX
from pybroker.security.tls.certificates import issued
from testing.clients.access import STORE_PASSWORD, Access
from testing.clients.certificates import Stores
from testing.clients.tokens import Issuer
from testing.process.broker import BrokerProcess
from testing.process.kafka_peer import free_port
from testing.process.procstat import memory_bytes
from testing.waiting import until

HAS_JAVA: Final = shutil.which("mvn") is not None and shutil.which("javac") is not None
IS_WHOLE: Final = os.environ.get("SECURITY_MATRIX") == "all"
NEW: Final = (*PYTHON, *(JAVA if IS_WHOLE else ["Java 3.9"])) if HAS_JAVA else PYTHON
LISTENERS: Final = {
    "SSL": "SSL",
    "SASL_PLAINTEXT": "SASL_PLAINTEXT",
    "SASL_SSL": "SASL_SSL",
    "SHORT": "SASL_PLAINTEXT",
    "OTHER": "SSL",
}
"""The listeners, with their protocols. SHORT has sessions of SESSION_MS, OTHER a certificate for another host."""
SESSION_MS: Final = 2_000
LOAD_S: Final = 20 if IS_WHOLE else 5
FLOOD: Final = 300
ISSUER: Final = Issuer()
EXPIRED: Final = ISSUER.token(lives_s=-60, iat=time.time() - 90)
GROWTH_BYTES_MAX: Final = 10 << 20
NO_LOGIN: Final = re.compile(r"Invalid username or password|invalid credentials with SASL mechanism")
NO_TOKEN: Final = re.compile(r"invalid_token|Connection at \S+ closed")  # aiokafka does not read the broker's token


class Scene:
    """The broker, and what gets in at its listeners."""

    def __init__(self, folder: Path) -> None:
        self.stores = Stores(folder)
        self.token = self.stores.write("token", ISSUER.token().encode())
        self.expired = self.stores.write("expired", EXPIRED.encode())
        self.ports = {name: free_port() for name in LISTENERS}
        self.broker = BrokerProcess(folder / "broker", self._settings(folder))
        self.broker.start()
        self.ports["SSL"] = self.broker.port
        self.idle_sockets = self.sockets()

    def _settings(self, folder: Path) -> dict[str, str]:
        self.metrics = f"127.0.0.1:{free_port()}"
        other = self.stores.pem("other", issued(self.stores.authority, "CN=broker", ["kafka.example"]))
        modules = {f"listener.name.{name}.plain.sasl.jaas.config": USERS for name in ("sasl_plaintext", "sasl_ssl", "short")}
        users = (f"{mechanism}=[name={USER},password={PASSWORD}]" for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"))
        return {
            **self.stores.of_broker(),
            **modules,
            "listeners": ",".join(f"{name}://127.0.0.1:{port}" for name, port in self.ports.items()),
            "listener.security.protocol.map": ",".join(f"{name}:{protocol}" for name, protocol in LISTENERS.items()),
            "inter.broker.listener.name": "SSL",
            "listener.name.ssl.ssl.client.auth": "required",
            "listener.name.other.ssl.keystore.location": other,
            "listener.name.short.connections.max.reauth.ms": str(SESSION_MS),
            "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
            "sasl.oauthbearer.jwks.endpoint.url": f"file://{self.stores.write('keys.json', ISSUER.document())}",
            "pybroker.scram.users": ",".join(users),
            "authorizer.class.name": AUTHORIZERS[0],
            "super.users": f"User:{USER};User:CN=broker",
            "allow.everyone.if.no.acl.found": "true",
            "pybroker.down.conversion.padding": "fitted",  # for consumers of Java 0.9 and 0.10
            "metrics.listener": self.metrics,
        }

    def access(self, listener: str, mechanism: str = "") -> Access:
        """Return what gets in, with the certificate of the client where it has no login."""
        made = Access(f"127.0.0.1:{self.ports[listener]}", LISTENERS[listener])
        if LISTENERS[listener].endswith("SSL"):
            made = replace(made, ca=self.stores.ca)
        if mechanism == "OAUTHBEARER":
            return replace(made, mechanism=mechanism, token=self.token)
        if mechanism:
            return replace(made, mechanism=mechanism, user=USER, password=PASSWORD)
        files = {"certificate": self.stores.client_certificate, "key": self.stores.client_key, "both": self.stores.client}
        return replace(made, **files)

    def with_certificate(self, name: str, **given: object) -> dict[str, str]:
        """Return the fields of an access with a certificate that an authority, by default ours, issues for this name."""
        pair = issued(**{"by": self.stores.authority, "subject": f"CN={name}", **given})  # type: ignore[arg-type]
        files = {"certificate": pair.certificate_pem(), "key": pair.key_pem(), "both": pair.key_pem() + pair.certificate_pem()}
        return {field: self.stores.write(f"{name}-{field}.pem", content) for field, content in files.items()}

    def counted(self, name: str, listener: str) -> int:
        """Return a number of a listener, as the page of metrics has it."""
        with urllib.request.urlopen(f"http://{self.metrics}/metrics", timeout=20) as response:
            page = response.read().decode()
        found = re.search(rf"^kafka_server_socketservermetrics_{name}{{listener=.{listener}.}} (\S+)", page, re.MULTILINE)
        return int(float(found[1])) if found else 0

    def sockets(self) -> int:
        """Return how many sockets the broker has."""
        found = 0
        for descriptor in Path(f"/proc/{self.broker.pid}/fd").iterdir():
            with contextlib.suppress(FileNotFoundError):
                found += str(descriptor.readlink()).startswith("socket:")
        return found

    def nothing_is_left(self) -> None:
        """Wait until the broker has no connection, in its own view and in the system's."""
        until(lambda: not any(self.counted("connection_count", name) for name in LISTENERS), "no connection is left")
        until(lambda: self.sockets() == self.idle_sockets, "no socket is left")

    def admin(self) -> AdminClient:
        """Return a client of a super user."""
        return AdminClient(self.access("SASL_PLAINTEXT", "PLAIN").of_librdkafka())


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    made = Scene(tmp_path_factory.mktemp("stock"))
    yield made
    made.broker.stop()
    assert "Traceback" not in made.broker.log_text
    assert "unclosed" not in made.broker.log_text
    for secret in (PASSWORD, WRONG, *EXPIRED.split(".")):
        assert secret not in made.broker.log_text


@pytest.fixture(scope="module")
def clients(scene: Scene, tmp_path_factory: pytest.TempPathFactory) -> Iterator[StockClients]:
    made = StockClients(NEW, tmp_path_factory.mktemp("clients"), tokens=(scene.token, scene.expired))
    yield made
    made.close()


WAYS = [("SSL", ""), ("SASL_PLAINTEXT", "PLAIN"), ("SASL_PLAINTEXT", "SCRAM-SHA-256"), ("SASL_SSL", "SCRAM-SHA-512")]
MORE_WAYS = [("SASL_PLAINTEXT", "SCRAM-SHA-512"), ("SASL_SSL", "PLAIN"), ("SASL_SSL", "SCRAM-SHA-256")]
MORE_WAYS += [("SASL_PLAINTEXT", "OAUTHBEARER"), ("SASL_SSL", "OAUTHBEARER")]


@pytest.mark.parametrize(("listener", "mechanism"), WAYS + MORE_WAYS * IS_WHOLE)
def test_every_client_writes_and_reads(listener: str, mechanism: str, scene: Scene, clients: StockClients) -> None:
    results = clients.do(f"in-{listener}-{mechanism}", scene.access(listener, mechanism))
    assert results == dict.fromkeys(NEW, Result(1, 1))
    scene.nothing_is_left()


@dataclass
class Refusal:
    """A mistake of clients: what is wrong in their access, their errors, and the line here.

    Attributes:
        error: the class of Java's exception.
        code: the name of librdkafka's code.
        text: what each client's error, or its log, has.
    """

    listener: str
    mechanism: str
    wrong: Callable[[Scene], dict[str, str]]
    error: str
    code: str
    text: re.Pattern[str]
    line: str


def _no_certificate(_: Scene) -> dict[str, str]:
    return dict.fromkeys(("certificate", "key", "both"), "")


def _foreign(scene: Scene) -> dict[str, str]:
    return scene.with_certificate("foreign", by=Stores.foreign())


def _other_trust(scene: Scene) -> dict[str, str]:
    return {"ca": scene.stores.write("foreign.pem", Stores.foreign().certificate_pem())}


_OF_LOGIN, _OF_TLS = "SaslAuthenticationException", "SslAuthenticationException"
_ALERT = re.compile(r"alert|post-handshake|Unable to bootstrap", re.IGNORECASE)
_NO_TRUST = re.compile(r"verif|SSL handshake failed", re.IGNORECASE)
REFUSED: Final = {
    "a wrong password": Refusal(
        "SASL_PLAINTEXT", "PLAIN", lambda _: {"password": WRONG}, _OF_LOGIN, "_AUTHENTICATION", NO_LOGIN,
        f"whose login as '{USER}' failed: Authentication failed: Invalid username or password",
    ),
    "a wrong password of SCRAM": Refusal(
        "SASL_SSL", "SCRAM-SHA-256", lambda _: {"password": WRONG}, _OF_LOGIN, "_AUTHENTICATION", NO_LOGIN,
        f"whose login as '{USER}' failed: the password is wrong",
    ),
    "an unknown user": Refusal(
        "SASL_PLAINTEXT", "SCRAM-SHA-512", lambda _: {"user": "nobody"}, _OF_LOGIN, "_AUTHENTICATION", NO_LOGIN,
        "whose login as 'nobody' failed: the user does not exist",
    ),
    "an expired token": Refusal(
        "SASL_SSL", "OAUTHBEARER", lambda scene: {"token": scene.expired}, _OF_LOGIN, "_AUTHENTICATION", NO_TOKEN,
        f"whose login as '{USER}' failed: the token expired",
    ),
    "no certificate": Refusal(
        "SSL", "", _no_certificate, _OF_TLS, "_TRANSPORT", _ALERT,
        "the client has no certificate, and ssl.client.auth is required",
    ),
    "an expired certificate": Refusal(
        "SSL", "", lambda scene: scene.with_certificate("late", days=-1), _OF_TLS, "_TRANSPORT", _ALERT,
        "the client's certificate is not accepted (certificate has expired)",
    ),
    "a certificate of a foreign authority": Refusal(
        "SSL", "", _foreign, _OF_TLS, "_TRANSPORT", _ALERT,
        "the client's certificate is not accepted (unable to get local issuer certificate)",
    ),
    "trust in another authority": Refusal(
        "SSL", "", _other_trust, _OF_TLS, "_SSL", _NO_TRUST, "the broker's certificate"
    ),
    "another host name": Refusal(
        "OTHER", "", lambda _: {}, _OF_TLS, "_SSL", _NO_TRUST, "the broker's certificate"
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_every_client_that_is_wrong_learns_it(name: str, scene: Scene, clients: StockClients) -> None:
    refusal = REFUSED[name]
    failed, begun = scene.counted("failed_authentication_total", refusal.listener), len(scene.broker.log_text)
    access = replace(scene.access(refusal.listener, refusal.mechanism), **refusal.wrong(scene))
    results = clients.do("refused", access, is_refused=True)
    expected = {"kafka-python": "KafkaTimeoutError", "confluent-kafka": refusal.code, "aiokafka": "KafkaConnectionError"}
    assert {one: results[one].error for one in NEW} == {one: expected.get(one, refusal.error) for one in NEW}
    for one, result in results.items():
        assert refusal.text.search(result.text), (one, result)
    scene.nothing_is_left()
    lines = scene.broker.log_text[begun:].count(refusal.line)
    assert lines == scene.counted("failed_authentication_total", refusal.listener) - failed >= 3, scene.broker.log_text[begun:]


def test_clients_log_in_again_under_load_and_lose_nothing(scene: Scene, clients: StockClients) -> None:
    before = scene.counted("successful_authentication_total", "SHORT")
    results = clients.do("again", scene.access("SHORT", "PLAIN"), LOAD_S)
    for one, result in results.items():
        assert result.read == result.written > 1, (one, result)
    sessions = LOAD_S * 1_000 // SESSION_MS
    assert scene.counted("successful_authentication_total", "SHORT") - before >= 2 * sessions * len(NEW)
    scene.nothing_is_left()


def test_a_certificate_loses_its_rights_by_an_acl_and_by_new_trust(scene: Scene, clients: StockClients) -> None:
    """Kafka has no setting for revocation lists: an ACL ends what a certificate may do, and a new trust store ends it."""
    second = Stores.foreign()
    both = scene.stores.write("both.pem", scene.stores.authority.certificate_pem() + second.certificate_pem())
    access = replace(scene.access("SSL"), **scene.with_certificate("mallory", by=second))
    trust(scene, both)
    assert clients.do("revoked", access) == dict.fromkeys(NEW, Result(1, 1))
    deny(scene, "User:CN=mallory")
    denied = {one: result.error for one, result in clients.do("revoked", access).items()}
    of_clients = {"kafka-python": "TopicAuthorizationFailedError", "aiokafka": "TopicAuthorizationFailedError"}
    of_clients |= {"confluent-kafka": "TOPIC_AUTHORIZATION_FAILED"}
    assert denied == {one: of_clients.get(one, "TopicAuthorizationException") for one in NEW}
    trust(scene, scene.stores.ca)
    results = clients.do("revoked", access, is_refused=True)
    assert all(result.error == (_OF_TLS if one in JAVA else result.error or None) for one, result in results.items()), results
    scene.nothing_is_left()


def deny(scene: Scene, principal: str) -> None:
    """Deny a principal all topics of the test."""
    pattern, all_hosts = ResourcePatternType.PREFIXED, "*"
    denial = AclBinding(ResourceType.TOPIC, "revoked", pattern, principal, all_hosts, AclOperation.ALL, AclPermissionType.DENY)
    admin = scene.admin()
    admin.create_acls([denial])[denial].result(20)


def trust(scene: Scene, store: str) -> None:
    """Give the listener SSL another trust store, by AlterConfigs."""
    setting = ConfigEntry("listener.name.ssl.ssl.truststore.location", store, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ConfigResource.Type.BROKER, "1", incremental_configs=[setting])
    admin = scene.admin()
    admin.incremental_alter_configs([resource])[resource].result(20)


def test_a_flood_of_failures_has_few_lines_and_leaves_nothing(scene: Scene) -> None:
    begun, before_bytes = len(scene.broker.log_text), memory_bytes(scene.broker.pid)
    token = b"\0nobody\0nothing"
    login = bytes.fromhex("00000011 0011 0001 00000001 ffff") + b"\0\5PLAIN"
    login += (len(token) + 14).to_bytes(4) + bytes.fromhex("0024 0001 00000002 ffff") + len(token).to_bytes(4) + token
    for _ in range(FLOOD):
        for listener, sent in (("SASL_PLAINTEXT", login), ("SSL", b"no TLS at all")):
            with socket.create_connection(("127.0.0.1", scene.ports[listener]), timeout=20) as one:
                one.sendall(sent)
                one.shutdown(socket.SHUT_WR)
    scene.nothing_is_left()
    added = scene.broker.log_text[begun:]
    assert added.count("whose login as 'nobody' failed") <= 2 * LINES_MAX
    assert added.count("the client does not speak TLS") <= 2 * LINES_MAX
    assert memory_bytes(scene.broker.pid) - before_bytes < GROWTH_BYTES_MAX


def with_stores(access: Access) -> Access:
    """Write a PKCS12 store beside each PEM file, for clients that read no PEM."""
    encryption = BestAvailableEncryption(STORE_PASSWORD.encode())
    if access.ca:
        path = Path(access.ca)
        ca = pkcs12.PKCS12Certificate(load_pem_x509_certificate(path.read_bytes()), b"ca")
        path.with_suffix(".p12").write_bytes(pkcs12.serialize_java_truststore([ca], encryption))
    if access.both:
        path = Path(access.both)
        key, certificate = load_pem_private_key(path.read_bytes(), None), load_pem_x509_certificate(path.read_bytes())
        store = pkcs12.serialize_key_and_certificates(b"client", key, certificate, None, encryption)  # type: ignore[arg-type]
        path.with_suffix(".p12").write_bytes(store)
    return access


SCRAM: Final = ("SCRAM-SHA-256", "SCRAM-SHA-512")
LOGINS_OF_OLD: Final = {
    "Java 0.9.0": (),
    "Java 0.10.0": ("PLAIN",),
    "Java 0.10.2": ("PLAIN", *SCRAM),
    "Java 0.11.0": ("PLAIN", *SCRAM),
}
"""The mechanisms that each release knows, beside Kerberos."""
NO_REASON: Final = "at SSL failed: OpenSSL reports UNEXPECTED_MESSAGE"
"""Old clients end a handshake without an alert that has the reason."""
needs_old = pytest.mark.skipif(not (IS_WHOLE and HAS_JAVA), reason="SECURITY_MATRIX=all is not set, or there is no Java")


@needs_old
@pytest.mark.parametrize("name", OLD_JAVA)
def test_old_clients_of_java_get_in_where_they_can(name: str, scene: Scene, tmp_path: Path) -> None:
    knows = LOGINS_OF_OLD[name]
    client = StockClients((name,), tmp_path, login=scene.access("SASL_PLAINTEXT", "PLAIN").login_module())
    try:
        for listener, mechanism in [("SSL", ""), *((at, each) for at in ("SASL_PLAINTEXT", "SASL_SSL") for each in knows)]:
            access = with_stores(scene.access(listener, mechanism))
            assert client.do(f"old-{listener}-{mechanism}", access) == {name: Result(1, 1)}
        if knows:
            assert client.do("old-load", scene.access("SHORT", "PLAIN"), 5)[name].error == ""
    finally:
        client.close()
    scene.nothing_is_left()


@needs_old
@pytest.mark.parametrize("name", OLD_JAVA)
def test_old_clients_of_java_that_are_wrong_get_nothing(name: str, scene: Scene, tmp_path: Path) -> None:
    """Old clients connect again until their time is over, and do not look at the names of hosts by themselves."""
    knows = ("", *LOGINS_OF_OLD[name])
    login = replace(scene.access("SASL_PLAINTEXT", "PLAIN"), password=WRONG).login_module()
    client = StockClients((name,), tmp_path, login=login)
    try:
        for refusal in (one for one in REFUSED.values() if one.listener != "OTHER" and one.mechanism in knows):
            failed, begun = scene.counted("failed_authentication_total", refusal.listener), len(scene.broker.log_text)
            access = replace(scene.access(refusal.listener, refusal.mechanism), **refusal.wrong(scene))
            assert client.do("refused", with_stores(access), is_refused=True)[name].error == "TimeoutException"
            scene.nothing_is_left()
            logged = scene.broker.log_text[begun:]
            lines = logged.count(NO_REASON if refusal.wrong is _other_trust else refusal.line)
            assert lines == scene.counted("failed_authentication_total", refusal.listener) - failed >= 1, logged
    finally:
        client.close()
