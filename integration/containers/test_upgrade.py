"""A broker of this version starts on a volume that an older version of ours filled, and serves everything that was in it."""

from __future__ import annotations

import subprocess
from pathlib import Path

from kafka import KafkaConsumer, TopicPartition

from testing.clients.stock import KafkaPython
from testing.containers.containers import DATA, published, running, volume
from testing.containers.engine import Engine
from testing.samples import Sample
from testing.waiting import LONG_WAIT_S

FILLED = Path(__file__).parent / "golden/volume-2026-11-21.tar.gz"
PER_PARTITION = 50
NEWER_MS = 1_800_000_000_000


def test_a_broker_starts_on_a_volume_of_an_older_version(engine: Engine, image: str) -> None:
    client = KafkaPython()
    with volume(engine) as data:
        unpack(engine, image, data)
        for turn in range(2):  # the second start is of what the first one made of the volume
            publish, bootstrap = published()
            with running(engine, image, *publish, "--volume", f"{data}:{DATA}") as broker:
                broker.wait_healthy()
                for partition in range(2):
                    came = client.consume(bootstrap, "orders", PER_PARTITION, partition=partition)
                    assert [record.sample.value for record in came] == [
                        b"order %d" % number for number in range(partition, 2 * PER_PARTITION, 2)
                    ]
                assert client.consume(bootstrap, "prices", 1, first_offset=99)[0].sample.value == b"price 99"
                assert committed(bootstrap) == 20
                if turn == 0:
                    client.produce(bootstrap, "prices", [Sample(b"new", b"price %d" % number, NEWER_MS) for number in range(5)])
                assert len(client.consume(bootstrap, "prices", 5, first_offset=100)) == 5
                broker.stop()
                assert broker.exit_code == 0, broker.log
                assert "Traceback" not in broker.log


def unpack(engine: Engine, image: str, data: str) -> None:
    """Unpack the archive into a volume, as root, because the owners in the archive are those of the container."""
    options = ["--rm", "--interactive", "--user", "0", "--entrypoint", "tar", "--volume", f"{data}:{DATA}"]
    with FILLED.open("rb") as archive:
        subprocess.run(
            [engine.name, "run", *options, image, "-xz", "-C", DATA],
            stdin=archive,
            check=True,
            timeout=LONG_WAIT_S,
            env=engine.full_environment,
        )


def committed(bootstrap: str) -> int | None:
    consumer = KafkaConsumer(bootstrap_servers=bootstrap, group_id="readers")
    try:
        return consumer.committed(TopicPartition("orders", 0))
    finally:
        consumer.close()
