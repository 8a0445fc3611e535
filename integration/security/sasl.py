"""A broker with a SASL listener, and stock clients that log in there."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Callable, Mapping
from typing import Any, Final

import confluent_kafka
from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError as AiokafkaError
from kafka import KafkaConsumer

PLAIN_MODULE: Final = "org.apache.kafka.common.security.plain.PlainLoginModule"
USER, PASSWORD, WRONG = "alice", "alice's secret", "not alice's secret"
USERS: Final = f'{PLAIN_MODULE} required user_{USER}="{PASSWORD}" user_bob="bob-secret";'


def sasl_listener(mechanisms: str = "PLAIN", **others: str) -> dict[str, str]:
    """Return the settings of a broker whose only listener is SASL_PLAINTEXT. The names of others have _ for dots."""
    return {
        "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
        "inter.broker.listener.name": "SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": mechanisms,
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": USERS,
        **{name.replace("_", "."): text for name, text in others.items()},
    }


CLIENT_ERRORS: Final = (AiokafkaError, RuntimeError)
"""The errors that the writers raise."""

Login = Mapping[str, str]
"""mechanism, user, password."""


def login(user: str = USER, password: str = PASSWORD, mechanism: str = "PLAIN") -> Login:
    return {"mechanism": mechanism, "user": user, "password": password}


def kafka_python(login: Login) -> dict[str, Any]:
    return {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": login["mechanism"],
        "sasl_plain_username": login["user"],
        "sasl_plain_password": login["password"],
    }


def confluent(login: Login) -> dict[str, Any]:
    return {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": login["mechanism"],
        "sasl.username": login["user"],
        "sasl.password": login["password"],
    }


_WRITE: Final = """
import json, sys
from kafka import KafkaProducer
topic, settings = sys.argv[1], json.loads(sys.argv[2])
producer = KafkaProducer(bootstrap_timeout_ms=3_000, **settings)
producer.send(topic, b"kafka-python").get(20)
"""
"""A program, because a producer of kafka-python that cannot log in leaves sockets."""


def write_by_kafka_python(bootstrap: str, topic: str, login: Login) -> None:
    settings = json.dumps({"bootstrap_servers": bootstrap, **kafka_python(login)})
    command = [sys.executable, "-c", f"import logging; logging.basicConfig()\n{_WRITE}", topic, settings]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr)


def write_by_confluent(bootstrap: str, topic: str, login: Login) -> None:
    write_with_confluent(bootstrap, topic, confluent(login))


def write_with_confluent(bootstrap: str, topic: str, settings: Mapping[str, Any]) -> None:
    errors: list[confluent_kafka.KafkaError] = []
    producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap, "error_cb": errors.append, **settings})
    done: list[Any] = []
    producer.produce(topic, b"confluent-kafka", on_delivery=lambda error, message: done.append(error))
    while not done and not any(error.code() == confluent_kafka.KafkaError._AUTHENTICATION for error in errors):
        producer.poll(0.2)
    producer.purge()
    if not done or done[0] is not None:
        raise RuntimeError(str(errors or done))


def write_by_aiokafka(bootstrap: str, topic: str, login: Login) -> None:
    write_with_aiokafka(bootstrap, topic, kafka_python(login))


def write_with_aiokafka(bootstrap: str, topic: str, settings: Mapping[str, Any]) -> None:
    async def write() -> None:
        producer = AIOKafkaProducer(bootstrap_servers=bootstrap, request_timeout_ms=10_000, **settings)
        try:
            await producer.start()
            await producer.send_and_wait(topic, b"aiokafka")
        finally:
            await producer.stop()

    asyncio.run(write())


WRITERS: Final[dict[str, Callable[[str, str, Login], None]]] = {
    "kafka-python": write_by_kafka_python,
    "confluent-kafka": write_by_confluent,
    "aiokafka": write_by_aiokafka,
}


def read(bootstrap: str, topic: str, count: int, login: Login) -> list[bytes]:
    consumer = KafkaConsumer(
        topic, bootstrap_servers=bootstrap, auto_offset_reset="earliest", consumer_timeout_ms=20_000, **kafka_python(login)
    )
    try:
        return [record.value for _, record in zip(range(count), consumer, strict=False)]
    finally:
        consumer.close()
