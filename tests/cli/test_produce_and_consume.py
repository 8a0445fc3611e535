"""`pybroker produce` and `consume` on a broker: each option, and the forms in both directions."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer

from pybroker.terminal import writing
from pybroker.testing import Broker, ThreadBroker
from tests.cli.cluster import invoke, lines, objects, refusal

AT_MS = 1_795_248_000_000


@pytest.fixture(scope="module")
def broker() -> Iterator[ThreadBroker]:
    with Broker.in_thread() as broker:
        yield broker


@pytest.fixture
def topic(broker: ThreadBroker, request: pytest.FixtureRequest) -> str:
    """Return a topic of the test's own, with three partitions."""
    name = f"t{abs(hash(request.node.name))}"
    broker.create_topic(name, 3)
    return name


def test_values_keys_headers_and_timestamps_are_written(broker: ThreadBroker, topic: str) -> None:
    at = broker.bootstrap
    words = ("-k", "k", "-H", "a=1", "-H", "b=", "--timestamp", "2026-11-21T08:00:00", "-p", "1", "-z", "gzip")
    assert lines(at, "produce", topic, "one", "two", *words) == [f"Wrote 2 records to {topic}-1, offsets 0 to 1"]
    records = broker.consume(topic)
    assert [(one.partition, one.key, one.value, one.timestamp_ms) for one in records] == [
        (1, b"k", b"one", AT_MS), (1, b"k", b"two", AT_MS),
    ]  # fmt: skip
    assert records[0].headers == (("a", b"1"), ("b", b""))
    assert broker.batches(topic, 1)[0].codec == "gzip"
    assert objects(at, "produce", topic, "x", "-p", "2")[0] == {
        "topic": topic, "partition": 2, "records": 1, "first": 0, "last": 0, "aborted": False,
    }  # fmt: skip


def test_lines_have_keys_and_nulls_and_a_key_has_the_partition_that_other_clients_give_it(
    broker: ThreadBroker, topic: str
) -> None:
    given = "a:1\nb:NULL\nNULL:3"
    lines(broker.bootstrap, "produce", topic, "--separator", ":", "--null", "NULL", given=given)
    found = {(one.partition, one.key, one.value) for one in broker.consume(topic) if one.key is not None}
    assert found == {(1, b"a", b"1"), (2, b"b", None)}
    assert [one.value for one in broker.consume(topic) if one.key is None] == [b"3"]


def test_records_come_from_a_file_with_another_delimiter(broker: ThreadBroker, topic: str, tmp_path: Path) -> None:
    file = tmp_path / "values"
    file.write_bytes(b"one\nline\0two\0")
    lines(broker.bootstrap, "produce", topic, "-p", "0", "--file", str(file), "--delimiter", "\\0")
    assert [one.value for one in broker.consume(topic)] == [b"one\nline", b"two"]
    assert refusal(broker.bootstrap, "produce", topic, "--file", str(tmp_path / "none")).endswith("No such file or directory")


def test_json_goes_there_and_back(broker: ThreadBroker, topic: str) -> None:
    at = broker.bootstrap
    given: list[dict[str, Any]] = [
        {"key": "k", "value": "text", "partition": 1, "timestamp_ms": AT_MS, "headers": [{"name": "h", "value_base64": "/w=="}]},
        {"key": None, "value": None, "partition": 1, "timestamp": "2026-11-21T08:00:00Z"},
        {"value_base64": "AP8=", "partition": 1, "timestamp_ms": AT_MS},
        {"value": {"a": [1, "ä"]}, "partition": 1, "timestamp_ms": AT_MS},
        {"key": {"base64": "az8="}, "value": {"base64": "/w=="}, "partition": 1, "timestamp_ms": AT_MS},
    ]
    lines(at, "produce", topic, "--format", "json", given="\n".join(map(json.dumps, given)) + "\n")
    rows = objects(at, "consume", topic)
    assert [(row["offset"], row["key"], row.get("value")) for row in rows] == [
        (0, "k", "text"), (1, None, None), (2, None, None), (3, None, '{"a":[1,"ä"]}'), (4, "k?", None),
    ]  # fmt: skip
    assert rows[0]["headers"] == given[0]["headers"]
    assert (rows[2]["value_base64"], rows[4]["value_base64"]) == ("AP8=", "/w==")
    assert {row["timestamp_ms"] for row in rows} == {AT_MS}
    again = "".join(json.dumps(row) + "\n" for row in rows)
    lines(at, "produce", topic, "--format", "json", given=again)
    copied = objects(at, "consume", topic, "--from", "5")
    assert [{**row, "offset": row["offset"] - 5} for row in copied] == rows


