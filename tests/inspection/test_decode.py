"""The records of Kafka's internal logs, decoded; what cannot be decoded keeps its bytes."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pybroker.inspection.decode import DECODERS, control_fields
from pybroker.inspection.lines import line_of
from pybroker.model import Offset
from pybroker.protocol.codec import encode
from pybroker.protocol.messages.metadata_records import TopicRecord
from pybroker.protocol.messages.other_metadata_records import BrokerRegistrationChangeRecord, RegisterBrokerRecord
from pybroker.protocol.messages.quorum_records import LeaderChangeMessage, Voter
from pybroker.protocol.messages.transaction_records import TransactionLogKey, TransactionLogValue, TransactionPartitions
from pybroker.records.batch import Record

ID = bytes(range(16))
TOPIC = b"\x01\x02\x00"
"""The frame, the type and the version of a TopicRecord."""


def record(key: bytes | None, value: bytes | None) -> Record:
    return Record(Offset(7), 1, key, value)


def message_bytes(message: Any, version: int) -> bytes:
    return b"".join(bytes(part) for part in encode(message, version))  # type: ignore[arg-type]  # without late parts


def test_a_metadata_record_has_kafkas_names_and_forms() -> None:
    value = TOPIC + message_bytes(TopicRecord(name="orders", topic_id=ID), 0)
    expected = {"type": "TOPIC_RECORD", "version": 0, "data": {"name": "orders", "topicId": "AAECAwQFBgcICQoLDA0ODw"}}
    assert DECODERS["metadata"](record(None, value)) == {"payload": expected}


def test_tagged_fields_with_their_defaults_are_left_out() -> None:
    change = BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=5, fenced=-1)
    (payload,) = DECODERS["metadata"](record(None, b"\x01\x11\x03" + message_bytes(change, 3))).values()
    assert payload == {
        "type": "BROKER_REGISTRATION_CHANGE_RECORD",
        "version": 3,
        "data": {"brokerId": 1, "brokerEpoch": 5, "fenced": -1},
    }
    broker = RegisterBrokerRecord(broker_id=1, log_dirs=[ID], cordoned_log_dirs=[])
    (payload,) = DECODERS["metadata"](record(None, b"\x01\x00\x04" + message_bytes(broker, 4))).values()
    assert isinstance(payload, dict)
    assert payload["data"]["logDirs"] == ["AAECAwQFBgcICQoLDA0ODw"]
    assert payload["data"]["cordonedLogDirs"] == [], "null is the default"


@pytest.mark.parametrize("version", [0, 1])
def test_the_state_of_a_transactional_id(version: int) -> None:
    value = TransactionLogValue(
        producer_id=4,
        producer_epoch=1,
        next_producer_id=-1,
        transaction_timeout_ms=60_000,
        transaction_status=1,
        transaction_partitions=[TransactionPartitions(topic="orders", partition_ids=[2])],
    )
    key = b"\x00\x00" + message_bytes(TransactionLogKey(transactional_id="writer"), 0)
    fields = DECODERS["transactions"](record(key, bytes([0, version]) + message_bytes(value, version)))
    assert fields["key"] == {"type": "0", "data": {"transactionalId": "writer"}}
    payload: Any = fields["payload"]
    assert payload["version"] == str(version)
    assert payload["data"]["transactionPartitions"] == [{"topic": "orders", "partitionIds": [2]}]
    assert "nextProducerId" not in payload["data"], "a tagged field with its default"
    assert DECODERS["transactions"](record(key, None))["payload"] is None


def test_a_change_of_the_quorums_leader() -> None:
    message = LeaderChangeMessage(version=1, leader_id=3, voters=[Voter(voter_id=3, voter_directory_id=ID)], granting_voters=[])
    fields = control_fields(record(b"\x00\x00\x00\x02", message_bytes(message, 1)))
    voter = {"voterId": 3, "voterDirectoryId": "AAECAwQFBgcICQoLDA0ODw"}
    assert fields == {"LeaderChange": {"version": 1, "leaderId": 3, "voters": [voter], "grantingVoters": []}}


@pytest.mark.parametrize(
    ("decoder", "key", "value", "reason"),
    [
        ("metadata", None, b"\x01\x63\x00rest", "record type 99, version 0: unknown"),
        ("metadata", None, b"\x02\x02\x00rest", "frame version 2"),
        ("metadata", None, b"\x01\x02\x09rest", "has no version 9"),
        ("metadata", None, b"\x01\x02", "index out of range"),
        ("metadata", None, None, "has no value"),
        ("transactions", b"\x00\x05x", b"y", "record type 5: unknown"),
        ("transactions", b"\x00\x00\x00\x01w", b"\x00\x09y", "has no version 9"),
        ("offsets", b"\x00\x02\x00\x01g", b"\x00\x0cy", "has no version 12"),
        ("offsets", b"\x00", b"y", "buffer"),
    ],
)
def test_what_is_unknown_or_damaged_keeps_its_bytes(decoder: str, key: bytes | None, value: bytes | None, reason: str) -> None:
    fields = DECODERS[decoder](record(key, value))
    assert reason in str(fields["undecoded"])
    assert fields["payload"] == (None if value is None else value.decode())


@settings(max_examples=300, deadline=None)
@given(
    decoder=st.sampled_from(sorted(DECODERS)),
    head=st.sampled_from([b"", TOPIC, b"\x00\x00", b"\x00\x01", b"\x00\x02", b"\x00\x05", b"\x01\x00\x01", b"\x00\x03\x00\x01g"]),
    key=st.none() | st.binary(max_size=30),
    value=st.none() | st.binary(max_size=60),
)
def test_arbitrary_bytes_raise_nothing(decoder: str, head: bytes, key: bytes | None, value: bytes | None) -> None:
    one = record(None if key is None else head + key, None if value is None else head + value)
    for fields in (DECODERS[decoder](one), control_fields(one)):
        assert json.loads(json.dumps(fields)) == fields
        assert line_of({"type": "record", "offset": 7, **fields}).startswith("| offset: 7")
