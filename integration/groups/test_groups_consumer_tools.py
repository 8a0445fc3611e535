"""Kafka's 4.x tools print about our KIP-848 groups what they print about Apache Kafka's own (checked with 4.3.1)."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator

import pytest

from integration.groups.test_groups_consumer_protocol import QUICK, Readers, produce
from testing.clients.stock import create_topic, unique
from testing.process.broker import BrokerProcess
from testing.process.tool_runner import ToolRunner

pytestmark = pytest.mark.skipif(
    shutil.which("java") is None or shutil.which("mvn") is None, reason="needs Java, and Maven for the jars"
)

GROUPS = "consumer-groups"
CONFIGS = "configs"
PARTITIONS = 6
Tool = Callable[..., list[str]]


@pytest.fixture
def broker(start_broker: Callable[..., BrokerProcess]) -> BrokerProcess:
    return start_broker(QUICK)


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ToolRunner]:
    runner = ToolRunner("4.3.1", tmp_path_factory.mktemp("tools"))
    yield runner
    runner.close()


@pytest.fixture
def tool(broker: BrokerProcess, tools: ToolRunner) -> Tool:
    """Return a function that runs a tool: `tool(name, *arguments)` -> the words of each line, with one space between them."""

    def run(name: str, *arguments: str) -> list[str]:
        printed = tools.run(name, "--bootstrap-server", broker.bootstrap, *arguments).out
        lines = (line.strip() for line in printed.splitlines())
        return [re.sub(r"\s+", " ", line) for line in lines if line]

    return run


@pytest.fixture
def readers(broker: BrokerProcess) -> Iterator[Readers]:
    made = Readers(broker.bootstrap)
    yield made
    for consumer in [*made.all]:
        made.stop(consumer)


EACH = range(PARTITIONS)
OFFSETS = "GROUP TOPIC PARTITION CURRENT-OFFSET LOG-END-OFFSET LAG CONSUMER-ID HOST CLIENT-ID"
MEMBERS = "GROUP CONSUMER-ID GROUP-INSTANCE-ID HOST CLIENT-ID #PARTITIONS"
VERBOSE_MEMBERS = f"{MEMBERS} CURRENT-EPOCH CURRENT-ASSIGNMENT TARGET-EPOCH TARGET-ASSIGNMENT"
ALL = "TOPIC:0,1,2,3,4,5"
ERRORS = "org.apache.kafka.common.errors"
SUBSCRIBED = (
    f"Error: {ERRORS}.GroupSubscribedToTopicException: Deleting offsets of a topic is forbidden while the consumer group is"
    " actively subscribed to it."
)


class Shown:
    """The lines that the tool prints about one group.

    Names are replaced, and epochs become E, because Kafka begins to count epochs one later.
    """

    def __init__(self, tool: Tool, names: dict[str, str]) -> None:
        self._tool, self._names = tool, names

    def __call__(self, *arguments: str) -> list[str]:
        group = next(value for value, name in self._names.items() if name == "GROUP")
        text = "\n".join(self._tool(GROUPS, *arguments, *(() if "--list" in arguments else ("--group", group))))
        for value, name in self._names.items():
            text = text.replace(value, name)
        text = re.sub(r" \d+ (TOPIC:[\d,]+) \d+", r" E \1 E", text)
        text = re.sub(r"(Stable|Empty) \d+ \d+ (\d)", r"\1 E E \2", text)
        lines = text.splitlines()
        head = 1 + next((n for n, line in enumerate(lines) if line.startswith(("GROUP", "TOPIC"))), 0)
        return [*lines[:head], *sorted(lines[head:])]


def test_the_tool_describes_a_group(broker: BrokerProcess, tool: Tool, readers: Readers) -> None:
    topic = unique("shown")
    create_topic(broker.bootstrap, topic, PARTITIONS)
    produce(broker.bootstrap, topic, range(60))
    one = readers.start(topic, client_id="one", group_instance_id="i")
    readers.until(lambda: len(readers.seen) == 60, "all is read")
    one.commit(asynchronous=False)
    produce(broker.bootstrap, topic, range(60, 66))
    shown = Shown(tool, {readers.group: "GROUP", topic: "TOPIC", one.memberid(): "MEMBER", broker.bootstrap: "ADDRESS"})
    assert shown("--describe") == [OFFSETS, *(f"GROUP TOPIC {n} 10 11 1 MEMBER /127.0.0.1 one" for n in EACH)]
    assert shown("--describe", "--verbose") == [
        OFFSETS.replace("CURRENT", "LEADER-EPOCH CURRENT"),
        *(f"GROUP TOPIC {n} 0 10 11 1 MEMBER /127.0.0.1 one" for n in EACH),
    ]
    assert shown("--describe", "--members") == [MEMBERS, "GROUP MEMBER i /127.0.0.1 one 6"]
    assert shown("--describe", "--members", "--verbose") == [VERBOSE_MEMBERS, f"GROUP MEMBER i /127.0.0.1 one 6 E {ALL} E {ALL}"]
    state = ["GROUP COORDINATOR (ID) ASSIGNMENT-STRATEGY STATE #MEMBERS", "GROUP ADDRESS (1) uniform Stable 1"]
    assert shown("--describe", "--state") == state
    assert shown("--describe", "--state", "--verbose") == [
        state[0].replace("#MEMBERS", "GROUP-EPOCH TARGET-ASSIGNMENT-EPOCH #MEMBERS"),
        "GROUP ADDRESS (1) uniform Stable E E 1",
    ]
    assert shown("--list", "--state") == ["GROUP STATE", "GROUP Stable"]
    assert shown("--list", "--type") == ["GROUP TYPE", "GROUP Consumer"]
    assert shown("--delete") == [
        "Error: Deletion of some consumer groups failed:",
        f"* Group 'GROUP' could not be deleted due to: {ERRORS}.GroupNotEmptyException: The group is not empty.",
    ]
    assert shown("--delete-offsets", "--topic", topic) == [
        "Error: Encountered some partition-level error, see the follow-up details.",
        "TOPIC PARTITION STATUS",
        *(f"TOPIC {n} {SUBSCRIBED}" for n in EACH),
    ]
    readers.start(topic, client_id="two", group_protocol="classic")
    readers.until(lambda: readers.shares() == [3, 3], "both have a share")
    head, *lines = shown("--describe", "--members", "--verbose")
    assert head == f"{VERBOSE_MEMBERS} UPGRADED"
    assert sorted((line.split()[-7], line.split()[-1]) for line in lines) == [("one", "true"), ("two", "false")]


def test_the_tool_describes_and_deletes_an_empty_group(broker: BrokerProcess, tool: Tool, readers: Readers) -> None:
    topic = unique("shown")
    create_topic(broker.bootstrap, topic, PARTITIONS)
    produce(broker.bootstrap, topic, range(60))
    one = readers.start(topic)
    readers.until(lambda: len(readers.seen) == 60, "all is read")
    one.commit(asynchronous=False)
    readers.stop(one)
    shown = Shown(tool, {readers.group: "GROUP", topic: "TOPIC", broker.bootstrap: "ADDRESS"})
    assert shown("--describe") == [OFFSETS, *(f"GROUP TOPIC {n} 10 10 0 - - -" for n in EACH)]
    assert shown("--describe", "--state")[1] == "GROUP ADDRESS (1) uniform Empty 0"
    reset = shown("--reset-offsets", "--topic", topic, "--to-earliest", "--execute")
    assert reset == ["GROUP TOPIC PARTITION NEW-OFFSET", *(f"GROUP TOPIC {n} 0" for n in EACH)]
    assert shown("--delete-offsets", "--topic", topic) == [
        "Request succeeded for deleting offsets from group GROUP.",
        "TOPIC PARTITION STATUS",
        *(f"TOPIC {n} Successful" for n in EACH),
    ]
    assert shown("--delete") == ["Deletion of requested consumer groups ('GROUP') was successful."]
    assert shown("--describe") == [
        f"Error: Executing consumer group command failed due to {ERRORS}.GroupIdNotFoundException: Group GROUP not found."
    ]


def test_the_tool_changes_settings_of_a_group(broker: BrokerProcess, tool: Tool) -> None:
    group = ["--entity-type", "groups", "--entity-name", "g"]
    add = ["--alter", *group, "--add-config"]
    done = "Completed updating config for group g."
    assert tool(CONFIGS, *add, "consumer.session.timeout.ms=7000,consumer.heartbeat.interval.ms=400") == [done]
    for refused in ("consumer.session.timeout.ms=999", "consumer.heartbeat.interval.ms=199", "consumer.session.timeout.ms=60001"):
        assert tool(CONFIGS, *add, refused) == [], "the tool prints this to stderr"
    broker.stop()
    broker.start()
    described = [line for line in tool(CONFIGS, "--describe", *group) if line.startswith("consumer.")]
    assert [line.partition(" ")[0] for line in described] == [
        "consumer.heartbeat.interval.ms=400", "consumer.session.timeout.ms=7000"
    ]  # fmt: skip
    assert tool(CONFIGS, "--alter", *group, "--delete-config", "consumer.session.timeout.ms") == [done]
    described = [line for line in tool(CONFIGS, "--describe", *group) if line.startswith("consumer.")]
    assert [line.partition(" ")[0] for line in described] == ["consumer.heartbeat.interval.ms=400"]
