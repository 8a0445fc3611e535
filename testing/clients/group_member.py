"""A member of a consumer group in a process of its own, which a test may kill. It reports what it does on stdout.

    python -m testing.clients.group_member CLIENT BOOTSTRAP GROUP TOPIC [INSTANCE]

CLIENT is kafka-python, confluent-kafka, aiokafka, confluent-kafka-range (which gives up all partitions before a rebalance), or
confluent-kafka-consumer (with the consumer protocol). Each line is JSON: [monotonic time in ns, what, partition, offset], where
what is "assigned" or "revoked" (offset -1), "read", "committed" (the broker has confirmed that offset is the next to read), or
"forgot" (partition and offset -1: the client has forgotten its own join, and the member begins again with a new consumer).
The member commits after every poll and ends when stdin does. SIGUSR1 makes it write where its threads are to stderr.
"""

from __future__ import annotations

import asyncio
import contextlib
import faulthandler
import json
import select
import signal
import sys
import time
from typing import Any

SESSION_MS = 6000
POLL_S = 0.2


def report(what: str, partition: int, offset: int = -1) -> None:
    sys.stdout.write(json.dumps([time.monotonic_ns(), what, partition, offset]) + "\n")
    sys.stdout.flush()


def is_over() -> bool:
    return bool(select.select([sys.stdin], [], [], 0)[0])


class Reporter:
    """Reports the partitions that the consumer gets and gives up, for the libraries whose listeners are classes."""

    def on_partitions_revoked(self, revoked: Any) -> None:
        for one in revoked:
            report("revoked", one.partition)

    def on_partitions_assigned(self, assigned: Any) -> None:
        for one in assigned:
            report("assigned", one.partition)


def kafka_python(bootstrap: str, group: str, topic: str, instance: str | None) -> None:
    from kafka import ConsumerRebalanceListener, KafkaConsumer  # noqa: PLC0415

    class Listener(Reporter, ConsumerRebalanceListener):
        pass

    while not is_over():
        consumer = KafkaConsumer(
            bootstrap_servers=bootstrap, group_id=group, group_instance_id=instance, enable_auto_commit=False,
            auto_offset_reset="earliest", session_timeout_ms=SESSION_MS, heartbeat_interval_ms=500,
        )  # fmt: skip
        consumer.subscribe([topic], listener=Listener())
        while not (is_over() or has_forgotten_its_join(consumer)):
            read_and_commit(consumer)
        if has_forgotten_its_join(consumer):
            report("forgot", -1)
        consumer.close()


def read_and_commit(consumer: Any) -> None:
    from kafka.errors import KafkaConnectionError, KafkaError  # noqa: PLC0415

    try:
        read = consumer.poll(POLL_S * 1000)
    except KafkaConnectionError:  # while no broker listens, this client leaves the retry to its caller
        time.sleep(POLL_S)
        return
    for where, records in read.items():
        for record in records:
            report("read", where.partition, record.offset)
    if read:
        ends = {where.partition: records[-1].offset + 1 for where, records in read.items()}
        with contextlib.suppress(KafkaError):  # a rebalance came between: another member reads them again
            consumer.commit()
            for partition, offset in ends.items():
                report("committed", partition, offset)


def has_forgotten_its_join(consumer: Any) -> bool:
    """Return whether kafka-python will never look at a join that has ended, between two polls.

    This is a fault of its 3.0.12. When the metadata of the topics changes, the leader of a group joins again. If a poll ends
    after the leader's assignment and before the response to its SyncGroup, `ConsumerCoordinator.need_rejoin` is false in all
    later polls, because `_perform_assignment` has made the two snapshots equal, and `rejoin_needed` was never set. So no poll
    calls `join_group_async` again: the ended `_join_task` remains, nothing is assigned, and heartbeats remain off. (Java's
    `rejoinNeededOrPending` also looks at the pending join.)
    """
    coordinator = consumer._coordinator
    join = getattr(coordinator, "_join_task", None)  # releases before 3 have none
    return join is not None and join.is_done and not coordinator.need_rejoin()


def confluent_kafka(bootstrap: str, group: str, topic: str, instance: str | None, *, kind: str) -> None:
    from confluent_kafka import Consumer, KafkaException  # noqa: PLC0415

    settings = {
        "bootstrap.servers": bootstrap, "group.id": group, "enable.auto.commit": False, "auto.offset.reset": "earliest",
    }  # fmt: skip
    if kind == "consumer":
        settings["group.protocol"] = "consumer"
    else:
        strategy = kind or "cooperative-sticky"
        settings |= {"session.timeout.ms": SESSION_MS, "heartbeat.interval.ms": 500, "partition.assignment.strategy": strategy}
    if instance is not None:
        settings["group.instance.id"] = instance
    consumer = Consumer(settings)
    consumer.subscribe(
        [topic],
        on_assign=lambda _, assigned: [report("assigned", one.partition) for one in assigned],
        on_revoke=lambda _, revoked: [report("revoked", one.partition) for one in revoked],
        on_lost=lambda _, lost: [report("revoked", one.partition) for one in lost],
    )
    while not is_over():
        ends: dict[int, int] = {}
        for message in consumer.consume(50, POLL_S):
            if message.error() is None:
                report("read", message.partition(), message.offset())
                ends[message.partition()] = message.offset() + 1
        if ends:
            with contextlib.suppress(KafkaException):
                done = {one.partition for one in consumer.commit(asynchronous=False) if one.error is None}
                for partition, offset in ends.items():
                    if partition in done:
                        report("committed", partition, offset)
    consumer.close()


async def aiokafka(bootstrap: str, group: str, topic: str, instance: str | None) -> None:
    from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener  # noqa: PLC0415
    from aiokafka.errors import KafkaError  # noqa: PLC0415

    class Listener(Reporter, ConsumerRebalanceListener):
        pass

    consumer = AIOKafkaConsumer(
        bootstrap_servers=bootstrap, group_id=group, group_instance_id=instance, enable_auto_commit=False,
        auto_offset_reset="earliest", session_timeout_ms=SESSION_MS, heartbeat_interval_ms=500,
    )  # fmt: skip
    consumer.subscribe([topic], listener=Listener())
    await consumer.start()
    while not is_over():
        read = await consumer.getmany(timeout_ms=int(POLL_S * 1000))
        for where, records in read.items():
            for record in records:
                report("read", where.partition, record.offset)
        if read:
            ends = {where: records[-1].offset + 1 for where, records in read.items()}
            with contextlib.suppress(KafkaError):
                await consumer.commit(ends)
                for where, offset in ends.items():
                    report("committed", where.partition, offset)
    await consumer.stop()


def main() -> None:
    faulthandler.register(signal.SIGUSR1, all_threads=True)
    client, bootstrap, group, topic, *more = sys.argv[1:]
    instance = more[0] if more else None
    if client == "aiokafka":
        asyncio.run(aiokafka(bootstrap, group, topic, instance))
    elif client == "kafka-python":
        kafka_python(bootstrap, group, topic, instance)
    else:
        kind = client.removeprefix("confluent-kafka").removeprefix("-")
        confluent_kafka(bootstrap, group, topic, instance, kind=kind)


if __name__ == "__main__":
    main()
