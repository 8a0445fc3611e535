"""A rule takes the requests that it is about, and no others."""

from __future__ import annotations

import math
from typing import Any

import pytest

from pybroker.faults.rule import Rule, RuleError, rule_of
from pybroker.faults.trail import SeenRequest


def request(api: str = "Produce", version: int = 9) -> SeenRequest:
    return SeenRequest(
        api=api,
        version=version,
        client_id="app-1",
        connection=1,
        topics=("orders",),
        partitions=frozenset({("orders", 2), ("other", 3)}),
        groups=("g",),
        transactional_ids=("t",),
    )


def rule(**fields: Any) -> Rule:
    return Rule(drop=True, **fields)


@pytest.mark.parametrize(
    ("fields", "is_taken"),
    [
        ({}, True),
        ({"api": "Produce"}, True),
        ({"api": "Fetch"}, False),
        ({"api": "*Pro*"}, True),
        ({"version": 9}, True),
        ({"version": 8}, False),
        ({"version": (8, 9)}, True),
        ({"version": (10, 12)}, False),
        ({"topic": "orders"}, True),
        ({"topic": "ord*"}, True),
        ({"topic": "payments"}, False),
        ({"topic": "orders", "partition": 2}, True),
        ({"topic": "orders", "partition": 3}, False),
        ({"partition": 3}, True),
        ({"partition": 4}, False),
        ({"group": "g"}, True),
        ({"group": "h"}, False),
        ({"transactional_id": "t"}, True),
        ({"transactional_id": "u"}, False),
        ({"client_id": "app-?"}, True),
        ({"client_id": "app"}, False),
        ({"api": "Produce", "topic": "payments"}, False),
    ],
)
def test_every_condition_has_to_be_met(fields: dict[str, Any], is_taken: bool) -> None:
    one = rule(**fields)
    assert one.takes(request(), 0.0) is is_taken
    assert (one.seen, one.count) == (int(is_taken), int(is_taken))


def taken(one: Rule, count: int, age_s: float = 0.0) -> list[int]:
    return [number for number in range(1, count + 1) if one.takes(request(), age_s)]


def test_the_nth_request_is_taken_alone() -> None:
    assert taken(rule(nth=3), 5) == [3]


def test_no_more_requests_are_taken_than_wanted() -> None:
    one = rule(times=2)
    assert taken(one, 5) == [1, 2]
    assert (one.seen, one.count) == (5, 2)


def test_a_share_is_drawn_by_the_seed() -> None:
    first = taken(rule(probability=0.3, seed=7), 1000)
    assert 200 < len(first) < 400
    assert taken(rule(probability=0.3, seed=7), 1000) == first
    assert taken(rule(probability=0.3, seed=8), 1000) != first


def test_a_rule_has_its_time() -> None:
    ages = [age for age in range(10) if rule(after_s=2, for_s=3).takes(request(), age)]
    assert ages == [2, 3, 4]
    assert [age for age in range(5) if rule(after_s=2).takes(request(), age)] == [2, 3, 4]


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({}, "exactly one of error, delay_s, .*not none"),
        ({"drop": True, "delay_s": 1.0}, "not delay_s and drop"),
        ({"drop": False}, "not none"),
        ({"drop": True, "api": "Product"}, "no API that is served has this name"),
        ({"error": "OOPS"}, "no error has this name"),
        ({"error": "NONE"}, "no error has this name"),
        ({"drop": True, "when": "later"}, "it is before or after"),
        ({"corrupt_crc": True}, "about api=Fetch alone"),
        ({"drop": True, "probability": 2.0}, "from 0 to 1"),
        ({"delay_s": -1.0}, "delay_s=-1.0: it is from 0 to"),
        ({"delay_s": math.nan}, "delay_s=nan: it is from 0 to"),
        ({"mute_s": math.inf}, "mute_s=inf: it is from 0.001 to"),
        ({"mute_s": 0.0}, "mute_s=0.0: it is from 0.001 to"),
        ({"throttle_ms": 1 << 40}, "throttle_ms=1099511627776: it is from 0 to"),
        ({"cut": -1}, "cut=-1: it is from 0 to"),
        ({"drop": True, "nth": 0}, "nth=0: it is from 1 to"),
        ({"drop": True, "version": (5, 2)}, "the first and the last"),
        ({"drop": True, "version": (1, 2, 3)}, "the first and the last"),
        ({"drop": True, "operation": "write"}, "operation=write: it is about disks"),
        ({"drop": True, "directory": "*"}, "it is about disks"),
        ({"drop": True, "producer_id": 7}, "a condition of fence alone"),
        ({"fence": True, "api": "Fetch"}, "fence is about AddOffsetsToTxn, .*Produce"),
        ({"expire": True, "api": "JoinGroup"}, "expire is about .*Heartbeat"),
        ({"disk_full": True, "topic": "orders"}, "topic=orders: it is about requests, and disk_full is about disks"),
        ({"disk_full": True, "times": 1}, "times=1: disk_full is no matter of single operations"),
        ({"disk_error": "EPERM"}, "it is one of EIO, ENOSPC"),
        ({"disk_delay_s": 0.1, "operation": "seek"}, "it is one of write, read, sync"),
        ({"disk_delay_s": 0.1, "directory": "*"}, "about all log directories"),
    ],
)
def test_a_rule_that_cannot_be_is_refused(fields: dict[str, Any], error: str) -> None:
    with pytest.raises(RuleError, match=f"broken: .*{error}"):
        Rule(name="broken", **fields)


