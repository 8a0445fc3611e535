"""Kafka's own tools and our commands, on one broker: the same bytes on standard output, the same exit codes.

Our commands print what the tools of Kafka 3.9.2 print. With 4.3.1 they are compared where 4.3.1 prints the same as 3.9.2:
everywhere but in `CHANGED_IN_4`.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer

from testing.process.broker import BrokerProcess
from testing.process.our_commands import OurCommands
from testing.process.tool_runner import Ran, ToolRunner

pytestmark = pytest.mark.skipif(
    shutil.which("javac") is None or shutil.which("mvn") is None, reason="needs a Java compiler, and Maven for the jars"
)

WAIT_S = 60

LOOKS = [
    "topics --list",
    "topics --list --exclude-internal --topic o.*",
    "topics --describe --topic orders",
    "topics --describe --topic nothing",
    "topics --create --topic orders",
    "topics --create --topic orders --if-not-exists --partitions 3",
    "topics --create --topic bad --config retention.ms=soon",
    "topics --alter --topic orders --partitions 1",
    "configs --describe --entity-type topics --entity-name orders",
    "configs --describe --entity-type topics --entity-name orders --all",
    "configs --describe --entity-type brokers --entity-name 1",
    "configs --alter --entity-type topics --entity-name orders --delete-config nonsense",
    "consumer-groups --list",
    "consumer-groups --list --state",
    "consumer-groups --describe --group readers",
    "consumer-groups --describe --group readers --members",
    "consumer-groups --describe --group readers --members --verbose",
    "consumer-groups --describe --group readers --state",
    "consumer-groups --describe --group away",
    "consumer-groups --describe --group modern",
    "consumer-groups --describe --group modern --members",
    "consumer-groups --describe --group modern --state",
    "consumer-groups --list --type consumer --state",
    "consumer-groups --describe --group nobody",
    "consumer-groups --reset-offsets --group away --topic orders:0 --to-earliest --dry-run",
    "consumer-groups --reset-offsets --group away --topic orders:0 --to-offset 1 --export --dry-run",
    "consumer-groups --delete --group nobody",
    "console-consumer --topic orders --partition 0 --offset earliest --max-messages 3 --property print.key=true",
    "console-consumer --topic orders --partition 0 --offset 1 --max-messages 1 --property print.timestamp=true",
    "console-consumer --topic orders --partition 0 --offset 2 --max-messages 1 --property print.headers=true",
    "console-consumer --topic orders --from-beginning --max-messages 3 --property key.separator=| --property print.key=true",
    "get-offsets --topic orders",
    "get-offsets --topic orders --time -2",
    "broker-api-versions",
]
CHANGED_IN_4 = {
    "topics --describe --topic nothing": "the name is no longer in Optional[...]",
    "configs --alter --entity-type topics --entity-name orders --delete-config nonsense": "what is not set can be deleted",
    "consumer-groups --describe --group readers": "has a line end behind the last row",
    "consumer-groups --describe --group readers --members --verbose": "has two more columns and the names of topics",
    "consumer-groups --describe --group readers --state": "has columns as wide as what they hold",
    "consumer-groups --describe --group away": "has a line end behind the last row",
    "consumer-groups --describe --group modern": "has a line end behind the last row",
    "consumer-groups --describe --group modern --state": "has columns as wide as what they hold",
    "consumer-groups --describe --group nobody": "says it otherwise",
    "consumer-groups --reset-offsets --group away --topic orders:0 --to-earliest --dry-run": "has a line for each row",
    "consumer-groups --delete --group nobody": "says it otherwise",
    "broker-api-versions": "knows other APIs",
}


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """Start a broker with a topic of one partition, a group without members, and a group of each protocol with a member."""
    broker = BrokerProcess(tmp_path_factory.mktemp("broker"), {"group.initial.rebalance.delay.ms": "0"})
    broker.start()
    settings = {"bootstrap.servers": broker.bootstrap}
    producer = Producer(settings)
    for number, key in enumerate((b"a", b"b", None)):
        producer.produce("orders", b"value %d" % number, key=key, headers={"n": str(number)})
    assert producer.flush(WAIT_S) == 0
    away = _read({**settings, "group.id": "away"})
    away.close()
    members = [
        _read({**settings, "group.id": "readers", "client.id": "reader"}),
        _read({**settings, "group.id": "modern", "group.protocol": "consumer"}),
    ]
    try:
        yield broker
    finally:
        for member in members:
            member.close()
        broker.close()


def _read(settings: dict[str, str]) -> Consumer:
    consumer = Consumer({**settings, "auto.offset.reset": "earliest", "enable.auto.commit": "false"})
    consumer.subscribe(["orders"])
    assert len(consumer.consume(3, WAIT_S)) == 3
    consumer.commit(asynchronous=False)
    return consumer


@pytest.fixture(scope="module", params=["3.9.2", "4.3.1"])
def java(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, ToolRunner]]:
    tools = ToolRunner(request.param, tmp_path_factory.mktemp("tools"))
    try:
        yield request.param, tools
    finally:
        tools.close()


def printed(ran: Ran) -> tuple[int, str]:
    """Return the exit code and the output, without what differs in every run."""
    out = re.sub(r"console-consumer-\d+", "console-consumer-<n>", ran.out)
    return ran.code, re.sub(r"^Option --\S+ is deprecated .*\n", "", out, flags=re.MULTILINE)  # a notice of 4.x


@pytest.mark.parametrize("line", LOOKS)
def test_tools_and_commands_print_the_same_bytes(
    line: str, java: tuple[str, ToolRunner], broker: BrokerProcess, tmp_path: Path
) -> None:
    release, tools = java
    if release.startswith("4") and line in CHANGED_IN_4:
        pytest.skip(f"Kafka {release}: {CHANGED_IN_4[line]}")
    tool, *arguments = line.split()
    at = ("--bootstrap-server", broker.bootstrap)
    theirs = tools.run(tool, *arguments, *at)
    ours = OurCommands(tmp_path).run(tool, *arguments, *at)
    if line.startswith("consumer-groups --list"):  # Kafka's tool prints the broker's order, ours is sorted
        ours, theirs = (ran._replace(out="".join(sorted(ran.out.splitlines(keepends=True)))) for ran in (ours, theirs))
    assert printed(ours) == printed(theirs)


def test_tools_and_commands_read_what_the_other_produced(
    java: tuple[str, ToolRunner], start_broker: Callable[..., BrokerProcess], tmp_path: Path
) -> None:
    """Assert that keys go to the same partitions, so that records of one key keep their order."""
    _, tools = java
    bootstrap = start_broker({"num.partitions": "5"}).bootstrap
    at = ("--bootstrap-server", bootstrap)
    given = "".join(f"key{number}:value{number}\n" for number in range(40))
    as_pairs = ("--property", "parse.key=true", "--property", "key.separator=:")
    ours = OurCommands(tmp_path)
    assert ours.run("console-producer", "--topic", "ours", *as_pairs, *at, given=given).code == 0
    assert tools.run("console-producer", "--topic", "theirs", *as_pairs, *at, given=given).code == 0
    shown = ("--from-beginning", "--max-messages", "40", "--property", "print.key=true", "--property", "print.partition=true")
    read = {
        (topic, name): sorted(printed(runner.run("console-consumer", "--topic", topic, *shown, *at))[1].splitlines())
        for topic in ("ours", "theirs")
        for name, runner in (("ours", ours), ("Kafka's", tools))
    }
    first, *others = read.values()
    assert len(first) == 40
    assert all(other == first for other in others)


@pytest.mark.parametrize(
    ("words", "exception"),
    [
        ("--topic orders --group secret", "GroupAuthorizationException: Not authorized to access group: secret"),
        ("--topic secret", "TopicAuthorizationException: Not authorized to access topics: [secret]"),
        ("--topic secret --partition 0 --offset 0", "TopicAuthorizationException: Not authorized to access topics: [secret]"),
    ],
)
def test_consumers_end_where_they_are_not_authorized(
    java: tuple[str, ToolRunner], start_broker: Callable[..., BrokerProcess], words: str, exception: str, tmp_path: Path
) -> None:
    """Compare what is printed without log4j, by which Kafka's tool prints these lines of ours, too."""
    broker = start_broker(
        {
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "allow.everyone.if.no.acl.found": "true",
        }
    )
    at, ours = ("--bootstrap-server", broker.bootstrap), OurCommands(tmp_path)
    for topic in ("orders", "secret"):
        assert ours.run("topics", *at, "--create", "--topic", topic).code == 0
    denied = ("--add", "--deny-principal", "User:ANONYMOUS", "--operation", "All", "--topic", "secret", "--group", "secret")
    assert ours.run("acls", *at, *denied).code == 0
    first, theirs = (runner.run("console-consumer", *at, *words.split()) for runner in (ours, java[1]))
    *logged, count = first.err.splitlines()
    assert logged == [
        "ERROR Error processing message, terminating consumer process: ",
        f"org.apache.kafka.common.errors.{exception}",
    ]
    assert (first.code, first.out, count) == (theirs.code, theirs.out, theirs.err.splitlines()[-1])
