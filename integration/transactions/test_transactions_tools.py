"""Kafka's tools for transactions, of 3.9 and 4.x: kafka-transactions, and DumpLogSegments on the files of transactions."""

from __future__ import annotations

import re
import shutil
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from pybroker.protocol.codec import decode_response, encode_request
from pybroker.protocol.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from testing.clients.stock import create_topic, unique
from testing.process.broker import BrokerProcess
from testing.process.tool_runner import ToolRunner
from testing.scenes.api.records import batch_of_values

TIMEOUT_S = 60

pytestmark = [
    pytest.mark.skipif(
        shutil.which("javac") is None or shutil.which("mvn") is None, reason="needs a Java compiler, and Maven for the jars"
    ),
    pytest.mark.parametrize("release", ["3.9.2", "4.3.1"]),
]


@pytest.fixture
def tool(release: str, tmp_path: Path) -> Iterator[Callable[..., str]]:
    """Yield a function that runs a tool of the release and returns what it prints; an exit code other than 0 fails the test."""
    runner = ToolRunner(release, tmp_path)

    def run(name: str, *arguments: str) -> str:
        ran = runner.run(name, *arguments)
        assert ran.code == 0, ran.err or ran.out
        return ran.out

    yield run
    runner.close()


def producer_of(bootstrap: str, transactional_id: str) -> Producer:
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": transactional_id, "linger.ms": 0, "log_level": 0})
    producer.init_transactions(TIMEOUT_S)
    return producer


def rows(text: str) -> list[list[str]]:
    """Return the cells of a table without its head."""
    return [line.split() for line in text.splitlines()[1:]]


def test_transactions_are_listed_described_and_searched(tool: Callable[..., str], release: str, bootstrap: str) -> None:
    topic, open_id, done_id = (unique(f"{name}-{release}") for name in ("topic", "open", "done"))
    create_topic(bootstrap, topic, 2)
    done, is_open = producer_of(bootstrap, done_id), producer_of(bootstrap, open_id)
    done.begin_transaction()
    done.produce(topic, b"a", partition=0)
    done.commit_transaction(TIMEOUT_S)
    is_open.begin_transaction()
    is_open.produce(topic, b"b", partition=1)
    assert is_open.flush(TIMEOUT_S) == 0
    server = ("--bootstrap-server", bootstrap)

    listed = {row[0]: row[1:] for row in rows(tool("transactions", *server, "list")) if row[0] in {open_id, done_id}}
    assert {name: row[-1] for name, row in listed.items()} == {open_id: "Ongoing", done_id: "CompleteCommit"}
    if not release.startswith("3."):
        found = rows(tool("transactions", *server, "list", "--transactional-id-pattern", f"open-{re.escape(release)}.*"))
        assert open_id in {row[0] for row in found}
        assert done_id not in {row[0] for row in found}
    described = tool("transactions", *server, "describe", "--transactional-id", open_id)
    head, row = (line.split("\t") for line in described.splitlines())
    state = dict(zip(map(str.strip, head), map(str.strip, row), strict=True))
    assert (state["TransactionState"], state["TopicPartitions"]) == ("Ongoing", f"{topic}-1")
    assert state["ProducerId"] == listed[open_id][1]
    producers = rows(tool("transactions", *server, "describe-producers", "--topic", topic, "--partition", "1"))
    assert [(one[0], one[-1]) for one in producers] == [(state["ProducerId"], "0")]
    # none hangs: each open transaction of a partition is one that the coordinator knows
    assert rows(tool("transactions", *server, "find-hanging", "--topic", topic, "--max-transaction-timeout", "0")) == []
    is_open.abort_transaction(TIMEOUT_S)
    producers = rows(tool("transactions", *server, "describe-producers", "--topic", topic, "--partition", "1"))
    assert [one[-1] for one in producers] == ["None"]


def test_the_files_of_transactions_are_read(
    tool: Callable[..., str], start_broker: Callable[..., BrokerProcess], tmp_path: Path, release: str
) -> None:
    broker = start_broker({"transaction.state.log.num.partitions": "1"})
    create_topic(broker.bootstrap, "t", 1)
    producer = producer_of(broker.bootstrap, "writer")
    for is_commit in (True, False, True, False):
        producer.begin_transaction()
        producer.produce("t", b"v", partition=0)
        assert producer.flush(TIMEOUT_S) == 0
        producer.commit_transaction(TIMEOUT_S) if is_commit else producer.abort_transaction(TIMEOUT_S)
    broker.stop()
    (log,) = (broker.data_dir / "__transaction_state-0").glob("*.log")
    text = tool("dump-log", "--transaction-log-decoder", "--files", str(log))
    states = re.findall(r'"transactionStatus":(\d)|state=(\w+)', text)
    assert len(states) >= 12
    assert "writer" in text
    (index,) = (broker.data_dir / "t-0").glob("*.txnindex")
    aborted = re.findall(r"firstOffset: (\d+) lastOffset: (\d+)", tool("dump-log", "--files", str(index)))
    assert aborted == [("2", "3"), ("6", "7")]
    snapshots = sorted((broker.data_dir / "t-0").glob("*.snapshot"))
    producers = re.findall(r"producerId: (\d+) .*currentTxnFirstOffset: (\S+)", tool("dump-log", "--files", str(snapshots[-1])))
    assert [first for _, first in producers] == ["OptionalLong.empty"]


def leave_open(bootstrap: str, topic: str) -> None:
    """Append a batch of a transaction that no coordinator knows."""
    data = batch_of_values(b"v", producer_id=7_000, producer_epoch=0, base_sequence=0, is_transactional=True)
    one = TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=0, records=data)])
    request = ProduceRequest(transactional_id="none", acks=-1, timeout_ms=1000, topic_data=[one])
    frame = b"".join(map(bytes, encode_request(request, 11, correlation_id=1, client_id="test")))  # type: ignore[arg-type]
    host, _, port = bootstrap.partition(":")
    with socket.create_connection((host, int(port)), TIMEOUT_S) as connection, connection.makefile("rb") as stream:
        connection.sendall(frame)
        body = stream.read(int.from_bytes(stream.read(4)))
    _, response = decode_response(ProduceResponse, 11, memoryview(body))
    assert response.responses[0].partition_responses[0].error_code == 0


def test_a_transaction_that_hangs_is_found_and_aborted(
    tool: Callable[..., str], start_broker: Callable[..., BrokerProcess], release: str
) -> None:
    broker = start_broker({"transaction.partition.verification.enable": "false"})
    create_topic(broker.bootstrap, "t", 1)
    leave_open(broker.bootstrap, "t")
    server = ("--bootstrap-server", broker.bootstrap)
    search = (*server, "find-hanging", "--topic", "t", "--max-transaction-timeout", "-6")  # 5 minutes are added, in minutes
    (hanging,) = rows(tool("transactions", *search))
    assert hanging[:3] == ["t", "0", "7000"]
    tool("transactions", *server, "abort", "--topic", "t", "--partition", "0", "--start-offset", "0")
    assert rows(tool("transactions", *search)) == []
    producers = rows(tool("transactions", *server, "describe-producers", "--topic", "t", "--partition", "0"))
    assert [one[-1] for one in producers] == ["None"]
