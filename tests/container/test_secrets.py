"""Stores, passwords and login modules that variables of other images name by their files."""

from __future__ import annotations

from pathlib import Path

import pytest

from pybroker.config.load import Loaded
from pybroker.config.setting import ConfigError
from pybroker.container.entry import read_entry

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
SASL = {
    "KAFKA_LISTENERS": "OUT://:9092,IN://:9093",
    "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "OUT:SASL_PLAINTEXT,IN:SASL_PLAINTEXT",
    "KAFKA_INTER_BROKER_LISTENER_NAME": "IN",
    "KAFKA_SASL_ENABLED_MECHANISMS": "PLAIN,SCRAM-SHA-256",
}
JAAS = f"""
KafkaServer {{ {PLAIN} required user_a="b\\"c"; {SCRAM} required username="x" password="y"; }};
in.KafkaServer {{ {PLAIN} required user_broker="d"; }};
Client {{ org.apache.zookeeper.server.auth.DigestLoginModule required; }};
"""


def read(environment: dict[str, str], root: Path) -> Loaded:
    return read_entry(environment, root=str(root)).loaded


def test_stores_and_passwords_are_files_of_the_folder_of_secrets(tmp_path: Path) -> None:
    folder = tmp_path / "etc/kafka/secrets"
    folder.mkdir(parents=True)
    for name in ("key", "store", "trust"):
        (folder / f"{name}_creds").write_text(f"{name} secret\n")
    environment = {
        "KAFKA_SSL_KEYSTORE_FILENAME": "broker.jks",
        "KAFKA_SSL_KEYSTORE_CREDENTIALS": "store_creds",
        "KAFKA_SSL_KEY_CREDENTIALS": "key_creds",
        "KAFKA_SSL_TRUSTSTORE_FILENAME": "trust.jks",
        "KAFKA_SSL_TRUSTSTORE_CREDENTIALS": "trust_creds",
    }
    loaded = read(environment, tmp_path)
    config = loaded.config
    stores = config.ssl_keystore_location, config.ssl_truststore_location
    assert stores == (str(folder / "broker.jks"), str(folder / "trust.jks"))
    passwords = config.ssl_keystore_password, config.ssl_key_password, config.ssl_truststore_password
    assert passwords == ("store secret", "key secret", "trust secret")
    assert not loaded.warnings
    with pytest.raises(ConfigError, match=r"KAFKA_SSL_KEY_CREDENTIALS=none: the password cannot be read from .*: No such file"):
        read(environment | {"KAFKA_SSL_KEY_CREDENTIALS": "none"}, tmp_path)


def test_the_login_modules_of_a_java_file_are_those_of_each_listener(tmp_path: Path) -> None:
    file = tmp_path / "jaas.conf"
    file.write_text(JAAS)
    environment = SASL | {"KAFKA_OPTS": f"-Xmx1g -Djava.security.auth.login.config={file} -Dx=y"}
    unread = read(environment, tmp_path).config.unread
    key = "listener.name.{}.{}.sasl.jaas.config"
    assert unread[key.format("out", "plain")] == f'{PLAIN} required user_a="b\\"c";'
    assert unread[key.format("out", "scram-sha-512")] == f'{SCRAM} required username="x" password="y";'
    assert unread[key.format("in", "plain")] == f'{PLAIN} required user_broker="d";'
    assert key.format("in", "scram-sha-256") not in unread
    named = environment | {"KAFKA_LISTENER_NAME_IN_PLAIN_SASL_JAAS_CONFIG": f"{PLAIN} required;"}
    assert read(named, tmp_path).config.unread[key.format("in", "plain")] == f"{PLAIN} required;"


@pytest.mark.parametrize(
    ("text", "reason"),
    [(None, "No such file or directory"), ("A { secret", "the control flag of a login module is missing")],
)
def test_a_java_file_that_cannot_be_read_is_refused_by_its_name(tmp_path: Path, text: str | None, reason: str) -> None:
    file = tmp_path / "jaas.conf"
    if text is not None:
        file.write_text(text)
    with pytest.raises(ConfigError) as refused:
        read(SASL | {"KAFKA_OPTS": f"-Djava.security.auth.login.config={file}"}, tmp_path)
    assert str(refused.value) == f"KAFKA_OPTS={file}: the login modules cannot be read: {reason}"
