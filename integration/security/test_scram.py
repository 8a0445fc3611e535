"""Stock clients log in by SCRAM, with credentials that a client sets while the broker runs."""

from __future__ import annotations

from collections.abc import Iterator

import confluent_kafka
import pytest
from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)

from integration.security.sasl import CLIENT_ERRORS, WRITERS, WRONG, confluent, login, read, sasl_listener
from testing.process.broker import BrokerProcess

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


@every_client
@every_mechanism
def test_a_user_writes_and_reads(client: str, mechanism: str, broker: BrokerProcess) -> None:
    carol, topic = login("carol", PASSWORD, mechanism), f"of-{client}-{mechanism}"
    WRITERS[client](broker.bootstrap, topic, carol)
    assert read(broker.bootstrap, topic, 1, carol) == [client.encode()]


@every_client
@pytest.mark.parametrize("user", ["carol", "nobody"])
def test_a_wrong_password_and_an_unknown_user_look_the_same(
    client: str, user: str, broker: BrokerProcess, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(CLIENT_ERRORS) as refused:
        WRITERS[client](broker.bootstrap, "topic", login(user, WRONG, "SCRAM-SHA-256"))
    message = "Authentication failed during authentication due to invalid credentials with SASL mechanism SCRAM-SHA-256"
    assert message in f"{refused.value} {caplog.text}"
    assert f"whose login as '{user}' failed" in broker.log_text


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
