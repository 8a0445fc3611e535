"""aiokafka: the broker runs in the event loop of the test, without pytest's fixtures."""

import asyncio

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

from pybroker.testing import Broker


async def sent_and_read():
    async with Broker() as broker:
        await broker.create_topic("orders", partitions=3)
        async with AIOKafkaProducer(bootstrap_servers=broker.bootstrap) as producer:
            await producer.send_and_wait("orders", b"order 1", partition=2)
        async with AIOKafkaConsumer("orders", bootstrap_servers=broker.bootstrap, auto_offset_reset="earliest") as consumer:
            return (await consumer.getone()).value


def test_an_order_is_read():
    assert asyncio.run(sent_and_read()) == b"order 1"
