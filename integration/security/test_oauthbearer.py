"""Stock clients log in by OAUTHBEARER; what they learn of a bad token is in `test_stock_clients`.

One broker has three listeners: whose keys are in a file, whose keys are at a URL, and whose tokens need no signature.
"""

from __future__ import annotations

import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest
from aiokafka.abc import AbstractTokenProvider

from integration.security.sasl import CLIENT_ERRORS, write_with_aiokafka, write_with_confluent
from integration.security.test_logins import AUTHENTICATE, HANDSHAKE, METADATA, RawClient, frame, request, text
from testing.clients.tokens import HANDLER, Issuer, KeyServer, responding, unsecured
from testing.process.broker import BrokerProcess
from testing.process.kafka_peer import free_port
from testing.process.kafka_tools import run_tool
from testing.waiting import until

ISSUER: Final = Issuer()
MODULE: Final = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
NAMES: Final = ("SASL_PLAINTEXT", "URL", "UNSIGNED")
FAILED: Final = 58  # SASL_AUTHENTICATION_FAILED
EXPIRED: Final = ISSUER.token(lives_s=-60, iat=time.time() - 90)
OF_ANOTHER: Final = Issuer().token()


@pytest.fixture(scope="module")
def keys() -> Iterator[KeyServer]:
    served = KeyServer(responding(ISSUER.document()))
    yield served
    served.close()


@pytest.fixture(scope="module")
def ports() -> dict[str, int]:
    return {name: free_port() for name in NAMES[1:]}


@pytest.fixture(scope="module")
def broker(keys: KeyServer, ports: dict[str, int], tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    folder = tmp_path_factory.mktemp("oauthbearer")
    (folder / "keys.json").write_bytes(ISSUER.document())
    settings = {
        "listeners": ",".join(f"{name}://127.0.0.1:{ports.get(name, 0)}" for name in NAMES),
        "listener.security.protocol.map": ",".join(f"{name}:SASL_PLAINTEXT" for name in NAMES),
        "inter.broker.listener.name": "SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        "sasl.oauthbearer.jwks.endpoint.url": f"file://{folder}/keys.json",
        "listener.name.sasl_plaintext.oauthbearer.sasl.server.callback.handler.class": HANDLER,
        "listener.name.sasl_plaintext.oauthbearer.connections.max.reauth.ms": "1500",
        "listener.name.url.oauthbearer.sasl.oauthbearer.jwks.endpoint.url": keys.url,
        "listener.name.url.sasl.oauthbearer.expected.audience": "kafka",
        "listener.name.unsigned.oauthbearer.sasl.jaas.config": f'{MODULE} required unsecuredValidatorPrincipalClaimName="sub";',
        "super.users": "User:alice",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    }
    process = BrokerProcess(folder, settings)
    process.start()
    yield process
    process.close()


_KAFKA_PYTHON: Final = """
import sys
from kafka import KafkaProducer
from kafka.net.sasl.oauth import AbstractTokenProvider
class Tokens(AbstractTokenProvider):
    def token(self):
        return sys.argv[3]
    def extensions(self):
        return {"traceId": "a-1"}
producer = KafkaProducer(
    bootstrap_servers=sys.argv[1], security_protocol="SASL_PLAINTEXT", sasl_mechanism="OAUTHBEARER",
    sasl_oauth_token_provider=Tokens(), bootstrap_timeout_ms=3_000,
)
producer.send(sys.argv[2], b"kafka-python").get(20)
"""


def write_by_kafka_python(bootstrap: str, topic: str, token: str) -> None:
    command = [sys.executable, "-c", f"import logging; logging.basicConfig()\n{_KAFKA_PYTHON}", bootstrap, topic, token]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr)


def write_by_confluent(bootstrap: str, topic: str, token: str) -> None:
    settings = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "oauth_cb": lambda _: (token, time.time() + 600, "alice", {"traceId": "a-1"}),
    }
    write_with_confluent(bootstrap, topic, settings)


