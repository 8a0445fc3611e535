"""Kafka's command line tools, 3.9 and 4.x, print the same about pybroker as about Apache Kafka in the same state."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from integration.tools.tools_story import GOLDEN, OF_USERS, OURS_WITH_LOGINS, OVERRIDES, Golden, played
from testing.process.broker import BrokerProcess

pytestmark = pytest.mark.skipif(
    shutil.which("javac") is None or shutil.which("mvn") is None, reason="needs a Java compiler, and Maven for the jars"
)

NOT_YET = {
    "SaslHandshake", "SaslAuthenticate",
    "UnregisterBroker", "AddRaftVoter", "RemoveRaftVoter",
    "ShareGroupHeartbeat", "ShareGroupDescribe", "ShareFetch", "ShareAcknowledge",
    "DescribeShareGroupOffsets", "AlterShareGroupOffsets", "DeleteShareGroupOffsets",
    "InitializeShareGroupState", "ReadShareGroupState", "WriteShareGroupState", "DeleteShareGroupState",
    "ReadShareGroupStateSummary",
    "StreamsGroupHeartbeat", "StreamsGroupDescribe",
    "eligible.leader.replicas.version", "kraft.version", "share.version", "streams.version",
}  # fmt: skip
"""APIs and features that Kafka reports, and we do not: those that docs/clients.md leaves out."""
MORE = {"GetTelemetrySubscriptions", "PushTelemetry", "InitProducerId"}
"""APIs that Kafka has only with a plugin for them, and one whose newest version Kafka keeps back (KIP-939)."""
NEWER = {"metadata.version", "group.version", "transaction.version"}
"""Our features that Kafka 4 has, and 3.9 has not."""


EPOCHS = {
    "$ consumer-groups --describe --group modern --members --verbose",
    "$ consumer-groups --describe --group modern --state --verbose",
}
"""Where the numbers differ: Kafka 4.3 gives the first assignment of a group the epoch 2, we give it 1."""


def name_of(line: str) -> str:
    found = re.match(r"\t(\w+)\(\d+\): |Feature: (\S+)", line)
    return (found[1] or found[2]) if found else line


def served(page: list[str], left_out: set[str]) -> list[str]:
    return [line for line in page if name_of(line) not in left_out]


def sizeless(page: list[str]) -> list[str]:
    return [re.sub(r'"size":(0|<bytes>)', '"size":<n>', line) for line in page]


def numberless(page: list[str]) -> list[str]:
    return [re.sub(r"\b\d+\b", "<n>", line) for line in page]


@pytest.mark.parametrize("release", sorted({golden.tools for golden in GOLDEN}))
def test_tools_print_about_us_what_they_print_about_kafka(
    release: str, start_broker: Callable[..., BrokerProcess], tmp_path: Path
) -> None:
    """Compare the output of 4.x tools with that about Kafka 3.9, or with that about 4.x where 3.9 cannot respond to them."""
    broker = start_broker(OVERRIDES)
    kafkas: list[Golden] = [golden for golden in GOLDEN if golden.tools == release]
    pages = [golden.pages() for golden in kafkas]
    differences = []
    for index, (step, ours) in enumerate(played(kafkas[0], broker.bootstrap, tmp_path)):
        if any("retention.granularity=" in line for line in ours):  # a setting that Kafka does not have
            ours = [line for line in ours if "retention.granularity=" not in line]
        theirs = [page[index] for page in pages]
        assert {page[0] for page in theirs} == {step.line}, "the story has changed: run python -m integration.tools.tools_story"
        if step.line.startswith("$< "):
            left_out = NOT_YET | MORE | (NEWER if release.startswith("3.") else set())
            ours, theirs = served(ours, left_out), [served(page, left_out) for page in theirs[-1:]]
        if step.line.startswith("$ log-dirs "):  # ours counts from the log start offset on, so deleted records have no size
            ours, theirs = sizeless(ours), [sizeless(page) for page in theirs]
        if step.line in EPOCHS:
            ours, theirs = numberless(ours), [numberless(page) for page in theirs]
        if ours not in theirs:
            wanted = [line for page in theirs for line in ("--- Kafka:", *page[1:])]
            differences.append("\n".join([*ours, *wanted]))
    assert not differences, "\n\n".join(differences)


def test_tools_print_the_same_about_our_users(start_broker: Callable[..., BrokerProcess], tmp_path: Path) -> None:
    broker = start_broker(OURS_WITH_LOGINS)
    differences = []
    for (step, ours), theirs in zip(played(OF_USERS, broker.bootstrap, tmp_path), OF_USERS.pages(), strict=True):
        assert theirs[0] == step.line, "the story has changed: run python -m integration.tools.tools_story users"
        if ours != theirs:
            differences.append("\n".join([*ours, "--- Kafka:", *theirs[1:]]))
    assert not differences, "\n\n".join(differences)
