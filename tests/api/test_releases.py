"""The ranges of each release of Kafka: what its brokers announced, and what pybroker lacks of it."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from pybroker.api.registry import APIS
from pybroker.api.releases import declared, release
from pybroker.config.server_settings import RELEASES
from pybroker.protocol.messages.api_versions import ApiVersionsRequest
from testing.scenes.api.whole import Whole

ANNOUNCED_BY_0_10_2 = """
    0000 0000 0002  0001 0000 0003  0002 0000 0001  0003 0000 0002  0004 0000 0000  0005 0000 0000  0006 0000 0003
    0007 0001 0001  0008 0000 0002  0009 0000 0002  000a 0000 0000  000b 0000 0001  000c 0000 0000  000d 0000 0000
    000e 0000 0000  000f 0000 0000  0010 0000 0000  0011 0000 0000  0012 0000 0000  0013 0000 0001  0014 0000 0000
"""
"""The elements of the response to ApiVersions v0 of a broker of Kafka 0.10.2.2: key, lowest, highest."""

INTER_BROKER_OF_ZOOKEEPER = {4, 5, 6, 7}
RAFT = {80, 81}
SHARE_GROUPS = {76, 77, 78, 79, 83, 84, 85, 86, 87, 90, 91, 92}
STREAMS_GROUPS = {88, 89}
LACKS = {
    "0.8.2": set(),
    "0.9": INTER_BROKER_OF_ZOOKEEPER,
    "0.10.2": INTER_BROKER_OF_ZOOKEEPER,
    "1.1": INTER_BROKER_OF_ZOOKEEPER,
    "2.8": {*INTER_BROKER_OF_ZOOKEEPER, 56},
    "3.9": RAFT,
    "4.3": {*RAFT, *SHARE_GROUPS, *STREAMS_GROUPS},
}
"""The keys of APIs that a release has, and pybroker has not: those that docs/testing.md names."""


@pytest.mark.parametrize("name", RELEASES)
def test_all_of_a_release_is_served_but_for_the_apis_that_pybroker_lacks(name: str) -> None:
    one, theirs = release(name), declared(name)
    assert theirs["accepted"].keys() - APIS.keys() == LACKS[name]
    assert one.accepted == {key: both for key, both in theirs["accepted"].items() if key not in LACKS[name]}
    assert one.announced == {key: both for key, both in theirs["announced"].items() if key not in LACKS[name]}


def test_the_ranges_of_0_10_2_are_those_that_its_broker_announced() -> None:
    recorded = {key: (low, high) for key, low, high in struct.iter_unpack(">hhh", bytes.fromhex(ANNOUNCED_BY_0_10_2))}
    assert declared("0.10.2")["announced"] == recorded


def test_kafka_4_announces_old_versions_of_produce_and_does_not_accept_them() -> None:
    one = release("4.3")
    assert (one.announced[0], one.accepted[0]) == ((0, 13), (3, 13))


@pytest.mark.parametrize("name", ["0.10.2", "1.1", "2.8", "3.9", "4.3"])
async def test_a_client_reads_what_the_release_announces(name: str, tmp_path: Path) -> None:
    whole = await Whole(tmp_path, pybroker_as_version=name).start()
    response = await whole.ask(ApiVersionsRequest(client_software_name="a", client_software_version="1"), 0)
    listed = {one.api_key: (one.min_version, one.max_version) for one in response.api_keys}
    assert listed == release(name).announced


async def test_features_of_3_9_end_where_its_own_do(tmp_path: Path) -> None:
    whole = await Whole(tmp_path, pybroker_as_version="3.9").start()
    response = await whole.ask(ApiVersionsRequest(client_software_name="a", client_software_version="1"), 4)
    assert [(one.name, one.min_version, one.max_version) for one in response.supported_features] == [("metadata.version", 7, 21)]
    assert [(one.name, one.max_version_level) for one in response.finalized_features] == [("metadata.version", 21)]