def write_by_aiokafka(bootstrap: str, topic: str, token: str) -> None:
    class Tokens(AbstractTokenProvider):
        async def token(self) -> str:
            return token

    settings = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "OAUTHBEARER"}
    write_with_aiokafka(bootstrap, topic, {**settings, "sasl_oauth_token_provider": Tokens()})


WRITERS: Final[dict[str, Callable[[str, str, str], None]]] = {
    "kafka-python": write_by_kafka_python,
    "confluent-kafka": write_by_confluent,
    "aiokafka": write_by_aiokafka,
}


@pytest.mark.parametrize("client", WRITERS)
def test_a_client_writes_with_its_token(client: str, broker: BrokerProcess, ports: dict[str, int]) -> None:
    WRITERS[client](broker.bootstrap, f"of-{client}", ISSUER.token())
    WRITERS[client](f"127.0.0.1:{ports['UNSIGNED']}", f"of-{client}", unsecured())


def authenticate(version: int, token: bytes) -> bytes:
    if version == 2:
        return request(AUTHENTICATE, 2, b"\0" + varint(len(token) + 1) + token + b"\0")
    return request(AUTHENTICATE, version, struct.pack(">i", len(token)) + token)


def varint(number: int) -> bytes:
    return bytes([number & 127 | 128, number >> 7]) if number > 127 else bytes([number])


@pytest.mark.parametrize("version", [0, 1, 2])
def test_a_bad_token_gets_kafkas_bytes(version: int, broker: BrokerProcess) -> None:
    words = b'{"status":"invalid_token"}'
    lines = broker.log_text.count("the token expired")
    with RawClient(broker) as client:
        assert client.ask(request(HANDSHAKE, 1, text("OAUTHBEARER")))[4:6] == b"\0\0"
        response = client.ask(authenticate(version, f"n,,\x01auth=Bearer {EXPIRED}\x01\x01".encode()))
        empty, size = (b"\1", bytes([len(words) + 1])) if version == 2 else (bytes(2), struct.pack(">i", len(words)))
        lifetime = bytes(8) if version else b""
        tags = b"\0" if version == 2 else b""
        assert response[4:] == tags + struct.pack(">h", 0) + empty + size + words + lifetime + tags
        response = client.ask(authenticate(version, b"\x01"))
        size, empty = (bytes([len(words) + 1]), b"\1") if version == 2 else (struct.pack(">h", len(words)), bytes(4))
        assert response[4:] == tags + struct.pack(">h", FAILED) + size + words + empty + lifetime + tags
        assert client.socket.recv(1) == b""
    assert broker.log_text.count("the token expired") == lines + 1


def test_a_client_of_kafka_0_10_sends_bare_tokens(broker: BrokerProcess) -> None:
    for token, response in ((ISSUER.token(), b""), (EXPIRED, b'{"status":"invalid_token"}')):
        with RawClient(broker) as client:
            assert client.ask(request(HANDSHAKE, 0, text("OAUTHBEARER")))[4:6] == b"\0\0"
            client.socket.sendall(frame(f"n,,\x01auth=Bearer {token}\x01\x01".encode()))
            assert client.read(4 + len(response)) == struct.pack(">i", len(response)) + response
            if response:
                assert client.ask(frame(b"\x01")) == b""
            else:
                assert len(client.ask(request(METADATA, 0, struct.pack(">i", 0)))) > 8


def test_a_session_ends_with_the_token(broker: BrokerProcess, ports: dict[str, int]) -> None:
    with RawClient(broker, ports["UNSIGNED"]) as client:
        assert client.ask(request(HANDSHAKE, 1, text("OAUTHBEARER")))[4:6] == b"\0\0"
        response = client.ask(authenticate(1, f"n,,\x01auth=Bearer {unsecured(lives_s=0.6)}\x01\x01".encode()))
        assert 0 < struct.unpack(">q", response[-8:])[0] <= 600
        until(lambda: client.ask(request(METADATA, 0, struct.pack(">i", 0))) == b"", "the end of the session")
    assert "the login of User:alice has ended, and the client has not logged in again" in broker.log_text


