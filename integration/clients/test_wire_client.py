"""The pipeline's client of the protocol with a real broker: it reads batches as they are in the log, and appends to its end."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from pybroker.model import Offset, ProducerEpoch, ProducerId
from pybroker.protocol.error_codes import ErrorCode
from pybroker.records.batch import Record, batches
from pybroker.records.build import build_batch
from pybroker.records.compression import CompressionType
from pybroker.spark.errors import PipelineError
from pybroker.spark.wire.client import COMMITTED, EARLIEST, LATEST, WireClient
from pybroker.spark.wire.connection import Connection
from pybroker.spark.wire.errors import BrokerError, NotKafkaError
from testing.clients.stock import unique
from testing.waiting import joined

if TYPE_CHECKING:
    from testing.process.broker import BrokerProcess


def numbered_batch(
    sequence: int, *, producer_id: int = -1, count: int = 2, codec: CompressionType = CompressionType.LZ4
) -> bytes:
    records = [Record(Offset(n), 1_700_000_000_000 + n, b"k%d" % n, b"v" * 100, (("h", None),)) for n in range(count)]
    epoch = 0 if producer_id >= 0 else -1
    return bytes(
        build_batch(
            records,
            compression=codec,
            producer_id=ProducerId(producer_id),
            producer_epoch=ProducerEpoch(epoch),
            base_sequence=sequence,
        )
    )


def test_batches_come_back_as_they_were_written(bootstrap: str) -> None:
    topic = unique("wire")
    with WireClient(bootstrap) as client:
        client.create_topic(topic, 2, {"retention.ms": "-1"})
        client.create_topic(topic, 2)  # is there already
        assert client.topics([topic])[topic].leaders == client.topics()[topic].leaders
        assert len(client.topic(topic).topic_id) == 16
        assert client.cluster_id()
        producer_id, epoch = client.init_producer_id()
        assert epoch == 0
        written = [numbered_batch(sequence, producer_id=producer_id) for sequence in (0, 2, 4)]
        offsets = [client.produce(topic, 1, one) for one in [*written[:2], written[1], written[2]]]
        assert offsets == [0, 2, 2, 4], "the broker knows that it got this batch before"
        assert [client.list_offset(topic, 1, timestamp=which) for which in (EARLIEST, LATEST)] == [0, 6]
        assert client.list_offset(topic, 1, timestamp=LATEST, isolation=COMMITTED) == 6
        assert client.list_offset(topic, 0, timestamp=LATEST) == 0
        found = client.fetch(topic, 1, offset=Offset(3), isolation=COMMITTED)
        assert (found.high_watermark, found.last_stable_offset, found.log_start_offset) == (6, 6, 0)
        assert [(one.base_offset, bytes(one.payload)) for one in batches(found.data)] == [
            (2, written[1][61:]),
            (4, written[2][61:]),
        ]
        assert client.fetch(topic, 1, offset=Offset(6), wait_ms_max=1).data.nbytes == 0
        assert len(client.fetch(topic, 1, offset=Offset(0), max_bytes=1).data) >= len(written[0])
        assert client.settings(topic)["retention.ms"].value == "-1"
        assert client.settings(topic)["retention.ms"].is_of_topic
        client.create_partitions(topic, 3)
        assert len(client.topic(topic).leaders) == 3


def test_errors_have_kafkas_names(bootstrap: str) -> None:
    topic = unique("wire")
    with WireClient(bootstrap) as client:
        client.create_topic(topic, 1)
        with pytest.raises(BrokerError, match="OFFSET_OUT_OF_RANGE") as raised:
            client.fetch(topic, 0, offset=Offset(5))
        assert raised.value.code is ErrorCode.OFFSET_OUT_OF_RANGE
        with pytest.raises(BrokerError, match="INVALID_TOPIC_EXCEPTION"):
            client.create_topic("no/topic", 1)
        with pytest.raises(BrokerError, match="INVALID_CONFIG"):
            client.create_topic(unique("wire"), 1, {"retention.ms": "x"})
        damaged = bytearray(numbered_batch(-1))
        damaged[-1] ^= 1
        with (
            WireClient(bootstrap, retry_s=0) as hasty,
            pytest.raises(PipelineError, match=r"CORRUPT_MESSAGE.*run the same command again"),
        ):
            hasty.produce(topic, 0, damaged)


def test_the_client_waits_for_a_broker_that_restarts(start_broker: Callable[..., BrokerProcess]) -> None:
    broker = start_broker()
    with WireClient(broker.bootstrap) as client:
        client.create_topic("t", 1)
        producer_id, _ = client.init_producer_id()
        assert client.produce("t", 0, numbered_batch(0, producer_id=producer_id)) == 0
        broker.kill()
        again = threading.Timer(0.5, broker.start)
        again.start()
        try:
            assert client.produce("t", 0, numbered_batch(2, producer_id=producer_id)) == 2
        finally:
            joined(again, "the broker's start")
        assert client.fetch("t", 0, offset=Offset(0)).high_watermark == 4


def test_the_client_reports_a_closed_port_and_a_server_of_another_protocol() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]

        def greet() -> None:
            peer, _ = server.accept()
            with peer:
                peer.recv(1000)
                peer.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

        thread = threading.Thread(target=greet, daemon=True)
        thread.start()
        with pytest.raises(NotKafkaError, match=f"the server at 127.0.0.1:{port} does not speak Kafka's protocol"):
            Connection("127.0.0.1", port)
        joined(thread, "the greeting's end")
    with pytest.raises(PipelineError, match=f"no broker at 127.0.0.1:{port}: Connection refused, for 0.1 s"):
        WireClient(f"127.0.0.1:{port}", retry_s=0.1).cluster_id()
