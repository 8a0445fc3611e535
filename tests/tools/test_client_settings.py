"""A Java client's settings as librdkafka's."""

from __future__ import annotations

import sys

import pytest

from pybroker.tools import consumer, producer
from pybroker.tools.client_settings import Troubles, library, librdkafka_of, pairs
from pybroker.tools.errors import NOT_SUPPORTED, CommandError
from pybroker.tools.options import parse

AT = ["--bootstrap-server", "localhost:1", "--topic", "t"]


def test_settings_with_another_name_or_unit(capsys: pytest.CaptureFixture[str]) -> None:
    given = {"acks": "1", "buffer.memory": "33554432", "fetch.max.wait.ms": "7", "max.poll.records": "5"}
    assert librdkafka_of("toy", given) == {"acks": "1", "queue.buffering.max.kbytes": 32768, "fetch.wait.max.ms": 7}
    assert capsys.readouterr().err == "WARN toy: max.poll.records has no meaning for this client and is ignored\n"
    with pytest.raises(CommandError, match=r"Invalid value much for configuration buffer\.memory: Not a number of type INT"):
        librdkafka_of("toy", {"buffer.memory": "much"})


def test_assignors_are_named_by_their_classes() -> None:
    classes = "org.apache.kafka.clients.consumer.RangeAssignor,org.apache.kafka.clients.consumer.CooperativeStickyAssignor"
    name = "partition.assignment.strategy"
    assert librdkafka_of("toy", {name: classes}) == {name: "range,cooperative-sticky"}


def test_a_login_module_is_a_user_and_a_password() -> None:
    module = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="alice" password="a=b";'
    given = {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN"}
    wanted = given | {"sasl.username": "alice", "sasl.password": "a=b"}
    assert librdkafka_of("toy", given | {"sasl.jaas.config": module}) == wanted
    with pytest.raises(CommandError, match=r"sasl\.jaas\.config=\[hidden\]: is no login module") as refused:
        librdkafka_of("toy", given | {"sasl.jaas.config": module.removesuffix(";")})
    assert "a=b" not in str(refused.value)


def test_pairs() -> None:
    assert pairs(["a=1", "b", "a=2=3"]) == {"a": "2=3", "b": ""}


def produced(*words: str) -> dict[str, object]:
    return producer.settings_of("toy", parse("toy", producer.KINDS, [*AT, *words]))


def test_a_producers_options_are_settings() -> None:
    found = produced()
    wanted = {"bootstrap.servers": "localhost:1", "acks": "-1", "linger.ms": "1000", "compression.type": "none"}
    assert wanted.items() <= found.items()
    assert found["partitioner"] == "murmur2_random"
    assert produced("--compression-codec")["compression.type"] == "gzip"
    assert produced("--compression-codec", "lz4", "--request-required-acks", "1")["acks"] == "1"
    assert produced("--producer-property", "acks=0")["acks"] == "0"
    assert produced("--producer-property", "acks=0", "--request-required-acks", "1")["acks"] == "1"
    assert produced("--max-partition-memory-bytes", "9")["batch.size"] == "9"
    assert produced("--max-block-ms", "500")["linger.ms"] == 250


@pytest.mark.parametrize(
    ("given", "found"), [("http://localhost:9092", "localhost:9092"), ("a:1, PLAINTEXT://b:2", "a:1,b:2"), ("[::1]:3", "[::1]:3")]
)
def test_brokers_are_named_without_a_protocol(given: str, found: str) -> None:
    options = parse("toy", producer.KINDS, ["--topic", "t", "--broker-list", given])
    assert producer.settings_of("toy", options)["bootstrap.servers"] == found


class Error:
    def __init__(self, name: str) -> None:
        self._name = name

    def name(self) -> str:
        return self._name

    def str(self) -> str:
        return f"about {self._name}"


def test_a_trouble_is_logged_now_and_then(capsys: pytest.CaptureFixture[str]) -> None:
    times = iter([0.0, 0.1, 0.2, 9.9, 10.0])
    troubles = Troubles(lambda: next(times))
    for name in ("_TRANSPORT", "_TRANSPORT", "_ALL_BROKERS_DOWN", "_TRANSPORT", "_TRANSPORT"):
        troubles(Error(name))
    logged = ["WARN _TRANSPORT: about _TRANSPORT", "WARN _ALL_BROKERS_DOWN: about _ALL_BROKERS_DOWN"]
    assert capsys.readouterr().err.splitlines() == [*logged, logged[0]]


def consumed(*words: str) -> dict[str, object]:
    return consumer.settings_of("toy", parse("toy", consumer.KINDS, [*AT, *words]))


def test_a_consumer_without_group_gets_one_and_commits_nothing() -> None:
    found = consumed()
    assert str(found["group.id"]).startswith("console-consumer-")
    wanted = {"enable.auto.commit": "false", "auto.offset.reset": "latest", "isolation.level": "read_uncommitted"}
    assert wanted.items() <= found.items()
    assert "enable.auto.commit" not in consumed("--group", "g")
    assert consumed("--from-beginning")["auto.offset.reset"] == "earliest"
    assert consumed("--isolation-level", "read_committed")["isolation.level"] == "read_committed"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--group", "g", "--consumer-property", "group.id=h"], "Detected group ids: 'g', 'h'"),
        (["--group", "g", "--partition", "0"], "Options group and partition cannot be specified together."),
        (
            ["--from-beginning", "--consumer-property", "auto.offset.reset=latest"],
            "Can't simultaneously specify --from-beginning",
        ),
    ],
)
def test_what_a_consumer_cannot_be_configured_with(words: list[str], message: str) -> None:
    with pytest.raises(CommandError, match=message):
        consumed(*words)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--topic", "t", "--include", "u.*"], "Exactly one of --include/--topic is required"),
        (["--include", "u.*", "--partition", "0"], "The topic is required when partition is specified"),
        (["--topic", "t", "--offset", "3"], "The partition is required when offset is specified"),
        (["--topic", "t", "--partition", "0", "--offset", "3", "--from-beginning"], "cannot be specified together"),
    ],
)
def test_wrong_command_lines_of_a_consumer(words: list[str], message: str) -> None:
    with pytest.raises(CommandError, match=message):
        consumer.main("toy", ["--bootstrap-server", "localhost:1", *words])


@pytest.mark.parametrize(("text", "offset"), [("earliest", -2), ("LATEST", -1), ("0", 0), ("17", 17)])
def test_offsets(text: str, offset: int) -> None:
    assert consumer.offset_of(parse("toy", consumer.KINDS, ["--offset", text])) == offset


@pytest.mark.parametrize("text", ["soon", "-3"])
def test_wrong_offsets(text: str) -> None:
    with pytest.raises(CommandError, match=f"The provided offset value '{text}' is incorrect"):
        consumer.offset_of(parse("toy", consumer.KINDS, ["--offset", text]))


def test_without_the_library_one_line_names_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "confluent_kafka", None)
    with pytest.raises(CommandError, match=r"confluent-kafka is not installed: pip install '\.\[console\]' in a clone") as raised:
        library()
    assert raised.value.code == NOT_SUPPORTED
