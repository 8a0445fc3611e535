"""Measures microseconds per message, on the broker's side (decode a request, encode its response), beside kio and kafka-python.

    python -m benchmarks.codec

The libraries take turns, and each number is the least of many short runs, so the ratios hold on a busy machine; the absolute
numbers are those of this machine at its best. "call" is an empty function's call, to compare machines by.
"""

from __future__ import annotations

import argparse
import io
import sys
import timeit
import warnings
from collections.abc import Callable
from typing import Any, TypeAlias

from benchmarks import build
from pybroker.protocol.codec import decode, decode_request_header, encode, encode_request, encode_response
from pybroker.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from pybroker.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from pybroker.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from pybroker.protocol.parts import parts_bytes

Codec: TypeAlias = tuple[Callable[[], object], Callable[[], object]]
"""A function that decodes a request, and one that encodes its response."""

RUNS = 40
RUN_S = 0.002
ID = bytes(range(16))
RECORDS = bytes(1024)


def produce() -> tuple[object, object]:
    data = [PartitionProduceData(index=3, records=RECORDS)]
    done = [PartitionProduceResponse(index=3, base_offset=1000, log_start_offset=0)]
    return (
        ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=[TopicProduceData(name="topic", topic_id=ID, partition_data=data)]),
        ProduceResponse(responses=[TopicProduceResponse(name="topic", topic_id=ID, partition_responses=done)]),
    )


def fetch() -> tuple[object, object]:
    wanted = [FetchPartition(partition=number, fetch_offset=10_000, partition_max_bytes=1 << 20) for number in range(10)]
    found = [
        PartitionData(partition_index=number, high_watermark=1, last_stable_offset=1, log_start_offset=0, records=RECORDS)
        for number in range(10)
    ]
    return (
        FetchRequest(max_wait_ms=500, min_bytes=1, topics=[FetchTopic(topic="topic", topic_id=ID, partitions=wanted)]),
        FetchResponse(responses=[FetchableTopicResponse(topic="topic", topic_id=ID, partitions=found)]),
    )


def metadata() -> tuple[object, object]:
    partitions = [
        MetadataResponsePartition(
            partition_index=number, leader_id=1, leader_epoch=3, replica_nodes=[1, 2, 3], isr_nodes=[1, 2, 3]
        )
        for number in range(10)
    ]
    return (
        MetadataRequest(topics=[MetadataRequestTopic(name=f"topic-{number}", topic_id=ID) for number in range(20)]),
        MetadataResponse(
            brokers=[MetadataResponseBroker(node_id=number, host=f"broker-{number}", port=9092) for number in range(3)],
            cluster_id="cluster",
            controller_id=1,
            topics=[MetadataResponseTopic(name=f"topic-{number}", topic_id=ID, partitions=partitions) for number in range(20)],
        ),
    )


def our_codec(request: object, response: object, version: int) -> Codec:
    frame = memoryview(parts_bytes(encode_request(request, version, correlation_id=7, client_id="client")))[4:]

    def decoding() -> object:
        _, offset = decode_request_header(frame)
        return decode(type(request), version, frame, offset)

    return decoding, lambda: encode_response(response, version, 7)


def body(message: object, version: int) -> bytes:
    return parts_bytes(encode(message, version))


def kio_codec(request: object, response: object, version: int) -> Codec | None:
    from kio.serial import entity_reader, entity_writer  # noqa: PLC0415

    from testing.wire.kio_classes import kio_class  # noqa: PLC0415

    response_class = kio_class(type(response), version)
    if response_class is None:
        return None
    read = entity_reader(kio_class(type(request), version))
    data = body(request, version)
    theirs, _ = entity_reader(response_class)(body(response, version), 0)
    write = entity_writer(response_class)

    def encoding() -> bytes:
        buffer = io.BytesIO()
        write(buffer, theirs)
        return buffer.getvalue()

    return lambda: read(data, 0), encoding


def kafka_python_codec(request: object, response: object, version: int) -> Codec:
    import kafka.protocol.consumer as consumer  # noqa: PLC0415
    import kafka.protocol.metadata as cluster  # noqa: PLC0415
    import kafka.protocol.producer as producer  # noqa: PLC0415

    def find(message: object) -> Any:
        name = type(message).__name__
        return next(getattr(module, name) for module in (producer, consumer, cluster) if hasattr(module, name))

    requests, responses = find(request), find(response)
    data = body(request, version)
    theirs = responses.decode(body(response, version), version=version)
    theirs._header = theirs._min_version = theirs._max_version = None  # left unset by `decode`, wanted by `encode`
    return lambda: requests.decode(data, version=version), lambda: theirs.encode(version=version)


def microseconds(functions: list[Callable[[], object]]) -> list[float]:
    """Return the best time of each function; the functions take turns."""
    counts = []
    for function in functions:
        function()
        once = min(timeit.repeat(function, number=10, repeat=5)) / 10
        counts.append(max(1, int(RUN_S / once)))
    best = [float("inf")] * len(functions)
    for _ in range(RUNS):
        for index, function in enumerate(functions):
            best[index] = min(best[index], timeit.timeit(function, number=counts[index]) / counts[index] * 1e6)
    return best


def main() -> None:
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    build.announce()
    warnings.simplefilter("ignore")
    print(f"Python {sys.version.split()[0]}; call {microseconds([lambda: None])[0]:.3f}")
    print(f"{'decode, encode, both (us)':34}{'pybroker':>24}{'kio':>24}{'kafka-python':>24}")
    for name, make, versions in (
        ("Produce, 1 partition", produce, (0, 3, 9, 13)),
        ("Fetch, 10 partitions", fetch, (0, 4, 11, 12, 17)),
        ("Metadata, 20 x 10 partitions", metadata, (1, 9, 12)),
    ):
        for version in versions:
            row(f"{name}, v{version}", *make(), version)


def row(title: str, request: object, response: object, version: int) -> None:
    codecs = [make(request, response, version) for make in (our_codec, kio_codec, kafka_python_codec)]
    times = iter(microseconds([function for codec in codecs if codec is not None for function in codec]))
    cells = []
    for codec in codecs:
        if codec is None:
            cells.append("-")
            continue
        decoding, encoding = next(times), next(times)
        cells.append(f"{decoding:.1f} {encoding:.1f} {decoding + encoding:.1f}")
    print(f"{title:34}" + "".join(f"{cell:>24}" for cell in cells))


if __name__ == "__main__":
    main()
