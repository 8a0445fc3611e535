"""Runs one client: `python -m testing.clients.sequences CLIENT BOOTSTRAP PARTITIONS RATE TOPIC...`."""

from __future__ import annotations

import faulthandler
import signal
import sys

from testing.clients.sequences.roles import Library, Roles


def library(client: str, bootstrap: str) -> Library:
    """Return the library of a client. Each process imports one."""
    if client == "aiokafka":
        from testing.clients.sequences.aio import AioKafka  # noqa: PLC0415

        return AioKafka(bootstrap)
    if client == "kafka-python":
        from testing.clients.sequences.kafka_python import KafkaPython  # noqa: PLC0415

        return KafkaPython(bootstrap)
    from testing.clients.sequences.confluent import Confluent  # noqa: PLC0415

    return Confluent(bootstrap, "consumer" if client.endswith("-consumer") else "classic")


def main() -> None:
    faulthandler.register(signal.SIGUSR1, all_threads=True)
    client, bootstrap, partitions, rate, *topics = sys.argv[1:]
    name = "-".join(client.split("-")[:2])
    Roles(library(client, bootstrap), name, topics, int(partitions), float(rate)).run()


if __name__ == "__main__":
    main()
