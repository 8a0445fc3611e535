from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pybroker.config.group_settings import FAMILIES
from pybroker.config.load import ConfigFileError, ignored_variables, load
from pybroker.config.setting import ConfigError
from pybroker.config.table import BROKER_SETTINGS, family_of

if TYPE_CHECKING:
    from pathlib import Path


def file_with(directory: Path, text: str | bytes) -> Path:
    path = directory / "server.properties"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def test_sources_from_weak_to_strong(tmp_path: Path) -> None:
    file = file_with(tmp_path, "num.partitions=2\nfetch.max.bytes=2048\nlog.roll.hours=2\n")
    environment = {"KAFKA_NUM_PARTITIONS": "3", "KAFKA_FETCH_MAX_BYTES": "3072"}
    loaded = load(file=file, environment=environment, overrides={"num.partitions": "4"})
    config = loaded.config
    assert (config.num_partitions, config.fetch_max_bytes, config.log_roll_hours, config.max_connections) == (
        4,
        3072,
        2,
        2**31 - 1,
    )
    assert config.origins == {
        "num.partitions": "command line",
        "fetch.max.bytes": "KAFKA_FETCH_MAX_BYTES",
        "log.roll.hours": str(file),
    }
    assert loaded.warnings == ()
    assert loaded.notices == ()


def test_an_empty_text_for_null_leaves_the_word_to_the_next_source(tmp_path: Path) -> None:
    file = file_with(tmp_path, "log.dirs=/a\nlog.retention.ms=5\n")
    config = load(file=file, environment={"KAFKA_LOG_DIRS": "", "KAFKA_LOG_RETENTION_MS": " "}).config
    assert (config.log_dirs, config.log_retention_ms) == (("/a",), 5)
    assert config.origins["log.dirs"] == str(file)


def test_an_unknown_name_is_a_warning_with_its_origin(tmp_path: Path) -> None:
    loaded = load(
        file=file_with(tmp_path, "num.partition=2"), environment={"KAFKA_BROKERS": "x"}, overrides={"retention.ms": "1"}
    )
    assert loaded.warnings == (
        f"unknown property num.partition (from {tmp_path}/server.properties)",
        "unknown property brokers (from KAFKA_BROKERS)",
        "unknown property retention.ms (from command line)",
    )


def test_settings_of_a_listener_that_is_not_there_are_a_warning() -> None:
    overrides = {
        "listeners": "IN://:9092,OUT_1://:9094,CONTROLLER://:9093",
        "listener.security.protocol.map": "IN:PLAINTEXT,OUT_1:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "controller.listener.names": "CONTROLLER,ELSEWHERE",
        "inter.broker.listener.name": "IN",
    }
    theirs = ("in", "out_1", "controller", "elsewhere", "metrics", "admin")
    names = [f"listener.name.{listener}.ssl.client.auth" for listener in (*theirs, "nope", "IN", "out")]
    (warning,) = load(overrides=overrides | dict.fromkeys(names, "required")).warnings
    assert warning == (
        "no such listener (there are controller, in, out_1, elsewhere, in lower case):"
        " listener.name.nope.ssl.client.auth, listener.name.IN.ssl.client.auth, listener.name.out.ssl.client.auth"
    )


def test_a_name_without_effect_is_logged_when_it_is_not_its_default() -> None:
    loaded = load(
        overrides={
            "num.replica.alter.log.dirs.threads": "1",
            "transaction.state.log.min.isr": "2",
            "num.io.threads": "16",
            "num.network.threads": "3",
            "remote.log.storage.system.enable": "true",
            "zookeeper.connect": "z:2181",
        }
    )
    assert loaded.warnings == (
        "without effect in this version: num.replica.alter.log.dirs.threads, remote.log.storage.system.enable",
    )
    assert loaded.notices == ("accepted and ignored: num.io.threads, zookeeper.connect",)


