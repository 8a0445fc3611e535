"""A service with FastStream: it reads orders, and sends an invoice for each."""

from faststream import AckPolicy, FastStream
from faststream.kafka import KafkaBroker, KafkaRouter

router = KafkaRouter()


@router.subscriber("orders", group_id="billing", auto_offset_reset="earliest", ack_policy=AckPolicy.ACK)
@router.publisher("invoices")
async def bill(order: str) -> str:
    """Return the invoice of an order."""
    return f"invoice of {order}"


def service(bootstrap: str) -> FastStream:
    """Return the service for a Kafka; in production, `faststream run` starts it."""
    broker = KafkaBroker(bootstrap)
    broker.include_router(router)
    return FastStream(broker)
