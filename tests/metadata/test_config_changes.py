"""Changed settings and grown topics are in the store: atomic, in the face of others, and after a restart."""

from __future__ import annotations

import socket
import threading
from pathlib import Path

import pytest

from pybroker.config.broker import BrokerConfig
from pybroker.metadata.config_changes import (
    LIST_MAX,
    TOPIC_KIND,
    ConfigChange,
    Edit,
    Operation,
)
from pybroker.metadata.controller import Controller
from pybroker.metadata.entries import configs_key, encode_configs
from pybroker.metadata.image import (
    BROKER_KIND,
    CLIENT_METRICS_KIND,
    GROUP_KIND,
    ClusterImage,
    ConfigResource,
    ImageDelta,
)
from pybroker.metadata.members import BrokerRegistration
from pybroker.metadata.more_partitions import MorePartitions
from pybroker.metadata.new_topic import NewTopic
from pybroker.metadata.store import open_store
from pybroker.metadata.store.base import Store, StoreError
from pybroker.metadata.store.memory import MemoryStore
from pybroker.model import BrokerId
from pybroker.protocol.error_codes import ErrorCode
from testing.scenes.members import add_live_broker
from testing.turns import run_watched

OF_ALL = ConfigResource(BROKER_KIND, "")
OF_ONE = ConfigResource(BROKER_KIND, "1")


async def started(store: Store, *topics: str) -> Controller:
    controller = Controller(store, BrokerConfig(node_id=1), broker_id=BrokerId(1))
    await controller.start("cluster-id")
    await add_live_broker(controller, BrokerRegistration(broker_id=BrokerId(1), endpoints={}))
    await controller.create_topics([NewTopic(name=name, configs={}) for name in topics])
    return controller


def setting(resource: ConfigResource, **values: str) -> ConfigChange:
    edits = [Edit(name.replace("_", "."), Operation.SET, text) for name, text in values.items()]
    return ConfigChange(resource=resource, edits=edits)


def of_topic(name: str) -> ConfigResource:
    return ConfigResource(TOPIC_KIND, name)


async def test_a_host_without_an_address_is_refused_when_it_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    def look_up(*_: object, **__: object) -> list[object]:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    controller = await started(MemoryStore())
    (error,) = await controller.alter_configs([setting(OF_ALL, max_connections_per_ip_overrides="nowhere:5")])
    assert error is not None
    assert error.code == ErrorCode.INVALID_REQUEST
    assert controller.config.max_connections_per_ip_overrides == ""
    assert await controller.alter_configs([setting(OF_ALL, max_connections_per_ip_overrides="127.0.0.1:5")]) == [None]


async def test_hosts_are_looked_up_before_a_change_and_not_for_later_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    looked_up: list[tuple[str, bool]] = []

    def look_up(host: str, *_: object, **__: object) -> list[object]:
        looked_up.append((host, threading.current_thread() is threading.main_thread()))
        return [(socket.AF_INET, 1, 6, "", ("192.0.2.7", 0))]

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    controller = await started(MemoryStore())
    limits = "client.example:5"
    assert await controller.alter_configs([setting(OF_ALL, max_connections_per_ip_overrides=limits)]) == [None]
    assert looked_up == [("client.example", False)]
    assert controller.hosts.found(limits) == {"192.0.2.7": 5}
    assert await controller.alter_configs([setting(OF_ALL, log_retention_ms="7"), setting(OF_ONE, log_roll_ms="8")]) == [None] * 2
    assert len(looked_up) == 1


async def test_cleaner_threads_at_most_double_and_at_most_halve_as_in_kafka() -> None:
    controller = await started(MemoryStore())
    for value, words in (
        ("3", "increased to more than double the current value 1"),
        ("2", None),
        ("4", None),
        ("9", "increased to more than double the current value 4"),
        ("1", "reduced to less than half the current value 4"),
        ("2", None),
        ("1", None),
        ("0", "should be at least 1"),
    ):
        (error,) = await controller.alter_configs([setting(OF_ONE, log_cleaner_threads=value)])
        assert (error is None) == (words is None), value
        if error is not None and words is not None:
            assert error.code == ErrorCode.INVALID_REQUEST
            assert words in error.message
        else:
            assert controller.config.log_cleaner_threads == int(value)


METRICS = ConfigResource(CLIENT_METRICS_KIND, "m")


def edit_of_metrics(operation: Operation, text: str) -> ConfigChange:
    return ConfigChange(resource=METRICS, edits=[Edit("metrics", operation, text)])


@pytest.mark.parametrize(
    ("operation", "old", "text", "new"),
    [
        (Operation.APPEND, "b,a", "c,a,c,d", "b,a,c,d"),
        (Operation.APPEND, "a,,a,", "b", "a,a,b"),
        (Operation.APPEND, "a", "b,", "a,b,"),
        (Operation.SUBTRACT, "a,b,a,c,a", "a,x,a", "b,c,a"),
        (Operation.SUBTRACT, "a,,b", "a,a", "b"),
    ],
)
async def test_a_list_is_changed_by_its_elements(operation: Operation, old: str, text: str, new: str) -> None:
    controller = await started(MemoryStore())
    assert await controller.alter_configs([edit_of_metrics(Operation.SET, old)]) == [None]
    assert await controller.alter_configs([edit_of_metrics(operation, text)]) == [None]
    assert controller.image.configs_of(*METRICS)["metrics"] == new