@pytest.mark.parametrize("text", ["0", "1000", str((1 << 63) - 1)])
def test_a_timestamp_may_be_any_number_of_ms_since_1970(broker: ThreadBroker, topic: str, text: str) -> None:
    at = broker.bootstrap
    lines(at, "produce", topic, "x", "--timestamp", text)
    lines(at, "produce", topic, "--format", "json", given=json.dumps({"value": "y", "timestamp": int(text)}))
    assert {row["timestamp_ms"] for row in objects(at, "consume", topic)} == {int(text)}
    for wrong in ("-1", "soon", str(1 << 63)):
        assert "must be a time, ms since 1970" in refusal(at, "produce", topic, "x", "--timestamp", wrong, code=2)


def test_batches_without_keys_go_to_partitions_by_chance(
    broker: ThreadBroker, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writing, "random", random.Random(7))
    written = [objects(broker.bootstrap, "produce", topic, "x", "y") for _ in range(20)]
    assert [row["records"] for (row,) in written] == [2] * 20, "a batch is not divided"
    assert {row["partition"] for (row,) in written} == {0, 1, 2}


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "line 1: not a record in JSON: "),
        ("[]", "line 1: not a record in JSON: it is no object"),
        ('{"value_base64": "?"}', "line 1: not a record in JSON: "),
        ('{"headers": [{}]}', "line 1: a header has no name"),
        ('{"timestamp": "soon"}', "'soon' is no time"),
        ('{"timestamp_ms": -2}', "timestamp_ms -2 is no time"),
        ('{"key": "a", "Value": "x"}', "line 1: a record has no field 'Value'. Did you mean 'value'?"),
        ('{"zzz": 1}', "line 1: a record has no field 'zzz'; its fields are topic, partition, offset, timestamp_ms, "),
        ('{"headers": [{"name": "a", "valu": "x"}]}', "line 1: a header has no field 'valu'. Did you mean 'value'"),
        ('{"key": {"id": 1}}', 'line 1: not a record in JSON: key must be a text, null, or {"base64": "/w=="}'),
        ('{"key": 7}', "key must be a text, null, or "),
        ('{"key": {"base64": "?"}}', "line 1: not a record in JSON: "),
        ('{"headers": [{"name": "a", "value": [1]}]}', "the value of header 'a' must be a text, null, or "),
        ('{"headers": {"a": "x"}}', "a header must be an object as "),
    ],
)
def test_a_line_that_is_no_record_is_named(broker: ThreadBroker, topic: str, line: str, message: str) -> None:
    done = invoke(broker.bootstrap, "produce", topic, "--format", "json", given=line)
    assert done.exit_code == 1
    assert message in done.stderr
    assert done.stderr.count("\n") == 1


def test_the_records_before_a_wrong_line_are_written_once_and_counted(broker: ThreadBroker, topic: str) -> None:
    many = [f"{number:030d}" for number in range(50_000)]  # more than one read, and more than one batch
    given = "".join(json.dumps({"key": one, "value": one}) + "\n" for one in many)
    done = invoke(broker.bootstrap, "produce", topic, "--format", "json", given=given + '{"valu": 1}\n{"value": "never"}\n')
    assert (done.exit_code, done.stderr) == (
        1, "Error: line 50001: a record has no field 'valu'. Did you mean 'value'? 50,000 records were written before\n"
    )  # fmt: skip
    assert sorted(lines(broker.bootstrap, "consume", topic)) == many
    done = invoke(broker.bootstrap, "produce", topic, "--separator", ":", given="a:b\nc\n")
    assert done.stderr == "Error: line 2 has no ':' between a key and a value; 1 record was written before\n"
    done = invoke(broker.bootstrap, "produce", topic, "--format", "json", given='{"partition": 0}\n{"partition": 3}\n')
    assert done.stderr.endswith(f"{topic} has 3 partitions; 1 record was written before\n")
    assert len(lines(broker.bootstrap, "consume", topic)) == 50_002


def test_records_are_read_from_one_place_to_another(broker: ThreadBroker, topic: str) -> None:
    at = broker.bootstrap
    for number in range(6):
        broker.produce(topic, str(number), timestamp_ms=AT_MS + number * 1000)
    broker.produce(topic, "other", partition=1, timestamp_ms=AT_MS)

    def read(*words: str) -> list[str]:
        return lines(at, "consume", topic, "-p", "0", *words)

    assert read() == list("012345")
    assert read("--from", "4") == list("45")
    assert read("--from", "-2") == list("45")
    assert read("--from", "end") == []
    assert read("--from", "2026-11-21T08:00:02", "--until", "2026-11-21T08:00:04") == list("23")
    assert read("--until", "1") == ["0"]
    assert read("-n", "3") == list("012")
    assert read("--follow", "-n", "6") == list("012345")
    assert len(lines(at, "consume", topic)) == 7
    assert lines(at, "consume", topic, "--from", "10m") == []
    assert lines(at, "consume", topic, "-n", "1", "--format", "key-value", "--separator", "|", "--null", "NIL") == ["NIL|0"]
    assert lines(at, "consume", topic, "--format", "none") == []


