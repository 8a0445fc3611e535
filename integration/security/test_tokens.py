"""Delegation tokens over the life of a broker: they survive its death, and end with their time, or with the secret key.

The stories of integration/tools compare the rest with Apache Kafka.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path

import pytest

from integration.security.sasl import PASSWORD, PLAIN_MODULE, USER, sasl_listener
from testing.process.broker import BrokerProcess
from testing.process.our_commands import OurCommands
from testing.process.tool_runner import Ran
from testing.waiting import until

KEY = "the brokers' secret"
SETTINGS = sasl_listener(
    "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512", delegation_token_secret_key=KEY, delegation_token_expiry_check_interval_ms="100"
)


class Client:
    """The commands of a client that logs in by a password, or by a token."""

    def __init__(self, folder: Path, broker: BrokerProcess) -> None:
        self._broker, self._folder, self._commands = broker, folder, OurCommands(folder)
        self.log_in("PLAIN", PLAIN_MODULE, f'username="{USER}" password="{PASSWORD}"')

    def log_in(self, mechanism: str, module: str, options: str) -> None:
        (self._folder / "client").write_text(
            f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism={mechanism}\nsasl.jaas.config={module} required {options};\n"
        )

    def log_in_by_token(self, token_id: str, hmac: str, mechanism: str = "SCRAM-SHA-256") -> None:
        module = "org.apache.kafka.common.security.scram.ScramLoginModule"
        self.log_in(mechanism, module, f'username="{token_id}" password="{hmac}" tokenauth="true"')

    def run(self, tool: str, *arguments: str) -> Ran:
        return self._commands.run(tool, *arguments, "--command-config", "client", "--bootstrap-server", self._broker.bootstrap)

    def create_token(self, lifetime_ms: int = -1) -> tuple[str, str]:
        """Return the id and the HMAC of a new token."""
        ran = self.run("delegation-tokens", "--create", "--max-life-time-period", str(lifetime_ms))
        assert ran.code == 0, ran
        token_id, hmac, *_ = ran.out.splitlines()[-1].split()
        return token_id, hmac


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    process = BrokerProcess(tmp_path / "broker", SETTINGS)
    process.start()
    yield process
    process.close()


def test_a_token_survives_a_kill_and_ends_with_the_secret_key(broker: BrokerProcess, tmp_path: Path) -> None:
    client = Client(tmp_path, broker)
    token_id, hmac = client.create_token()
    broker.kill()
    broker.start()
    for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
        client.log_in_by_token(token_id, hmac, mechanism)
        assert client.run("topics", "--create", "--topic", mechanism).out == f"Created topic {mechanism}.\n"
    files = [path for path in broker.data_dir.rglob("*") if path.is_file()]
    stored = b"".join(path.read_bytes() for path in files)
    assert token_id.encode() in stored, "its entry is in the metadata"
    for secret in (hmac.encode(), base64.b64decode(hmac), KEY.encode()):
        assert secret not in stored
        assert secret not in broker.log_text.encode()
    broker.stop()
    broker.overrides["delegation.token.secret.key"] = "another secret"
    broker.start()
    assert "Authentication failed" in client.run("topics", "--list").err
    assert f"whose login as '{token_id}' failed: the password is wrong" in broker.log_text


def test_a_token_ends_with_its_time_and_is_removed(broker: BrokerProcess, tmp_path: Path) -> None:
    client = Client(tmp_path, broker)
    token_id, hmac = client.create_token(lifetime_ms=1)
    until(lambda: f"Removed delegation token {token_id} of User:{USER}, which has expired" in broker.log_text, "it is removed")
    client.log_in_by_token(token_id, hmac)
    assert "Authentication failed" in client.run("topics", "--list").err
