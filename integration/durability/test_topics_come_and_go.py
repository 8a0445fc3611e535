"""Topics that are gone leave no memory behind, not even while their files wait to be removed."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from testing.process import procstat
from testing.process.broker import BrokerProcess, is_kafka
from testing.waiting import WAIT_S

pytestmark = pytest.mark.skipif(is_kafka(), reason="about this broker's own process")

AT_ONCE = 50
COUNT = 2_000
TOPIC_BYTES_MAX = 500


def come_and_go(bootstrap: str, names: list[str]) -> None:
    """Create the topics with three partitions each, produce to each, and delete them."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for created in admin.create_topics([NewTopic(name, 3, 1) for name in names]).values():
        created.result(WAIT_S)
    producer = Producer({"bootstrap.servers": bootstrap})
    for name in names:
        producer.produce(name, b"x")
    assert producer.flush(WAIT_S) == 0
    for deleted in admin.delete_topics(names).values():
        deleted.result(WAIT_S)


def test_topics_that_are_gone_leave_no_memory_behind(start_broker: Callable[..., BrokerProcess]) -> None:
    broker = start_broker()
    sizes = []
    for first in range(0, 500 + COUNT, AT_ONCE):  # the first ones show what any broker needs for a few
        if first == 500:
            sizes.append(procstat.memory_bytes(broker.pid, "RssAnon"))
        come_and_go(broker.bootstrap, [f"{number:034}" for number in range(first, first + AT_ONCE)])
    sizes.append(procstat.memory_bytes(broker.pid, "RssAnon"))
    assert (sizes[1] - sizes[0]) / COUNT < TOPIC_BYTES_MAX