@pytest.mark.parametrize("origin", ["file", "environment", "command line"])
def test_a_bad_value_is_refused_with_key_value_and_origin(tmp_path: Path, origin: str) -> None:
    file = file_with(tmp_path, "num.partitions = many") if origin == "file" else None
    environment = {"KAFKA_NUM_PARTITIONS": "many"} if origin == "environment" else {}
    overrides = {"num.partitions": "many"} if origin == "command line" else {}
    with pytest.raises(ConfigError) as caught:
        load(file=file, environment=environment, overrides=overrides)
    named = {"file": f"{tmp_path}/server.properties", "environment": "KAFKA_NUM_PARTITIONS"}.get(origin, origin)
    assert str(caught.value) == f"num.partitions=many: must be a whole number (from {named})"


def test_a_bad_combination_names_its_origin_too() -> None:
    with pytest.raises(ConfigError, match=r"^queued\.max\.request\.bytes=5: .* \(from KAFKA_QUEUED_MAX_REQUEST_BYTES\)$"):
        load(environment={"KAFKA_QUEUED_MAX_REQUEST_BYTES": "5"})


def test_a_port_for_the_first_listener() -> None:
    assert [e.port for e in load(port=0).config.endpoints] == [0]
    assert [e.port for e in load(overrides={"listeners": "PLAINTEXT://a:1"}, port=7).config.endpoints] == [7]


