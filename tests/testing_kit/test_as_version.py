"""A broker that serves as an old release of Kafka does to requests what the brokers of that release did."""

from __future__ import annotations

import socket

import pytest

from pybroker.broker.joining import StartError
from pybroker.config.setting import ConfigError
from pybroker.testing import Broker, Cluster
from testing.wire.raw import API_VERSIONS, FETCH, METADATA, PRODUCE, Connection, api_versions, string

ALL_TOPICS = b"\0\0\0\0"
UNKNOWN = (  # of ApiVersions: what brokers of the releases sent, without the correlation id
    ("0.10.2", 1, "0023 00000000"),
    ("1.1", 2, "0023 00000000"),
    ("2.8", 4, "0023 00000001 0012 0000 0003"),
    ("3.9", 5, "0023 00000001 0012 0000 0004"),
    ("4.3", 5, "0023 00000001 0012 0000 0004"),
)
REFUSED = (
    ("0.8.2", API_VERSIONS, 0),
    ("0.8.2", PRODUCE, 1),
    ("0.8.2", 11, 0),  # JoinGroup: this broker knows no groups
    ("0.10.2", METADATA, 3),
    ("0.10.2", FETCH, 4),
    ("1.1", PRODUCE, 6),
    ("2.8", 60, 1),  # DescribeCluster
    ("3.9", FETCH, 18),
    ("4.3", PRODUCE, 2),
    ("4.3", FETCH, 3),
    ("4.3", 2, 0),  # ListOffsets
)


@pytest.mark.parametrize(("name", "version", "response"), UNKNOWN)
def test_an_unknown_version_of_api_versions_gets_the_response_of_the_release(name: str, version: int, response: str) -> None:
    with Broker.in_thread(as_version=name) as broker, Connection(broker.bootstrap) as connection:
        assert connection.call(API_VERSIONS, version, b"") == bytes.fromhex(response)
        assert PRODUCE in api_versions(connection), "the connection serves a lower version"


@pytest.mark.parametrize(("name", "key", "version"), REFUSED)
def test_a_version_that_the_release_does_not_know_ends_the_connection(name: str, key: int, version: int) -> None:
    with Broker.in_thread(as_version=name) as broker, Connection(broker.bootstrap) as connection:
        sent = connection.send(key, version, b"")
        with pytest.raises(ConnectionError):
            connection.receive(sent)


def test_kafka_0_9_does_not_respond_to_what_it_does_not_know_and_takes_the_next_request() -> None:
    with Broker.in_thread(as_version="0.9") as broker, Connection(broker.bootstrap) as connection:
        connection.send(API_VERSIONS, 0, b"")
        connection.send(PRODUCE, 2, b"")
        connection.receive(connection.send(METADATA, 0, ALL_TOPICS))


def test_the_methods_of_a_broker_know_more_than_its_clients() -> None:
    with Broker.in_thread(as_version="0.8.2") as broker:
        broker.create_topic("orders")
        broker.produce("orders", b"1")
        assert [one.value for one in broker.consume("orders")] == [b"1"]
        with Connection(broker.bootstrap) as connection:
            topics = b"\0\0\0\1" + string("orders")
            assert string("orders") in connection.call(METADATA, 0, topics)


def test_a_process_serves_as_a_release() -> None:
    with Broker.subprocess(as_version="2.8") as broker, Connection(broker.bootstrap) as connection:
        assert api_versions(connection)[PRODUCE] == (0, 9)


def test_a_rule_of_faults_comes_before_the_release() -> None:
    with Broker.in_thread(as_version="4.3") as broker:
        broker.faults.add(api="Metadata", close=True)
        with Connection(broker.bootstrap) as connection, pytest.raises(ConnectionError):
            connection.call(METADATA, 1, ALL_TOPICS)


def test_a_release_that_is_none_is_refused() -> None:
    with (
        pytest.raises(ConfigError, match=r"pybroker\.as\.version=0\.7: must be one of 0\.8\.2, "),
        Broker.in_thread(as_version="0.7"),
    ):
        pass


async def test_brokers_of_a_cluster_need_all_versions_of_each_other() -> None:
    with pytest.raises(StartError, match=r"pybroker\.as\.version=3\.9: is for a broker that is alone"):
        async with Cluster(2, {"pybroker.as.version": "3.9"}):
            pass


def test_a_frame_that_is_too_short_ends_the_connection() -> None:
    with Broker.in_thread(as_version="3.9") as broker, socket.create_connection((broker.host, broker.port), 30) as connection:
        connection.sendall(bytes.fromhex("00000004 00120000"))
        assert connection.recv(1) == b""


def test_a_release_that_is_a_number_is_refused() -> None:
    with pytest.raises(ConfigError, match="it is a text"):
        Broker(as_version=0.9)  # type: ignore[arg-type]
