"""Our commands print what the tools of Kafka 3.9.2 print about Apache Kafka in the same stories (`tools_story.py`).

Standard output and exit codes are compared byte for byte except for the order of lines: Kafka's order is that of Java's hashes,
ours is sorted. Each line that our commands write to standard error must be one of Kafka's lines, except for lines that Kafka's
tools log.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition

from integration.tools.tools_story import GOLDEN, OF_USERS, OURS_WITH_LOGINS, OVERRIDES, WAIT_S, Golden, Story, steps
from pybroker.tools.run import COMMANDS
from testing.process.broker import BrokerProcess
from testing.process.our_commands import OurCommands
from testing.process.tool_runner import Ran

(OF_TOOLS,) = (golden for golden in GOLDEN if golden.tools == golden.broker == "3.9.2")
LAST = "## Deletion of records"
"""From this line on, the story uses tools that are not among the commands."""

ROW = 88
"""Kafka 3.9 prints the rows of a reset without line ends, each this wide."""

DIFFERENT = {
    "$ configs --describe --entity-type client-metrics --entity-name mine": "was set by kafka-client-metrics, which is not here",
    "$ topics --command-config token --list --exclude-internal": "names the broker that refuses the login, on standard error",
}


class Commands(OurCommands):
    """Our commands; clients that do the same stand in for Kafka's verifiable clients, which are not among the commands."""

    def __init__(self, folder: Path, bootstrap: str, produce: Callable[..., None]) -> None:
        super().__init__(folder)
        self._bootstrap, self._produce = bootstrap, produce

    def run(self, tool: str, *arguments: str, given: str = "") -> Ran:
        if tool == "verifiable-producer":
            self._produce(arguments[1], "0", arguments[3], "1704067200000", "0")
        elif tool == "verifiable-consumer" and "--group-instance-id" in arguments:
            self._consume_as_static_member()
        elif f"kafka-{tool}" in COMMANDS:
            ran = super().run(tool, *arguments, given=given)
            if "counted" in arguments and tool == "console-consumer":
                self._commit_what_was_empty()
            return ran
        return Ran(0, "", "")

    def _commit_what_was_empty(self) -> None:
        """Commit position 0 where a partition was empty.

        The Java client commits its position in every partition, librdkafka only where it has read a record.
        """
        consumer = Consumer({"bootstrap.servers": self._bootstrap, "group.id": "counted"})
        consumer.commit(offsets=[TopicPartition("pears", 1, 0)], asynchronous=False)
        consumer.close()

    def _consume_as_static_member(self) -> None:
        settings = {
            "group.id": "verified",
            "group.instance.id": "one",
            "session.timeout.ms": "600000",
            "client.id": "consumer-verified-one",
        }
        more = {"max.poll.interval.ms": "600000", "auto.offset.reset": "earliest", "enable.auto.commit": "false"}
        consumer = Consumer({"bootstrap.servers": self._bootstrap, **settings, **more})
        consumer.subscribe(["plums"])
        left = 25
        while left:
            messages = consumer.consume(left, WAIT_S)
            assert messages, "no record came"
            left -= len(messages)
        consumer.commit(asynchronous=False)
        consumer.close()  # a static member stays in its group


def comparable(page: list[str]) -> tuple[list[str], set[str]]:
    """Return what was printed, in an order of our own, and what was written to standard error."""
    lines: list[str] = []
    for line in page:
        if line.startswith("GROUP ") and line.rstrip().find("NEW-OFFSET") > 0:
            line += " " * (-len(line) % ROW)
            lines += [line[at : at + ROW].rstrip() for at in range(0, len(line), ROW)]
        elif not line.startswith("! "):
            lines.append(line)
    return sorted(lines), {line[2:] for line in page if line.startswith("! ")}


def ours_alone(errors: set[str], theirs: set[str]) -> set[str]:
    """Return the lines on standard error that Kafka's tools do not print.

    Kafka's log would have them, but it was off when the golden file was made.
    """
    return {line for line in errors - theirs if not re.match(r"(WARN|ERROR) |java\.util\.concurrent\.ExecutionException: ", line)}


@pytest.mark.timeout(300)
@pytest.mark.parametrize(("golden", "settings", "least"), [(OF_TOOLS, OVERRIDES, 150), (OF_USERS, OURS_WITH_LOGINS, 60)])
def test_commands_print_what_kafkas_tools_print(
    golden: Golden, settings: Mapping[str, str], least: int, start_broker: Callable[..., BrokerProcess], tmp_path: Path
) -> None:
    broker = start_broker(settings)

    def produce(*words: str) -> None:
        story._produce(*words)

    commands = Commands(tmp_path, broker.bootstrap, produce)
    story = Story(commands, broker.bootstrap, tmp_path)
    differences, compared = [], 0
    try:
        for step, page in zip(steps(golden.tools, golden.story), golden.pages(), strict=False):
            if step.line == LAST:
                break
            assert page[0] == step.line
            ours = [
                line for line in story.play(step) if "retention.granularity=" not in line
            ]  # a setting that Kafka does not have
            tool = step.line.split()[1] if step.line.startswith("$") else ""
            if f"kafka-{tool}" not in COMMANDS or step.line in DIFFERENT:
                continue
            compared += 1
            (printed, errors), (theirs, their_errors) = comparable(ours), comparable(page)
            if printed != theirs or ours_alone(errors, their_errors):
                differences.append("\n".join([*ours, "--- Kafka:", *page[1:]]))
    finally:
        story.close()
    assert not differences, f"{len(differences)} of {compared}:\n\n" + "\n\n".join(differences)
    assert compared > least
