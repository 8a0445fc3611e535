"""FastStream: the service itself runs in the event loop of the test, and only the address of Kafka is another.

pip install "faststream[kafka]" pytest     # beside pybroker
pytest examples/faststream
"""

import asyncio
from contextlib import asynccontextmanager

import pytest
from orders import service

pytestmark = pytest.mark.anyio  # which comes with FastStream; pytest-asyncio does as well


@pytest.fixture
def anyio_backend():
    return "asyncio"


@asynccontextmanager
async def running(bootstrap):
    """Run the service as long as the block lasts."""
    app = service(bootstrap)
    await app.start()
    try:
        yield
    finally:
        await app.stop()


@pytest.fixture
def kafka(kafka_broker, kafka_clean):
    """Give each test the two topics, with nothing in them."""
    for topic in ("orders", "invoices"):
        kafka_broker.create_topic(topic)
    return kafka_broker


async def invoices(kafka, count):
    """Wait in a thread, because the service needs this one."""
    return [record.value for record in await asyncio.to_thread(kafka.wait_for, "invoices", count)]


async def test_an_order_gets_an_invoice(kafka):
    kafka.produce("orders", b"order 1")
    async with running(kafka.bootstrap):
        assert await invoices(kafka, 1) == [b"invoice of order 1"]
    assert kafka.groups()["billing"].lag == 0


async def test_an_order_gets_one_invoice_although_the_leader_moves(kafka):
    moved = kafka.faults.add(api="Produce", topic="invoices", error="NOT_LEADER_OR_FOLLOWER", times=2)
    kafka.produce("orders", b"order 1", b"order 2")
    async with running(kafka.bootstrap):
        assert await invoices(kafka, 2) == [b"invoice of order 1", b"invoice of order 2"]
    assert moved.count == 2
