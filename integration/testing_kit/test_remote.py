"""Faults, time, requests and reset of a broker that is a process are those of one in this process."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import stat
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import kafka
import pytest

from pybroker.testing import Broker, RealClockError
from pybroker.testing.faults import Rule, RuleError
from testing.waiting import WAIT_S

DAY_MS = 86_400_000


@pytest.fixture(params=["in_thread", "subprocess"])
def broker(request: pytest.FixtureRequest) -> Iterator[Any]:
    make: Callable[..., Any] = getattr(Broker, request.param)
    with make(virtual_time=True) as started:
        yield started


def send(broker: Any, value: bytes = b"1", topic: str = "orders") -> None:
    producer = kafka.KafkaProducer(bootstrap_servers=broker.bootstrap, client_id="shop", retry_backoff_ms=10)
    producer.send(topic, value).get(timeout=WAIT_S)
    producer.close()


def produced(broker: Any) -> int:
    return sum(one.api == "Produce" and one.client_id == "shop" for one in broker.requests)


def test_rules_are_added_counted_and_removed(broker: Any) -> None:
    rule = broker.faults.add(name="moves", api="Produce", topic="orders", error="NOT_LEADER_OR_FOLLOWER", times=2)
    assert isinstance(rule, Rule)
    assert (rule.seen, rule.count) == (0, 0)
    send(broker)
    assert (rule.seen, rule.count) == (3, 2)
    assert rule.as_data() == {
        "name": "moves", "api": "Produce", "topic": "orders", "error": "NOT_LEADER_OR_FOLLOWER", "times": 2, "seen": 3, "count": 2
    }  # fmt: skip
    assert broker.faults.rules == {"moves": rule}
    assert broker.faults.rules["moves"] is rule
    with pytest.raises(RuleError, match="another rule has this name"):
        broker.faults.add(name="moves", drop=True)
    with pytest.raises(RuleError, match="exactly one of"):
        broker.faults.add(api="Produce")
    broker.faults.remove("moves")
    assert broker.faults.rules == {}
    assert rule.count == 2
    with pytest.raises(KeyError):
        broker.faults.remove("moves")


def test_rules_are_put_loaded_and_cleared(broker: Any, tmp_path: Path) -> None:
    put = broker.faults.put(Rule(name="a/b c", api="Fetch", version=(0, 3), delay_s=0.5))
    path = tmp_path / "faults.json"
    path.write_text(json.dumps([{"name": "second", "api": "Fetch", "drop": True}]))
    (loaded,) = broker.faults.load(path)
    assert [*broker.faults.rules] == [put.name, loaded.name] == ["a/b c", "second"]
    assert broker.faults.rules["a/b c"].version == (0, 3)
    broker.faults.remove("a/b c")
    broker.faults.clear()
    assert broker.faults.rules == {}


def test_what_a_test_does_is_no_request_of_a_client_and_meets_no_rule(broker: Any) -> None:
    broker.faults.add(close=True)
    broker.create_topic("orders")
    broker.produce("orders", b"1")
    assert [one.value for one in broker.consume("orders")] == [b"1"]
    assert broker.requests == []


def test_requests_are_seen_and_a_reset_leaves_nothing(broker: Any) -> None:
    send(broker)
    (request,) = [one for one in broker.requests if one.api == "Produce"]
    assert (request.client_id, request.topics, request.partitions) == ("shop", ("orders",), frozenset({("orders", 0)}))
    broker.faults.add(name="mute", api="Produce", drop=True)
    broker.reset()
    assert (broker.requests, broker.faults.rules, broker.topics(), broker.groups()) == ([], {}, {}, {})
    send(broker)
    assert produced(broker) == 1


def test_time_passes(broker: Any) -> None:
    broker.create_topic("events", settings={"retention.ms": 7 * DAY_MS})
    send(broker, topic="events")
    before_ms = broker.clock.time_ms()
    broker.clock.advance("6d")
    assert len(broker.consume("events")) == 1
    broker.clock.advance("1d", only=["logs"])
    assert broker.consume("events") == []
    assert 7 * DAY_MS <= broker.clock.time_ms() - before_ms < 8 * DAY_MS
    with pytest.raises(ValueError, match="no duration"):
        broker.clock.advance("7")
    with pytest.raises(ValueError, match="which disks is not"):
        broker.clock.advance("1d", only=["disks"])


@pytest.mark.parametrize("end", ["restart", "kill", "restore"])
def test_rules_requests_and_time_outlast_lives(broker: Any, end: str) -> None:
    rule = broker.faults.add(api="Produce", error="NOT_LEADER_OR_FOLLOWER", times=1)
    send(broker)
    snapshot = broker.snapshot()
    broker.clock.advance("2d")
    before_ms = broker.clock.time_ms()
    if end == "kill":
        broker.kill()
        assert rule.count == 1
        broker.clock.advance("1d")
        assert DAY_MS <= broker.clock.time_ms() - before_ms < 2 * DAY_MS
    if end == "restore":
        broker.restore(snapshot)
    else:
        broker.restart()
    assert broker.clock.time_ms() >= before_ms + DAY_MS * (end == "kill")
    assert produced(broker) == (0 if end == "restore" else 2)
    send(broker, b"2")
    assert rule.count == 1  # the counts of the earlier life are those of this one
    assert rule.seen == 3
    assert [one.value for one in broker.consume("orders")] == [b"1", b"2"]


def test_the_clock_of_the_machine_cannot_be_moved() -> None:
    with Broker.subprocess() as broker, pytest.raises(RealClockError, match="clock of the machine"):
        broker.clock.advance("1d")


def test_a_process_that_others_have_killed_has_its_rules_again() -> None:
    with Broker.subprocess() as broker:
        rule = broker.faults.add(api="Produce", error="NOT_LEADER_OR_FOLLOWER", times=1)
        os.kill(broker.pid, signal.SIGKILL)
        broker.restart()
        send(broker)
        assert rule.count == 1


def test_rules_of_a_file_are_there_too(tmp_path: Path) -> None:
    path = tmp_path / "faults.json"
    path.write_text(json.dumps([{"api": "Produce", "error": "NOT_LEADER_OR_FOLLOWER", "times": 1}]))
    with Broker.subprocess({"pybroker.faults.file": str(path)}) as broker:
        send(broker)
        (rule,) = broker.faults.rules.values()
        assert rule.count == 1
        broker.restart()
        send(broker)
        assert [one.count for one in broker.faults.rules.values()] == [1]


def test_the_token_is_on_no_command_line_and_in_no_log_and_others_need_it() -> None:
    with Broker.subprocess() as broker:
        token = broker._texts["pybroker.admin.token"]
        assert token not in Path(f"/proc/{broker.pid}/cmdline").read_text()
        assert token not in Path(f"/proc/{broker.pid}/environ").read_text()
        assert token not in broker.log_text
        assert broker._directory is not None
        assert stat.S_IMODE(broker._directory.path.stat().st_mode) == 0o700
        with pytest.raises(urllib.error.HTTPError, match="401"):
            urllib.request.urlopen(f"{broker.admin_url}/v1/faults", timeout=WAIT_S)


def test_an_address_of_the_settings_is_that_of_the_api_which_then_needs_no_token() -> None:
    with Broker.subprocess({"pybroker.admin.listener": "http://127.0.0.1:0"}) as broker:
        broker.faults.add(name="one", drop=True, api="Produce")
        with contextlib.closing(urllib.request.urlopen(f"{broker.admin_url}/v1/faults", timeout=WAIT_S)) as response:
            assert [one["name"] for one in json.load(response)["faults"]] == ["one"]


def test_clients_are_shown_with_what_they_used_until_a_reset(broker: Any) -> None:
    send(broker)
    (client,) = broker.clients()
    assert (client.client_id, client.host, client.connections, client.refused_by_kafka_4) == ("shop", "127.0.0.1", 0, ())
    assert sum(client.requests["Produce"].values()) == 1
    broker.reset()
    assert broker.clients() == []


def test_a_reset_leaves_a_broker_that_works_after_its_disk_has_failed() -> None:
    with Broker.subprocess() as broker:
        send(broker)
        broker.faults.add(name="broken", disk_error="EIO")
        broker.reset()
        assert broker.faults.rules == {}
        assert broker.topics() == {}
        send(broker)
        assert len(broker.consume("orders")) == 1