@pytest.mark.judges_time
def test_a_long_list_is_changed_in_short_turns() -> None:
    elements = [str(number) for number in range(10_000, 15_400)]

    async def change() -> None:
        controller = await started(MemoryStore())
        assert await controller.alter_configs([edit_of_metrics(Operation.SET, ",".join(elements))]) == [None]
        for operation in (Operation.APPEND, Operation.SUBTRACT):  # from the end, so that each search in the list would be long
            assert await controller.alter_configs([edit_of_metrics(operation, ",".join(reversed(elements)))]) == [None]
        assert controller.image.configs_of(*METRICS)["metrics"] == ""

    assert run_watched(change).long_texts() == []


async def test_no_list_grows_beyond_what_a_request_could_set() -> None:
    controller = await started(MemoryStore())
    longest = "x" * (LIST_MAX - 2)
    assert await controller.alter_configs([edit_of_metrics(Operation.APPEND, longest)]) == [None]
    (error,) = await controller.alter_configs([edit_of_metrics(Operation.APPEND, "yy")])
    assert error is not None
    assert error.code == ErrorCode.INVALID_CONFIG
    assert error.message == "Can't APPEND to key metrics because its value would have 32768 characters, above 32767."
    assert await controller.alter_configs([edit_of_metrics(Operation.APPEND, "y")]) == [None]


async def run_in_line(work: object, *arguments: object) -> object:
    assert callable(work)
    return work(*arguments)


async def test_a_restart_finds_everything_again(tmp_path: Path) -> None:
    url = f"sqlite:{tmp_path}/metadata.sqlite"
    store = open_store(url, run_in_line)  # type: ignore[arg-type]  # like asyncio.to_thread
    controller = await started(store, "t")
    changes = [
        setting(of_topic("t"), retention_ms="5"),
        setting(OF_ALL, message_max_bytes="1000", log_retention_ms="7"),
        setting(OF_ONE, message_max_bytes="2000"),
        setting(ConfigResource(GROUP_KIND, "a/b"), consumer_session_timeout_ms="50000"),
    ]
    assert await controller.alter_configs(changes) == [None] * 4
    assert await controller.create_partitions([MorePartitions(name="t", count=3)]) == [None]
    await store.close()
    store = open_store(url, run_in_line)  # type: ignore[arg-type]  # as above
    again = await started(store)
    assert again.image.configs == controller.image.configs
    assert again.image.topics == controller.image.topics
    assert dict(again.image.topics["t"].configs) == {"retention.ms": "5"}
    assert len(again.image.topics["t"].partitions) == 3
    assert (again.config.message_max_bytes, again.config.log_retention_ms) == (2000, 7)
    assert again.static_config.message_max_bytes == 1_048_588
    await store.close()


async def test_one_refused_change_does_not_keep_others_back() -> None:
    controller = await started(MemoryStore(), "t", "u")
    before = controller.image.revision
    changes = [
        setting(of_topic("t"), retention_ms="5"),
        setting(of_topic("u"), nonsense="5"),
        setting(OF_ALL, log_segment_bytes="99"),
    ]
    errors = await controller.alter_configs(changes)
    assert [None if error is None else error.code for error in errors] == [None, ErrorCode.INVALID_CONFIG, None]
    assert controller.image.revision == before + 1
    assert controller.config.log_segment_bytes == 99


async def test_what_changes_nothing_is_no_commit() -> None:
    controller = await started(MemoryStore(), "t")
    change = setting(of_topic("t"), retention_ms="5")
    await controller.alter_configs([change])
    image = controller.image
    assert await controller.alter_configs([change]) == [None]
    assert controller.image is image


async def test_a_change_by_another_client_is_not_overwritten() -> None:
    store = MemoryStore()
    one, other = await started(store, "t"), await started(store)
    commit = store.commit
    raced: list[object] = []

    async def slow_commit(**arguments: object) -> object:
        if not raced:
            raced.append(await commit(puts={configs_key(OF_ALL): encode_configs({"log.segment.bytes": "50"})}))
        return await commit(**arguments)  # type: ignore[arg-type]  # as it was called

    store.commit = slow_commit  # type: ignore[method-assign,assignment]  # another commit is faster, once
    assert await one.alter_configs([setting(OF_ALL, log_retention_ms="7")]) == [None]
    assert dict(other.image.configs_of(*OF_ALL)) == {"log.segment.bytes": "50", "log.retention.ms": "7"}
    assert one.config.log_segment_bytes == 50


async def test_a_store_that_refuses_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    store = MemoryStore()
    controller = await started(store, "t")
    image, config = controller.image, controller.config

    async def refuse(**_: object) -> int:
        raise StoreError("full")

    monkeypatch.setattr(store, "commit", refuse)
    errors = await controller.alter_configs([setting(of_topic("t"), retention_ms="5"), setting(OF_ALL, log_retention_ms="7")])
    assert [error.code for error in errors if error is not None] == [ErrorCode.KAFKA_STORAGE_ERROR] * 2
    (error,) = await controller.create_partitions([MorePartitions(name="t", count=2)])
    assert error is not None
    assert error.code == ErrorCode.KAFKA_STORAGE_ERROR
    assert (controller.image, controller.config) == (image, config)


async def test_listeners_see_the_settings_in_force() -> None:
    controller = await started(MemoryStore())
    seen: list[tuple[frozenset[ConfigResource], int]] = []

    def listen(_old: ClusterImage, _new: ClusterImage, delta: ImageDelta) -> None:
        seen.append((delta.configs_changed, controller.config.log_segment_bytes))

    controller.subscribe(listen)
    await controller.alter_configs([setting(OF_ONE, log_segment_bytes="99")])
    assert seen == [(frozenset({OF_ONE}), 99)]


async def test_a_setting_that_this_version_cannot_use_does_not_stop_it() -> None:
    store = MemoryStore()
    await store.commit(puts={configs_key(OF_ALL): encode_configs({"log.segment.bytes": "a newer form"})})
    controller = await started(store)
    assert controller.config is controller.static_config
