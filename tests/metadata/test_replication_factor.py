"""How many replicas a topic gets: as set, or as a cluster or a single broker can have."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from pybroker.config.broker import BrokerConfig
from pybroker.config.load import load
from pybroker.metadata.controller import Controller
from pybroker.metadata.members import BrokerRegistration
from pybroker.metadata.new_topic import NewTopic
from pybroker.metadata.store.memory import MemoryStore
from pybroker.model import BrokerId
from pybroker.protocol.error_codes import ErrorCode
from testing.scenes.members import add_live_broker

INTERNAL = {
    "__consumer_offsets": "offsets.topic.replication.factor",
    "__transaction_state": "transaction.state.log.replication.factor",
}


async def controller(config: BrokerConfig, live: int, away: int = 0) -> Controller:
    made = Controller(MemoryStore(), config, broker_id=BrokerId(1), random=Random(3))
    await made.start()
    for number in range(1, live + away + 1):
        registration = BrokerRegistration(broker_id=BrokerId(number), endpoints={})
        await (add_live_broker(made, registration) if number <= live else made.register_broker(registration))
    return made


def config(**overrides: Any) -> BrokerConfig:
    return load(overrides={name.replace("_", "."): text for name, text in overrides.items()}).config


async def automatic(made: Controller, name: str) -> list[int] | ErrorCode:
    outcome = (await made.create_missing_topics([name]))[name]
    if outcome.error is not None:
        return outcome.error.code
    assert outcome.topic is not None
    return [len(partition.replicas) for partition in outcome.topic.partitions]


@pytest.mark.parametrize("name", INTERNAL)
@pytest.mark.parametrize(("live", "away", "count"), [(1, 0, 1), (2, 0, 2), (3, 0, 3), (2, 1, 3), (5, 0, 3)])
async def test_an_internal_topic_has_three_replicas_or_as_many_as_there_are_brokers(
    name: str, live: int, away: int, count: int
) -> None:
    made = await controller(config(), live, away)
    assert await automatic(made, name) == [count] * 50


@pytest.mark.parametrize(("name", "setting"), INTERNAL.items())
async def test_a_factor_of_an_internal_topic_that_is_set_is_as_set(name: str, setting: str) -> None:
    assert await automatic(await controller(config(**{setting: "3"}), 2), name) is ErrorCode.INVALID_REPLICATION_FACTOR
    assert await automatic(await controller(config(**{setting: "3"}), 1), name) is ErrorCode.INVALID_REPLICATION_FACTOR
    assert await automatic(await controller(config(**{setting: "1"}), 3), name) == [1] * 50
    assert await automatic(await controller(config(**{setting: "4"}), 5), name) == [4] * 50


async def test_a_topic_without_a_number_has_the_default_number_of_replicas() -> None:
    made = await controller(config(default_replication_factor="3"), 3)
    assert await automatic(made, "auto") == [3]
    made = await controller(config(transaction_state_log_min_isr="3"), 3)
    await made.create_missing_topics(["__transaction_state"])
    assert made.image.topics["__transaction_state"].configs["min.insync.replicas"] == "3"


async def test_a_single_broker_may_accept_any_number_and_keeps_one_replica(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    accepting = config(
        pybroker_replication_factor_accept="any", default_replication_factor="2", offsets_topic_replication_factor="3"
    )
    made = await controller(accepting, 1)
    (outcome,) = await made.create_topics([NewTopic(name="t", partition_count=2, replication_factor=3, configs={})])
    assert outcome.topic is not None
    assert [partition.replicas for partition in outcome.topic.partitions] == [(1,), (1,)]
    assert "Topic t has 1 replica instead of 3, because there is a single broker" in caplog.messages
    assert await automatic(made, "auto") == [1]
    assert await automatic(made, "__consumer_offsets") == [1] * 50
    (outcome,) = await made.create_topics([NewTopic(name="bad", replication_factor=0, configs={})])
    assert outcome.error is not None
    assert outcome.error.code is ErrorCode.INVALID_REPLICATION_FACTOR


async def test_several_brokers_accept_no_more_replicas_than_they_are() -> None:
    made = await controller(config(pybroker_replication_factor_accept="any"), 2)
    (outcome,) = await made.create_topics([NewTopic(name="t", replication_factor=3, configs={})])
    assert outcome.error is not None
    assert outcome.error.code is ErrorCode.INVALID_REPLICATION_FACTOR
