"""franz-go and sarama, with their admin clients, see what they see of Apache Kafka 3.9 in the same state.

    SECURITY_MATRIX=all python -m pytest integration/security/test_go_clients.py

They log in by SCRAM over TLS, make a user, ACLs and quotas, try what these let the user do, and try to get in with mistakes.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from confluent_kafka.admin import AdminClient, ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion

from integration.security.sasl import PLAIN_MODULE
from pybroker.config.acl_settings import AUTHORIZERS
from pybroker.security.sasl.scram import MODULE
from testing.clients.certificates import Stores
from testing.process.broker import BrokerProcess
from testing.process.go import built
from testing.process.kafka_peer import free_port
from testing.waiting import LONG_WAIT_S

pytestmark = pytest.mark.skipif(
    os.environ.get("SECURITY_MATRIX") != "all" or not all(map(shutil.which, ("go", "java", "mvn"))),
    reason="SECURITY_MATRIX=all is not set, or Go, Java or Maven is missing",
)

KAFKA: Final = [sys.executable, "-m", "testing.process.kafka_peer", "start"]
OF_LISTENER: Final = "listener.name.sasl_ssl"
USER, PASSWORD = "admin", "admin's secret"
GENERAL: Final = re.compile(r": (Request Request\(.*\) is not authorized|Cluster authorization failed)\.$", re.MULTILINE)
"""The end of sarama's line where the response has a message. Kafka's message has a Java object in it, or is not there."""


class Secured:
    """A broker with a listener for logins over TLS, and a plain one that is there to add the first user."""

    def __init__(self, folder: Path, stores: Stores, start_command: list[str] | None = None) -> None:
        port, controller, self.ca = free_port(), free_port(), stores.ca
        self.bootstrap = f"127.0.0.1:{free_port()}"
        listeners = f"PLAINTEXT://127.0.0.1:{port},SASL_SSL://{self.bootstrap}"
        modules = {
            f"listener.name.sasl_ssl.{name}.sasl.jaas.config": f"{MODULE} required;"
            for name in ("scram-sha-256", "scram-sha-512")
        }
        settings = {
            **stores.of_broker(), **modules,
            f"{OF_LISTENER}.plain.sasl.jaas.config": f'{PLAIN_MODULE} required user_nobody="none";',
            "listeners": listeners,
            "advertised.listeners": listeners,
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SASL_SSL:SASL_SSL,CONTROLLER:PLAINTEXT",
            "sasl.enabled.mechanisms": "SCRAM-SHA-256,SCRAM-SHA-512",
            "authorizer.class.name": AUTHORIZERS[0],
            "super.users": f"User:{USER};User:ANONYMOUS",
        }  # fmt: skip
        if start_command:
            settings["listeners"] += f",CONTROLLER://127.0.0.1:{controller}"
            settings["controller.quorum.voters"] = f"1@127.0.0.1:{controller}"
        self.process = BrokerProcess(folder, settings, start_command=start_command)
        self.process.port = port
        self.process.start()
        credential = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4_096)
        admin = AdminClient({"bootstrap.servers": self.process.bootstrap})
        for done in admin.alter_user_scram_credentials(
            [UserScramCredentialUpsertion(USER, credential, PASSWORD.encode())]
        ).values():
            done.result(LONG_WAIT_S)

    def seen_by(self, client: str) -> list[str]:
        """Return what a client prints, without addresses and general messages."""
        command = [str(built("secured")), client, self.bootstrap, self.ca, USER, PASSWORD]
        done = subprocess.run(command, capture_output=True, text=True, timeout=LONG_WAIT_S, check=False)
        assert done.returncode == 0, (done.stdout, done.stderr)
        return GENERAL.sub("", done.stdout.replace(self.bootstrap, "BOOTSTRAP")).splitlines()


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Secured, Secured]]:
    folder = tmp_path_factory.mktemp("go")
    stores = Stores(folder)
    both = Secured(folder / "kafka", stores, KAFKA), Secured(folder / "ours", stores)
    yield both
    for one in both:
        one.process.close()


@pytest.mark.parametrize("client", ["kadm", "sarama"])
def test_a_client_sees_what_it_sees_of_kafka(client: str, brokers: tuple[Secured, Secured]) -> None:
    of_kafka, of_ours = (broker.seen_by(client) for broker in brokers)
    assert of_ours == of_kafka
    assert len(of_ours) > 20
    assert "Traceback" not in brokers[1].process.log_text
    assert PASSWORD not in brokers[1].process.log_text
