"""Three nodes as Kafka's files configure them, each a broker and a controller with an etcd of its own."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from pybroker.protocol.api_keys import ApiKey
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages.describe_quorum import DescribeQuorumRequest, PartitionData, ResponsePartitionData, TopicData
from pybroker.quorum.members import CLIENT_PORT_ABOVE
from testing.clients.stock import KafkaPython
from testing.process.broker import BrokerProcess
from testing.process.three_nodes import NUMBERS, ThreeNodes
from testing.waiting import until
from testing.wire.one_request import Wire

if TYPE_CHECKING:
    from pathlib import Path

TIMEOUT_S = 60


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[ThreeNodes]:
    with ThreeNodes(tmp_path) as started:
        yield started


def is_whole(node: BrokerProcess) -> bool:
    found = AdminClient({"bootstrap.servers": node.bootstrap}).list_topics(timeout=TIMEOUT_S)
    return len(found.brokers) == len(NUMBERS) and all(len(one.isrs) == 3 for one in found.topics["t"].partitions.values())


def write(node: BrokerProcess, first: int, count: int) -> None:
    producer = Producer({"bootstrap.servers": node.bootstrap, "acks": "all", "enable.idempotence": True})
    failed: list[object] = []
    for number in range(first, first + count):
        producer.produce("t", b"%d" % number, partition=0, on_delivery=lambda error, _: failed.append(error) if error else None)
    assert producer.flush(TIMEOUT_S) == 0
    assert not failed


def test_a_node_is_replaced_by_one_without_data_and_then_another_one_dies(nodes: ThreeNodes, tmp_path: Path) -> None:
    admin = AdminClient({"bootstrap.servers": nodes[1].bootstrap})
    admin.create_topics([NewTopic("t", 1)])["t"].result(TIMEOUT_S)
    write(nodes[1], 0, 100)
    nodes[2].kill()
    nodes[2].data_dir = tmp_path / "replaced"
    nodes[2].start()
    assert "Controller 2 has no data here: it joins the others as a new member" in nodes[2].log_text
    until(lambda: is_whole(nodes[2]), "the new one has copied the topic", TIMEOUT_S)
    write(nodes[2], 100, 100)
    nodes[1].kill()
    write(nodes[2], 200, 100)
    values = [int(record.sample.value or b"") for record in KafkaPython().consume(nodes[2].bootstrap, "t", 300)]
    assert values == list(range(300))
    nodes[1].start()
    until(lambda: is_whole(nodes[1]), "the killed one is back", TIMEOUT_S)


def of_etcd(node: BrokerProcess, path: str, **message: object) -> dict[str, Any]:
    """Call the member of etcd beside a node."""
    number = node.overrides["node.id"]
    port = next(int(one.rpartition(":")[2]) for one in node.overrides["controller.quorum.voters"].split(",") if one[0] == number)
    address = f"http://127.0.0.1:{port + CLIENT_PORT_ABOVE}/v3/cluster/member/{path}"
    with urllib.request.urlopen(address, json.dumps(message).encode(), timeout=TIMEOUT_S) as response:
        found: dict[str, Any] = json.load(response)
    return found


def members(node: BrokerProcess) -> dict[str, str]:
    """Return the id of each member of etcd by its name."""
    return {one.get("name", ""): one["ID"] for one in of_etcd(node, "list")["members"]}


def is_removed(node: BrokerProcess, member_id: str) -> bool:
    """Remove a member of etcd, which those refuse that have been connected for less than five seconds."""
    try:
        of_etcd(node, "remove", ID=member_id)
    except urllib.error.HTTPError:
        return False
    return True


def test_a_second_process_of_a_node_is_refused_and_the_node_remains_a_controller(nodes: ThreeNodes, tmp_path: Path) -> None:
    before = members(nodes[2])
    second = BrokerProcess(tmp_path / "second", nodes[1].overrides)
    second.port = nodes[1].port
    with pytest.raises(RuntimeError):
        second.start()
    assert "this node runs already" in second.log_text
    assert members(nodes[2]) == members(nodes[1]) == before


def test_a_controller_that_the_others_have_removed_joins_them_again(nodes: ThreeNodes) -> None:
    admin = AdminClient({"bootstrap.servers": nodes[1].bootstrap})
    admin.create_topics([NewTopic("t", 1)])["t"].result(TIMEOUT_S)
    before = members(nodes[1])
    until(lambda: is_removed(nodes[1], before["3"]), "the others remove it", TIMEOUT_S)
    until(lambda: "The other controllers have removed controller 3" in nodes[3].log_text, "it is noticed", TIMEOUT_S)
    until(lambda: members(nodes[1]).get("3", before["3"]) != before["3"], "it is a new member", TIMEOUT_S)
    until(lambda: is_whole(nodes[3]), "the node is in the cluster", TIMEOUT_S)
    nodes[2].kill()
    write(nodes[1], 0, 100)


def quorum(node: BrokerProcess) -> ResponsePartitionData:
    asked = TopicData(topic_name="__cluster_metadata", partitions=[PartitionData(partition_index=0)])
    wire = Wire(node.bootstrap)
    try:
        response = wire.ask(ApiKey.DESCRIBE_QUORUM, 2, DescribeQuorumRequest(topics=[asked]))
    finally:
        wire.close()
    found: ResponsePartitionData = response.topics[0].partitions[0]
    return found


def test_the_quorum_is_the_controllers_and_shows_which_of_them_are_away(nodes: ThreeNodes) -> None:
    found = quorum(nodes[1])
    assert [one.replica_id for one in found.current_voters] == [*NUMBERS]
    assert (found.observers, found.leader_id in NUMBERS, found.leader_epoch > 0) == ([], True, True)
    until(
        lambda: len({one.log_end_offset for one in quorum(nodes[1]).current_voters}) == 1, "all have the last commit", TIMEOUT_S
    )
    away = next(number for number in NUMBERS if number not in (1, found.leader_id))
    nodes[away].kill()
    found = quorum(nodes[1])
    assert {one.replica_id: one.log_end_offset >= 0 for one in found.current_voters} == {n: n != away for n in NUMBERS}
    nodes[next(number for number in NUMBERS if number not in (1, away))].kill()
    code = ErrorCode.NOT_LEADER_OR_FOLLOWER
    until(lambda: quorum(nodes[1]).error_code == code, "no controller leads without a majority", TIMEOUT_S)


@pytest.mark.parametrize("is_at_once", [True, False])
def test_all_nodes_stop_within_seconds_and_log_no_more_than_that(nodes: ThreeNodes, is_at_once: bool) -> None:
    admin = AdminClient({"bootstrap.servers": nodes[1].bootstrap})
    admin.create_topics([NewTopic("t", 3)])["t"].result(TIMEOUT_S)
    until(lambda: is_whole(nodes[1]), "all replicas are in sync", TIMEOUT_S)
    before = {number: len(nodes[number].log_text) for number in NUMBERS}

    def lines(number: int) -> list[str]:
        return nodes[number].log_text[before[number] :].splitlines()

    def is_stopped(number: int) -> bool:
        return any("Stopped after" in line for line in lines(number))

    with ThreadPoolExecutor() as pool:
        ends = []
        for number in NUMBERS:
            ends.append(pool.submit(nodes[number].stop))
            if not is_at_once:
                until(partial(is_stopped, number), f"node {number} stops", TIMEOUT_S)
        took_s = [end.result(TIMEOUT_S) for end in ends]
    assert max(took_s) < 6  # without a majority, each call would wait for its session, and a leader of etcd for seven seconds
    for number in NUMBERS:
        (begins,) = [at for at, line in enumerate(lines(number)) if "msg=Stopping" in line]  # before, it misses the others
        after = lines(number)[begins:]
        assert "Stopped after" in after[-1]
        of_store = [line for line in after if "module=pybroker.metadata" in line or "module=pybroker.quorum" in line]
        assert not [line for line in of_store if "level=info" not in line]


def test_a_node_that_waits_for_the_others_logs_that_it_stops(tmp_path: Path) -> None:
    with ThreeNodes(tmp_path, is_started=False) as nodes:
        nodes[1].begin()
        until(lambda: "Waiting for a majority of the controllers" in nodes[1].log_text, "the node waits", TIMEOUT_S)
        nodes[1].stop()
        assert [line.partition("msg=")[2] for line in nodes[1].log_text.splitlines()[-2:]] == [
            '"Stopping, before the broker is ready"',
            '"Stopped before the broker was ready"',
        ]
