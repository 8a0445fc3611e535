"""The settings of each of several brokers, and the data directories that they refuse."""

from __future__ import annotations

from pathlib import Path

import pytest

from pybroker.broker.old_data import old_data, refusal_of
from pybroker.broker.several.settings import check, properties_of, why_not_start
from pybroker.config.load import load
from pybroker.config.setting import ConfigError
from pybroker.log.files.filesystem import Filesystem

ALL = {
    "log.dirs": "/a,/b",
    "listeners": "PLAINTEXT://127.0.0.1:9092,OUTSIDE://[::1]:0",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,OUTSIDE:PLAINTEXT",
    "inter.broker.listener.name": "PLAINTEXT",
}


def test_a_broker_has_ports_and_directories_of_its_own() -> None:
    config = load(overrides=ALL).config
    assert properties_of(config, 1, "unix:/s") == {
        "node.id": "1",
        "log.dirs": "/a/broker_1,/b/broker_1",
        "metadata.store": "unix:/s",
        "listeners": "PLAINTEXT://127.0.0.1:9092,OUTSIDE://[::1]:0",
    }
    assert properties_of(config, 3, "unix:/s") == {
        "node.id": "3",
        "log.dirs": "/a/broker_3,/b/broker_3",
        "metadata.store": "unix:/s",
        "listeners": "PLAINTEXT://127.0.0.1:9094,OUTSIDE://[::1]:0",
    }


def test_other_addresses_and_the_old_name_of_the_node_id_are_those_of_the_broker_too() -> None:
    more = {"advertised.listeners": "PLAINTEXT://a:9092,OUTSIDE://b:19092", "metrics.listener": "[::1]:8000", "broker.id": "7"}
    properties = properties_of(load(overrides={**ALL, **more}).config, 2, "unix:/s")
    assert properties["advertised.listeners"] == "PLAINTEXT://a:9093,OUTSIDE://b:19093"
    assert properties["metrics.listener"] == "[::1]:8001"
    assert "pybroker.admin.listener" not in properties
    with_api = load(overrides={**ALL, "pybroker.admin.listener": "http://localhost:8080"}).config
    assert properties_of(with_api, 3, "unix:/s")["pybroker.admin.listener"] == "http://localhost:8082"
    assert properties["node.id"] == properties["broker.id"] == "2"
    assert load(overrides={**ALL, **more, **properties}).config.node_id == 2


def test_a_broker_that_is_started_again_has_the_port_that_it_got() -> None:
    config = load(overrides={"listeners": "PLAINTEXT://127.0.0.1:0"}).config
    assert properties_of(config, 2, "unix:/s")["listeners"] == "PLAINTEXT://127.0.0.1:0"
    assert properties_of(config, 2, "unix:/s", port=4711)["listeners"] == "PLAINTEXT://127.0.0.1:4711"


@pytest.mark.parametrize(
    ("more", "key"),
    [
        ({"listeners": "PLAINTEXT://:65534"}, "listeners"),
        ({"controller.quorum.voters": "1@a:9093,2@b:9093"}, "controller.quorum.voters"),
        ({"node.id": "7"}, "node.id"),
        ({"pybroker.virtual.time": "true", "pybroker.admin.listener": "http://localhost:0"}, "pybroker.virtual.time"),
        ({"broker.id": "0", "node.id": "0"}, "node.id"),
        ({"metadata.store": "unix:/s"}, "metadata.store"),
        ({"listeners": "PLAINTEXT://0.0.0.0:9092"}, "listeners"),
        ({"metrics.listener": "127.0.0.1:9094"}, "metrics.listener"),
        ({"metrics.listener": "127.0.0.1:9404", "pybroker.admin.listener": "http://localhost:9406"}, None),
        ({"metrics.listener": "127.0.0.1:9404", "pybroker.admin.listener": "http://127.0.0.1:9406"}, "pybroker.admin.listener"),
        ({"metrics.listener": "127.0.0.1:9405", "pybroker.admin.listener": "http://127.0.0.1:9404"}, "metrics.listener"),
        ({"metrics.listener": "[::1]:9093"}, None),
        ({"metrics.listener": ":9093"}, "metrics.listener"),
        ({"metrics.listener": "127.0.0.1:9095"}, None),
    ],
)
def test_settings_that_several_brokers_cannot_have_are_refused(more: dict[str, str], key: str | None) -> None:
    config = load(overrides=more).config
    refused = ""
    try:
        check(config, 3)
    except ConfigError as error:
        refused = error.key
    assert refused == (key or "")


def test_two_brokers_that_need_the_same_port_are_named_with_the_properties() -> None:
    with pytest.raises(ConfigError) as refused:
        check(load(overrides={"metrics.listener": "127.0.0.1:9093"}).config, 3)
    assert str(refused.value) == (
        "metrics.listener=127.0.0.1:9093: broker 1 and listeners=PLAINTEXT://127.0.0.1:9092 of broker 2 need the same port 9093: "
        "broker i of 3 has all ports raised by i - 1, so choose ports that differ by 3 or more"
    )


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("meta.properties", "is the data directory of a single broker"),
        ("topic-0/0.log", "is the data directory of a single broker"),
    ],
)
def test_the_data_directory_of_a_single_broker_is_refused(tmp_path: Path, name: str, words: str) -> None:
    file = tmp_path / name
    file.parent.mkdir(exist_ok=True)
    file.write_text("")
    reason = why_not_start(load(overrides={"log.dirs": str(tmp_path)}).config, 3, Filesystem())
    assert reason is not None
    assert f"{tmp_path} {words}" in reason
    assert "\n" not in reason


def test_fewer_brokers_than_before_are_refused(tmp_path: Path) -> None:
    config = load(overrides={"log.dirs": str(tmp_path)}).config
    for number in range(1, 4):
        assert why_not_start(config, number, Filesystem()) is None
        (tmp_path / f"broker_{number}").mkdir()
    (tmp_path / "broker_backup").mkdir()
    assert why_not_start(config, 3, Filesystem()) is None
    assert why_not_start(config, 4, Filesystem()) is None
    assert "has the data of 3 brokers: start with --brokers 3" in str(why_not_start(config, 2, Filesystem()))


def test_the_directory_of_one_of_several_brokers_names_the_command_that_starts_them(tmp_path: Path) -> None:
    own = tmp_path / "broker_2"
    own.mkdir()
    (own / "meta.properties").write_text("version=1\nnode.id=2\ncluster.id=c\n")
    found = old_data([str(own)], Filesystem())
    (tmp_path / "metadata.sqlite").write_text("")
    reason = refusal_of(str(own / "metadata.sqlite"), found, Filesystem())
    assert reason.endswith(f"start all with 'pybroker start --brokers N --data-dir {tmp_path}'")
    assert "adopt" not in reason