def test_what_cannot_be_read_is_refused(broker: ThreadBroker, topic: str) -> None:
    at = broker.bootstrap
    assert refusal(at, "consume", "none") == "topic none: UNKNOWN_TOPIC_OR_PARTITION: there is no such topic"
    assert refusal(at, "consume", "none", "-g", topic) == "topic none: UNKNOWN_TOPIC_OR_PARTITION: there is no such topic"
    assert "none" not in broker.topics(), "to read creates no topic, although the broker creates those that are written"
    assert refusal(at, "consume", topic, "-p", "3") == f"{topic}-3: UNKNOWN_TOPIC_OR_PARTITION: {topic} has 3 partitions"
    assert "is not beginning" in refusal(at, "consume", topic, "--from", "soon", code=2)
    assert "--follow has no end" in refusal(at, "consume", topic, "-f", "--until", "end", code=2)
    assert refusal(at, "produce", topic, "x", "-p", "3") == f"{topic}-3: UNKNOWN_TOPIC_OR_PARTITION: {topic} has 3 partitions"
    assert refusal(at, "produce", "a/b", "x").startswith("topic a/b: INVALID_TOPIC_EXCEPTION")


def test_a_transaction_is_all_or_nothing(broker: ThreadBroker, topic: str) -> None:
    at = broker.bootstrap
    lines(at, "produce", topic, "1", "2", "-p", "0", "--transactional-id", "tx")
    assert lines(at, "produce", topic, "3", "-p", "0", "--transactional-id", "tx", "--abort")[0].startswith("Aborted 1 record ")
    assert lines(at, "consume", topic) == ["1", "2"]
    assert lines(at, "consume", topic, "--uncommitted") == ["1", "2", "3"]
    broken = invoke(at, "produce", topic, "--format", "json", "--transactional-id", "tx", given='{"value": "4"}\n{')
    assert broken.exit_code == 1
    assert lines(at, "consume", topic) == ["1", "2"]
    assert objects(at, "transactions", "describe", "tx")[0]["state"] != "Ongoing"


def test_acks_and_large_records(broker: ThreadBroker, topic: str) -> None:
    at = broker.bootstrap
    assert lines(at, "produce", topic, "0", "-p", "0", "--acks", "0") == [f"Wrote 1 record to {topic}-0"]
    assert lines(at, "produce", topic, "1", "-p", "0", "--acks", "1") == [f"Wrote 1 record to {topic}-0, offset 1"]
    assert broker.batches(topic, 0)[1].producer_id == -1
    many = "".join(f"{number:0200d}\n" for number in range(5000))
    lines(at, "produce", topic, "-p", "1", given=many)
    assert "".join(one + "\n" for one in lines(at, "consume", topic, "-p", "1")) == many
    broker.create_topic(f"{topic}s", settings={"max.message.bytes": 100})
    assert "MESSAGE_TOO_LARGE" in refusal(at, "produce", f"{topic}s", "x" * 1000)


def test_a_group_continues_where_it_was_and_shares_with_other_clients(broker: ThreadBroker, topic: str) -> None:
    at = broker.bootstrap
    broker.produce(topic, *"0123")
    assert lines(at, "consume", topic, "-g", topic, "-n", "2") == ["0", "1"]
    assert objects(at, "groups", "describe", topic)[0]["offset"] == 2
    assert lines(at, "consume", topic, "-g", topic) == ["2", "3"]
    assert objects(at, "groups", "list")[0]["lag"] == 0
    broker.produce(topic, "4")
    other = Consumer({"bootstrap.servers": at, "group.id": topic, "auto.offset.reset": "earliest"})
    other.subscribe([topic])
    message = other.poll(30)
    assert message is not None
    assert message.value() == b"4", "another client continues at the offset that the command has committed"
    other.close()


def test_a_topic_that_is_not_there_is_created_when_the_broker_may(broker: ThreadBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    assert lines(broker.bootstrap, "produce", "greetings", given="hello\n") == ["Wrote 1 record to greetings-0, offset 0"]
    monkeypatch.setattr(writing, "CREATION_S", 0.0)
    with Broker.in_thread({"auto.create.topics.enable": "false"}) as strict:
        assert refusal(strict.bootstrap, "produce", "greetings", "hello") == (
            "topic greetings: UNKNOWN_TOPIC_OR_PARTITION: there is no such topic, and the broker creates none by itself: "
            "`pybroker topics create greetings` does"
        )
        assert not strict.topics()


def test_partitions_that_do_not_fit_into_one_response_are_read_to_their_ends(
    broker: ThreadBroker, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pybroker.terminal.reading.FETCH_BYTES", 1_000)
    for partition in range(3):
        for number in range(5):
            broker.produce(topic, f"{partition}-{number}".ljust(400), partition=partition)
    expected = sorted(f"{partition}-{number}" for partition in range(3) for number in range(5))
    assert sorted(line.strip() for line in lines(broker.bootstrap, "consume", topic)) == expected
    assert sorted(line.strip() for line in lines(broker.bootstrap, "consume", topic, "--group", f"g-{topic}")) == expected
    assert broker.groups()[f"g-{topic}"].lag == 0
