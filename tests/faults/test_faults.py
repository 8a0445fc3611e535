"""Requests go wrong as the rules ask for, and others are handled as without rules."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import pytest

from pybroker.faults.faults import Faults, collected
from pybroker.faults.rule import RuleError
from pybroker.model import Offset
from pybroker.network.context import ConnectionContext, Outgoing
from pybroker.protocol.codec import decode_response, encode_response
from pybroker.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from pybroker.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from pybroker.protocol.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from pybroker.protocol.parts import SendPart
from pybroker.records.batch import Record, batches
from pybroker.records.build import build_batch
from testing.places import ROOT
from testing.scenes.api.whole import frame_of

CONNECTION = ConnectionContext(connection_id=1)
HEARTBEAT = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
RESPONSE = b"".join(encode_response(HeartbeatResponse(error_code=0), 3, 77))  # type: ignore[arg-type]


class Broker:
    """Handles requests by a response that is there, or comes later, and remembers them."""

    def __init__(self, faults: Faults, response: Any = RESPONSE, *, is_later: bool = False) -> None:
        self.handled = 0
        self._response, self._is_later = response, is_later
        self._handle = faults.acting(self._handler, lambda _: None)

    def _handler(self, _connection: ConnectionContext, _frame: memoryview) -> Any:
        self.handled += 1
        if not self._is_later:
            return self._response
        future = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_soon(future.set_result, self._response)
        return future

    async def ask(self, request: object = HEARTBEAT, version: int = 3) -> Any:
        frame = frame_of(request, version)
        sent = self._handle(CONNECTION, frame)
        frame[:] = bytes(len(frame))  # the memory of a request is used again
        return await sent if isinstance(sent, asyncio.Future) else sent


async def test_a_broker_without_rules_handles_requests_itself() -> None:
    faults = Faults()
    broker = Broker(faults)
    assert await broker.ask() is RESPONSE
    faults.add(api="Fetch", drop=True)
    assert await broker.ask() is RESPONSE


@pytest.mark.parametrize(("when", "handled"), [("before", 0), ("after", 1)])
@pytest.mark.parametrize("is_later", [False, True])
async def test_an_error_is_for_everything_that_the_request_names(when: str, handled: int, *, is_later: bool) -> None:
    faults = Faults()
    broker = Broker(faults, is_later=is_later)
    faults.add(api="Produce", error="NOT_ENOUGH_REPLICAS", when=when)
    data = [PartitionProduceData(index=number, records=memoryview(b"")) for number in range(2)]
    request = ProduceRequest(acks=1, timeout_ms=1, topic_data=[TopicProduceData(name="a", partition_data=data)])
    correlation_id, response = decode_response(ProduceResponse, 9, memoryview(await broker.ask(request, 9))[4:])
    assert correlation_id == 77
    assert [one.error_code for one in response.responses[0].partition_responses] == [19, 19]
    assert broker.handled == handled


async def test_a_produce_that_wants_no_response_gets_none_with_an_error_either() -> None:
    faults = Faults()
    faults.add(error="NOT_ENOUGH_REPLICAS")
    assert await Broker(faults).ask(ProduceRequest(acks=0, timeout_ms=1, topic_data=[]), 9) is None


@pytest.mark.parametrize(("when", "handled"), [("before", 0), ("after", 1)])
async def test_a_dropped_request_waits_until_the_broker_stops(when: str, handled: int) -> None:
    faults = Faults()
    broker = Broker(faults)
    faults.add(drop=True, when=when)
    waiting = asyncio.ensure_future(broker.ask())
    for _ in range(5):
        await asyncio.sleep(0)
    assert not waiting.done()
    assert broker.handled == handled
    faults.release()
    with pytest.raises(asyncio.CancelledError):
        await waiting


@pytest.mark.parametrize(("when", "handled"), [("before", 0), ("after", 1)])
async def test_a_cancelled_response_closes_the_connection(when: str, handled: int) -> None:
    faults = Faults()
    broker = Broker(faults)
    faults.add(close=True, when=when)
    with pytest.raises(asyncio.CancelledError):
        await broker.ask()
    assert broker.handled == handled


async def turns() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


@pytest.mark.parametrize("is_later", [False, True])
async def test_a_muted_request_is_handled_when_its_rule_is_removed(*, is_later: bool) -> None:
    faults = Faults()
    broker = Broker(faults, is_later=is_later)
    rule = faults.add(mute=True)
    waiting = asyncio.ensure_future(broker.ask())
    await turns()
    assert (waiting.done(), broker.handled, rule.count) == (False, 0, 1)
    await asyncio.to_thread(faults.clear)
    assert await waiting is RESPONSE
    assert broker.handled == 1


async def test_a_muted_request_is_handled_when_its_time_is_over() -> None:
    faults = Faults()
    broker = Broker(faults)
    faults.add(mute_s=0.02)
    loop = asyncio.get_running_loop()
    began = loop.time()
    assert await broker.ask() is RESPONSE
    assert loop.time() - began >= 0.02
    assert await broker.ask() is RESPONSE


async def test_the_connection_of_a_muted_request_is_closed_when_the_broker_stops() -> None:
    faults = Faults()
    broker = Broker(faults)
    faults.add(mute=True)
    waiting = asyncio.ensure_future(broker.ask())
    await turns()
    faults.close()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert broker.handled == 0


async def test_a_muted_request_of_a_lost_connection_is_not_handled() -> None:
    faults, connection = Faults(), ConnectionContext(connection_id=2)
    broker = Broker(faults)
    faults.add(mute=True)
    waiting = broker._handle(connection, frame_of(HEARTBEAT, 3))
    assert isinstance(waiting, asyncio.Future)
    await turns()
    connection.lose()
    faults.clear()
    assert await waiting is None
    assert broker.handled == 0


async def test_a_rule_that_finds_nothing_to_do_leaves_the_request_as_it_is() -> None:
    faults = Faults()
    rule = faults.add(expire=True)
    assert await Broker(faults).ask() is RESPONSE
    assert (rule.seen, rule.count) == (0, 0)


async def test_rules_about_disks_take_no_requests() -> None:
    faults = Faults()
    rule = faults.add(disk_delay_s=1.0)
    assert await Broker(faults).ask() is RESPONSE
    assert rule.seen == 0


@pytest.mark.parametrize("is_later", [False, True])
async def test_a_response_is_late(*, is_later: bool) -> None:
    faults = Faults()
    broker = Broker(faults, is_later=is_later)
    faults.add(delay_s=0.02)
    loop = asyncio.get_running_loop()
    began = loop.time()
    assert await broker.ask() is RESPONSE
    assert loop.time() - began >= 0.02


async def test_a_response_is_cut_and_its_connection_closed() -> None:
    faults = Faults()
    faults.add(cut=5)
    sent = await Broker(faults).ask()
    assert isinstance(sent, Outgoing)
    assert (sent.parts, sent.size, sent.close_after) == ([RESPONSE[:5]], 5, True)


async def test_a_response_has_a_throttle_time() -> None:
    faults = Faults()
    faults.add(throttle_ms=250)
    _, response = decode_response(HeartbeatResponse, 3, memoryview(await Broker(faults).ask())[4:])
    assert response.throttle_time_ms == 250
    old = b"".join(encode_response(HeartbeatResponse(error_code=0), 0, 77))  # type: ignore[arg-type]
    assert await Broker(faults, old).ask(version=0) == old, "the version has no throttle time"


async def test_batches_have_a_wrong_checksum() -> None:
    faults = Faults()
    faults.add(api="Fetch", corrupt_crc=True)
    data = build_batch([Record(Offset(0), 1, None, b"x")]) + build_batch([Record(Offset(1), 1, None, b"y")])
    partition = PartitionData(partition_index=0, error_code=0, high_watermark=2, records=memoryview(data))
    message = FetchResponse(responses=[FetchableTopicResponse(topic="a", partitions=[partition])])
    encoded = b"".join(encode_response(message, 11, 77))  # type: ignore[arg-type]
    asked = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1)
    request = FetchRequest(max_wait_ms=1, min_bytes=1, topics=[FetchTopic(topic="a", partitions=[asked])])
    sent = await Broker(faults, encoded).ask(request, 11)
    _, response = decode_response(FetchResponse, 11, memoryview(bytearray(sent))[4:])
    records = response.responses[0].partitions[0].records
    assert isinstance(records, memoryview)
    assert [one.is_valid for one in batches(records)] == [False, False]


class Late(SendPart):
    def __init__(self, data: bytes) -> None:
        self.size, self._left, self.is_closed = len(data), [data[:2], data[2:]], False

    def pull(self, bytes_max: int) -> list[bytes | memoryview]:
        return [self._left.pop(0)] if self._left else []

    def close(self) -> None:
        self.is_closed = True


def test_a_response_in_parts_is_collected_and_closed() -> None:
    late, sent = Late(b"later"), []
    assert collected(Outgoing([b"a", late, memoryview(b"z")], 7, lambda: sent.append(1))) == b"alaterz"
    assert late.is_closed
    assert sent == [1]


async def test_the_first_rule_that_takes_a_request_decides() -> None:
    faults = Faults()
    broker = Broker(faults)
    once = faults.add(name="once", cut=1, times=1)
    always = faults.add(name="always", cut=2)
    assert [len((await broker.ask()).parts[0]) for _ in range(3)] == [1, 2, 2]
    assert (once.count, always.count) == (1, 2)
    assert [*faults.rules] == ["once", "always"]
    faults.remove("always")
    assert await broker.ask() is RESPONSE
    faults.clear()
    assert faults.rules == {}


def test_names_are_unique_and_known() -> None:
    faults = Faults()
    faults.add(name="one", drop=True)
    with pytest.raises(RuleError, match="another rule has this name"):
        faults.add(name="one", drop=True)
    with pytest.raises(KeyError, match="there is no rule two, but one"):
        faults.remove("two")


def test_a_file_with_a_name_twice_adds_nothing(tmp_path: Path) -> None:
    file, faults = tmp_path / "faults.json", Faults()
    file.write_text(json.dumps([{"name": "one", "drop": True}] * 2))
    with pytest.raises(RuleError, match="several rules have the name one"):
        faults.load(file)
    assert faults.rules == {}


@pytest.mark.parametrize(
    ("fields", "text"), [({"topics": "orders"}, "no field topics, but name, "), ({"times": "2"}, "times='2': it must be int")]
)
def test_a_field_that_no_rule_has_and_a_value_of_another_type_are_errors_of_the_rule(fields: dict[str, Any], text: str) -> None:
    with pytest.raises(RuleError, match=text):
        Faults().add(drop=True, **fields)


def test_a_rule_has_versions_as_a_tuple() -> None:
    assert Faults().add(version=(0, 3), drop=True).version == (0, 3)


def test_rules_come_from_a_file(tmp_path: Path) -> None:
    faults, path = Faults(), tmp_path / "faults.json"
    path.write_text(json.dumps([{"name": "one", "drop": True}, {"name": "two", "api": "Fetch", "delay_s": 1}]))
    assert [one.name for one in faults.load(path)] == ["one", "two"] == [*faults.rules]
    for content in ({"name": "one"}, ["drop"]):
        path.write_text(json.dumps(content))
        with pytest.raises(ValueError, match="must be a list of rules"):
            faults.load(path)


def test_the_rules_of_the_page_can_be(tmp_path: Path) -> None:
    page, path, faults = (ROOT / "docs" / "testing.md").read_text(), tmp_path / "faults.yaml", Faults()
    for block in re.findall(r"^```yaml\n(.*?)^```$", page, re.MULTILINE | re.DOTALL):
        if "name:" in block:
            path.write_text(block)
            faults.load(path)
    assert [*faults.rules] == ["leader moves", "slow", "full from the second minute on", "slow disk", "fenced"]