def test_each_rule_has_a_name() -> None:
    first, second = rule(), rule()
    assert first.name
    assert first.name != second.name


@pytest.mark.parametrize(
    ("data", "error"),
    [
        ({"drop": True, "topics": "a"}, "no field topics"),
        ({"error": 6}, "error=6: it must be str"),
        ({"drop": True, "times": "2"}, "times='2': it must be int"),
        ({"drop": True, "times": True}, "times=True"),
        ({"drop": 1}, "drop=1"),
    ],
)
def test_a_mistake_in_a_file_is_named(data: dict[str, Any], error: str) -> None:
    with pytest.raises(RuleError, match=error):
        rule_of(data)


def test_a_rule_is_the_same_data_in_and_out() -> None:
    data = {"name": "a", "api": "Fetch", "version": [0, 3], "delay_s": 1, "times": 2}
    one = rule_of(data)
    assert one.takes(request("Fetch", 3), 0.0)
    assert not one.takes(request("Fetch", 4), 0.0)
    assert one.as_data() == {**data, "version": (0, 3), "seen": 1, "count": 1}
    assert (one.action, rule_of({"error": "REQUEST_TIMED_OUT"}).code) == ("delay_s", 7)


@pytest.mark.parametrize(
    ("fields", "times"),
    [
        ({"fence": True}, 1),
        ({"rebalance": True, "nth": 3}, None),
        ({"expire": True, "times": 2}, 2),
        ({"mute_s": 1.0}, 1),
        ({"mute": True}, None),
    ],
)
def test_what_would_never_end_happens_once(fields: dict[str, Any], times: int | None) -> None:
    assert Rule(**fields).times == times


@pytest.mark.parametrize(
    ("fields", "apis"),
    [
        ({"fence": True}, ["Produce", "EndTxn"]),
        ({"expire": True}, ["Heartbeat", "OffsetCommit"]),
        ({"rebalance": True, "api": "*Heartbeat"}, ["Heartbeat"]),
        ({"end_session": True}, ["Produce", "EndTxn", "InitProducerId", "Heartbeat", "OffsetCommit", "JoinGroup"]),
    ],
)
def test_the_state_changes_with_requests_of_those_that_it_is_about(fields: dict[str, Any], apis: list[str]) -> None:
    asked = ("Produce", "EndTxn", "InitProducerId", "Heartbeat", "OffsetCommit", "JoinGroup")
    assert [api for api in asked if Rule(**fields).takes(request(api), 0.0)] == apis


def test_a_request_of_which_nothing_could_become_is_not_counted() -> None:
    one = Rule(expire=True)
    assert one.takes(request("Heartbeat"), 0.0)
    one.take_back()
    assert (one.seen, one.count) == (0, 0)
    assert one.takes(request("Heartbeat"), 0.0)
    assert not one.takes(request("Heartbeat"), 0.0)