def test_new_keys_are_found_by_their_ids(broker: BrokerProcess, keys: KeyServer, ports: dict[str, int]) -> None:
    bootstrap, second = f"127.0.0.1:{ports['URL']}", Issuer("second")
    write_by_aiokafka(bootstrap, "of-url", ISSUER.token(aud=["kafka"]))
    keys.respond = responding(second.document())
    reads = keys.reads
    with pytest.raises(CLIENT_ERRORS):
        write_by_aiokafka(bootstrap, "of-url", second.token(aud="kafka"))
    assert "there is no key 'second' for ES256" in broker.log_text
    until(lambda: keys.reads > reads, "the keys are read again")
    until(lambda: is_accepted(bootstrap, second.token(aud="kafka")), "the new key counts")
    with pytest.raises(CLIENT_ERRORS):
        write_by_aiokafka(bootstrap, "of-url", ISSUER.token(aud="kafka"))
    with pytest.raises(CLIENT_ERRORS):
        write_by_aiokafka(bootstrap, "of-url", second.token(aud="other"))
    assert "failed: the token is for another audience" in broker.log_text


def is_accepted(bootstrap: str, token: str) -> bool:
    try:
        write_by_aiokafka(bootstrap, "of-url", token)
    except CLIENT_ERRORS:
        return False
    return True


def java(folder: Path, bootstrap: str, *lines: str) -> str:
    """Return a file of settings for a client of Java."""
    path = folder / "client.properties"
    basis = (f"bootstrap.servers={bootstrap}", "security.protocol=SASL_PLAINTEXT", "sasl.mechanism=OAUTHBEARER")
    path.write_text("\n".join((*basis, *lines)))
    return str(path)


def test_java_logs_in_again_under_load(broker: BrokerProcess, tmp_path: Path) -> None:
    (tmp_path / "token").write_text(ISSUER.token())
    settings = java(
        tmp_path,
        broker.bootstrap,
        f"sasl.jaas.config={MODULE} required;",
        "sasl.login.callback.handler.class=org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler",
        f"sasl.oauthbearer.token.endpoint.url=file://{tmp_path}/token",
    )
    ended = broker.log_text.count("has ended, and")
    options = ["--topic", "java", "--num-records", "2500", "--throughput", "1000", "--record-size", "100"]
    done = run_tool("org.apache.kafka.tools.ProducerPerformance", *options, "--producer.config", settings)
    assert "2500 records sent" in done.stdout, done.stderr
    assert broker.log_text.count("has ended, and") == ended, "the client was in time"
    (tmp_path / "token").write_text(OF_ANOTHER)
    done = run_tool(
        "org.apache.kafka.tools.TopicCommand", "--bootstrap-server", broker.bootstrap, "--list", "--command-config", settings
    )
    assert '{"status":"invalid_token"}' in done.stdout + done.stderr
    assert "whose login failed: the signature is wrong" in broker.log_text


def test_java_makes_its_own_token_for_tests(broker: BrokerProcess, ports: dict[str, int], tmp_path: Path) -> None:
    bootstrap = f"127.0.0.1:{ports['UNSIGNED']}"
    settings = java(tmp_path, bootstrap, f'sasl.jaas.config={MODULE} required unsecuredLoginStringClaim_sub="alice";')
    command = ["--bootstrap-server", bootstrap, "--create", "--topic", "by-alice", "--command-config", settings]
    done = run_tool("org.apache.kafka.tools.TopicCommand", *command)
    assert "Created topic by-alice" in done.stdout, done.stderr
    assert "The listener UNSIGNED accepts tokens without a signature" in broker.log_text
    assert broker.log_text.count("accepts tokens without a signature") == 1
