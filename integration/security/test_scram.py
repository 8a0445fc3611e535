"""Stock clients log in by SCRAM, with credentials that a client sets while the broker runs."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import confluent_kafka
import pytest
from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)

from integration.security.sasl import WRITERS, WRONG, confluent, login, sasl_listener
from pybroker.security.sasl.scram import MODULE
from testing.process.broker import BrokerProcess
from testing.process.our_commands import run_command

every_client = pytest.mark.parametrize("client", WRITERS)
every_mechanism = pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
NAMES = {"SCRAM-SHA-256": ScramMechanism.SCRAM_SHA_256, "SCRAM-SHA-512": ScramMechanism.SCRAM_SHA_512}
PASSWORD = "carol's secret"


def alter(broker: BrokerProcess, *alterations: object) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap, **confluent(login())})
    for future in admin.alter_user_scram_credentials(list(alterations)).values():
        future.result(20)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    process = BrokerProcess(tmp_path_factory.mktemp("scram"), sasl_listener("PLAIN,SCRAM-SHA-256,SCRAM-SHA-512"))
    process.start()
    for mechanism in NAMES.values():
        alter(process, UserScramCredentialUpsertion("carol", ScramCredentialInfo(mechanism, 8_192), PASSWORD.encode()))
    yield process
    process.close()


def test_credentials_survive_a_kill_and_a_removed_one_is_of_no_use(broker: BrokerProcess) -> None:
    alter(broker, UserScramCredentialUpsertion("dave", ScramCredentialInfo(NAMES["SCRAM-SHA-256"], 4_096), b"d"))
    broker.kill()
    broker.start()
    dave = login("dave", "d", "SCRAM-SHA-256")
    WRITERS["confluent-kafka"](broker.bootstrap, "of-dave", dave)
    alter(broker, UserScramCredentialDeletion("dave", NAMES["SCRAM-SHA-256"]))
    with pytest.raises(RuntimeError, match="invalid credentials"):
        WRITERS["confluent-kafka"](broker.bootstrap, "of-dave", dave)


def test_no_secret_is_in_the_log(broker: BrokerProcess) -> None:
    assert PASSWORD not in broker.log_text


def test_a_refused_change_has_kafkas_error(broker: BrokerProcess) -> None:
    with pytest.raises(confluent_kafka.KafkaException, match="Too few iterations"):
        alter(broker, UserScramCredentialUpsertion("eve", ScramCredentialInfo(NAMES["SCRAM-SHA-256"], 1_000), b"e"))


def doctor(broker: BrokerProcess, config: Path) -> tuple[int, str]:
    command = [sys.executable, "-m", "pybroker", "doctor", broker.bootstrap, "--command-config", str(config)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    return done.returncode, done.stdout


def test_our_commands_log_in(broker: BrokerProcess, tmp_path: Path) -> None:
    config, at = tmp_path / "client.properties", ("--bootstrap-server", broker.bootstrap)
    lines = "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=SCRAM-SHA-256\n"
    lines += "sasl.jaas.config={} required username=carol password={};"
    config.write_text(lines.format(MODULE, json.dumps(PASSWORD)))
    producer = ("kafka-console-producer", *at, "--topic", "of-commands", "--producer.config", str(config))
    assert run_command(*producer, given="by a command\n").code == 0
    assert "of-commands" in run_command("kafka-topics", *at, "--command-config", str(config), "--list").out
    code, printed = doctor(broker, config)
    assert (code, "A client on this machine works" in printed) == (0, True), printed
    config.write_text(lines.format(MODULE, json.dumps(WRONG)))
    error = "Authentication failed during authentication due to invalid credentials with SASL mechanism SCRAM-SHA-256"
    refused = run_command("kafka-topics", *at, "--command-config", str(config), "--list")
    assert (refused.code, refused.err) == (1, f"{broker.bootstrap}: {error}\n")
    code, printed = doctor(broker, config)
    assert code == 1
    assert f"The broker at {broker.bootstrap} does not let this client in: {error}." in printed