def test_a_host_for_the_first_listener(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text("listeners=PLAINTEXT://:9093\n")
    assert [str(e) for e in load(host="0.0.0.0").config.endpoints] == ["PLAINTEXT://0.0.0.0:9092"]
    assert [str(e) for e in load(file=file, host="::1", port=1).config.endpoints] == ["PLAINTEXT://[::1]:1"]
    with pytest.raises(ConfigError, match=r"^listeners=PLAINTEXT://\[127\.0\.0\.1:9093\]:9092: .*is not an IPv6 address"):
        load(host="127.0.0.1:9093")


def test_advertised_listeners_without_listeners_is_a_warning() -> None:
    overrides = {"advertised.listeners": "PLAINTEXT://kafka:9092"}
    warnings = (
        "advertised.listeners is set and listeners is not: only clients of this machine reach PLAINTEXT://127.0.0.1:9092",
    )
    assert load(overrides=overrides).warnings == warnings
    assert load(overrides=overrides, host="0.0.0.0").warnings == ()
    assert load(overrides={**overrides, "listeners": "PLAINTEXT://:9092"}).warnings == ()


def test_variables_that_only_some_commands_read() -> None:
    environment = {"KAFKA_NUM_PARTITIONS": "7", "KAFKA_BOOTSTRAP_SERVERS": "a:1", "KAFKA_HEAP_OPTS": "-Xmx1G"}
    assert ignored_variables(environment) == ["KAFKA_NUM_PARTITIONS"]


def test_the_environment_of_a_compose_file_for_kafkas_image() -> None:
    environment = {
        "CLUSTER_ID": "4L6g3nShT-eMCtK--X86sw",
        "KAFKA_NODE_ID": "1",
        "KAFKA_PROCESS_ROLES": "broker,controller",
        "KAFKA_LISTENERS": "CONTROLLER://localhost:9091,HOST://0.0.0.0:9092,DOCKER://0.0.0.0:9093",
        "KAFKA_ADVERTISED_LISTENERS": "HOST://localhost:9092,DOCKER://kafka:9093",
        "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "CONTROLLER:PLAINTEXT,DOCKER:PLAINTEXT,HOST:PLAINTEXT",
        "KAFKA_CONTROLLER_QUORUM_VOTERS": "1@localhost:9091",
        "KAFKA_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
        "KAFKA_INTER_BROKER_LISTENER_NAME": "DOCKER",
        "KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS": "3000",
        "KAFKA_HEAP_OPTS": "-Xmx1G",
        "KAFKA_LOG4J_ROOT_LOGLEVEL": "INFO",
        "KAFKA_LOG_DIRS": "/var/lib/kafka/data",
        "HOME": "/",
    }
    loaded = load(environment=environment)
    config = loaded.config
    assert [str(e) for e in config.endpoints] == ["HOST://0.0.0.0:9092", "DOCKER://0.0.0.0:9093"]
    assert [str(e) for e in config.advertised_endpoints] == ["HOST://localhost:9092", "DOCKER://kafka:9093"]
    assert (config.node_id, config.cluster_id, config.log_dirs) == (1, "4L6g3nShT-eMCtK--X86sw", ("/var/lib/kafka/data",))
    assert loaded.warnings == ()
    assert config.controller_quorum_voters == ("1@localhost:9091",)
    assert loaded.config.dropped_listeners == ("CONTROLLER",)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(ConfigFileError, match=r"cannot read .*/none: No such file"):
        load(file=tmp_path / "none")
    with pytest.raises(ConfigFileError, match=r"server\.properties: line 2: "):
        load(file=file_with(tmp_path, "a=1\nb=\\u1"))


def test_a_file_is_utf8_or_else_latin1(tmp_path: Path) -> None:
    assert load(file=file_with(tmp_path, "broker.rack=é".encode())).config.broker_rack == "é"
    assert load(file=file_with(tmp_path, "broker.rack=é".encode("latin-1"))).config.broker_rack == "é"


def test_families_are_disjoint_and_hide_no_row() -> None:
    for name in BROKER_SETTINGS:
        family = family_of(name)
        assert family is None or family.prefix in ("controller.", "metadata.", "metrics."), "a row inside a family comes first"
    prefixes = [family.prefix for family in FAMILIES]
    assert len({*prefixes}) == len(prefixes)


@pytest.mark.parametrize(
    ("name", "prefix"),
    [
        ("ssl.provider", "ssl.provider"),
        ("ssl.provider.x", None),
        ("ssl.clientauth", None),
        ("ssl.keystore.filename", None),
        ("sasl.enabled.mechanism", None),
        ("sasl.kerberos.service.name", "sasl.kerberos."),
        ("ssl", None),
        ("sslx.keystore", None),
        ("metric.reporters", "metric.reporters"),
        ("metric.reporters.x", None),
        ("metrics.num.samples", "metrics."),
    ],
)
def test_names_that_are_accepted_unread(name: str, prefix: str | None) -> None:
    family = family_of(name)
    assert (family.prefix if family is not None else None) == prefix


@pytest.mark.parametrize(
    ("overrides", "text", "reason"),
    [
        ({}, "localhost:19092", "is for a broker in a container; outside of one set advertised.listeners"),
        (
            {"pybroker.advertised.by.peer": "true"},
            "http://localhost",
            "is not HOST or HOST:PORT; an IPv6 address needs brackets",
        ),
        (
            {"pybroker.advertised.by.peer": "true", "advertised.listeners": "PLAINTEXT://kafka:9092"},
            "localhost:19092",
            "has no effect, because advertised.listeners names every listener: set only one of the two",
        ),
        (
            {
                "pybroker.advertised.by.peer": "true",
                "listeners": "PLAINTEXT://:9092,INTERNAL://:29092",
                "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,INTERNAL:PLAINTEXT",
            },
            "localhost:19092",
            "has the port of one listener, but INTERNAL and PLAINTEXT are without an address: set advertised.listeners instead",
        ),
    ],
)
def test_an_address_for_clients_outside_that_has_no_meaning_is_refused(overrides: dict[str, str], text: str, reason: str) -> None:
    with pytest.raises(ConfigError) as raised:
        load(environment={"PYBROKER_ADVERTISED": text}, overrides=overrides)
    assert str(raised.value) == f"PYBROKER_ADVERTISED={text}: {reason}"


def test_the_variable_of_the_container_is_an_address_for_clients_outside() -> None:
    overrides = {"pybroker.advertised.by.peer": "true"}
    loaded = load(environment={"PYBROKER_ADVERTISED": "localhost:19092"}, overrides=overrides)
    assert loaded.config.outside_address == ("localhost", 19092)
    assert load(environment={"PYBROKER_ADVERTISED": " "}, overrides=overrides).config.outside_address is None
    assert loaded.config.unadvertised_listeners == {"PLAINTEXT"}
