"""Which nodes are the controllers, from Kafka's settings, and the command line of the etcd beside one."""

from __future__ import annotations

import pytest

from pybroker.config.broker import BrokerConfig
from pybroker.config.load import load_texts
from pybroker.config.setting import ConfigError
from pybroker.quorum.etcd_command import command, logged, token_of
from pybroker.quorum.members import Quorum, Voter, quorum_of

VOTERS = "controller.quorum.voters"
SERVERS = "controller.quorum.bootstrap.servers"
THREE = {
    "node.id": "2",
    "process.roles": "broker,controller",
    VOTERS: "1@kafka-1:9093, 2@kafka-2:9093,3@kafka-3:9093",
    "listeners": "PLAINTEXT://:9092,CONTROLLER://:9093",
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
}


def configured(**changes: str) -> BrokerConfig:
    properties = THREE | {name.replace("_", "."): text for name, text in changes.items()}
    return load_texts([{name: ("HERE", text) for name, text in properties.items()}]).config


def found(**changes: str) -> Quorum | None:
    return quorum_of(configured(**changes), lambda host: host == "kafka-2")


def test_three_combined_nodes() -> None:
    quorum = found()
    assert quorum is not None
    assert quorum.own == Voter("2", "kafka-2", 9093)
    assert quorum.is_broker
    assert quorum.metadata_store == "etcd:http://kafka-2:10093,http://kafka-1:10093,http://kafka-3:10093"
    arguments = command("etcd", quorum, "/data/controller.etcd", "token")
    assert {
        "--name=2",
        "--data-dir=/data/controller.etcd",
        "--listen-peer-urls=http://0.0.0.0:9093",
        "--initial-advertise-peer-urls=http://kafka-2:9093",
        "--initial-cluster=1=http://kafka-1:9093,2=http://kafka-2:9093,3=http://kafka-3:9093",
        "--initial-cluster-token=token",
        "--initial-cluster-state=new",
    } <= {*arguments}
    assert "--initial-cluster-state=existing" in command("etcd", quorum, "/data/controller.etcd", "token", is_joining=True)


def test_the_token_is_the_cluster_id_or_what_only_these_controllers_have() -> None:
    quorum = found()
    assert quorum is not None
    assert token_of(quorum, "4L6g3nShT-eMCtK--X86sw") == "4L6g3nShT-eMCtK--X86sw"
    turned = found(controller_quorum_voters="3@kafka-3:9093,2@kafka-2:9093,1@kafka-1:9093")
    others = found(controller_quorum_voters="1@kafka-1:9093,2@kafka-2:9093,3@kafka-4:9093")
    assert turned is not None
    assert others is not None
    tokens = [token_of(one, None) for one in (quorum, turned, others)]
    assert tokens[0] == tokens[1] != tokens[2]
    assert tokens[0].startswith("pybroker-")


def test_controllers_without_ids_are_named_by_their_addresses() -> None:
    quorum = found(controller_quorum_voters="", controller_quorum_bootstrap_servers="kafka-1:9093,kafka-2:9093,[::1]:9093")
    assert quorum is not None
    assert quorum.own == Voter("kafka-2:9093", "kafka-2", 9093)
    assert quorum.voters[2].peer_url == "http://[::1]:9093"


def test_a_broker_alone_uses_the_controllers() -> None:
    quorum = found(node_id="7", process_roles="broker")
    assert quorum is not None
    assert quorum.own is None
    assert quorum.metadata_store == "etcd:http://kafka-1:10093,http://kafka-2:10093,http://kafka-3:10093"


def test_a_controller_alone_is_no_broker() -> None:
    config = configured(process_roles="controller", listeners="CONTROLLER://localhost:9093")
    quorum = quorum_of(config, lambda _: False)
    assert quorum is not None
    assert not quorum.is_broker
    assert not config.is_broker
    assert any(one.startswith("--listen-peer-urls=http://127.0.0.1:") or "[::1]" in one for one in command("e", quorum, "d", "t"))


@pytest.mark.parametrize(
    "changes",
    [
        {"controller_quorum_voters": ""},
        {"controller_quorum_voters": "2@kafka-2:9093"},
        {"controller_quorum_voters": "2@kafka-2:9093", "process_roles": ""},
        {"metadata_store": "etcd:http://etcd:2379"},
    ],
)
def test_these_run_no_controller_apart(changes: dict[str, str]) -> None:
    assert found(**changes) is None


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"node_id": "9"},
            f"{VOTERS}=1@kafka-1:9093,.*: names no controller with node.id=9, .*: add 9@HOST:PORT .* process.roles=broker",
        ),
        ({"controller_quorum_voters": "1@a:1,b:1"}, "'b:1' is not ID@HOST:PORT"),
        ({"controller_quorum_voters": "1@a:1,1@b:1"}, "names a controller twice"),
        ({"controller_quorum_voters": "1@a:1,2@a:1"}, "names a controller twice"),
        ({"controller_quorum_voters": "1@a:1,2@b:65000"}, "port 65000 is not between 1 and 64535"),
        (
            {"controller_quorum_voters": "", "controller_quorum_bootstrap_servers": "a:1,b:1"},
            "names no address of this node: add its HOST:PORT .*process.roles=broker",
        ),
        ({"controller_quorum_voters": "", "controller_quorum_bootstrap_servers": "1@a:1,b:1"}, "'1@a:1' is not HOST:PORT"),
        ({"listeners": "PLAINTEXT://:9092,CONTROLLER://:9193"}, "has no listener of controller.listener.names at port 9093"),
    ],
)
def test_what_cannot_be_is_refused(changes: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message.replace("[", r"\[")):
        found(**changes)


@pytest.mark.parametrize("role", ["broker", "controller"])
def test_one_role_needs_to_know_the_controllers(role: str) -> None:
    with pytest.raises(ConfigError, match=rf"process\.roles={role}: needs controller\.quorum\.voters"):
        configured(process_roles=role, controller_quorum_voters="")


def test_lines_of_etcd_have_their_level_and_details() -> None:
    line = b'{"level":"fatal","ts":"now","caller":"x.go:1","msg":"discovery failed","error":"bootstrapped"}\n'
    assert logged(line) == (40, "discovery failed (error=bootstrapped)")
    assert logged(b"not json\n") == (10, "not json")
