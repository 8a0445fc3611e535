"""A client is refused by Kafka 4 if it used versions that Kafka 4 dropped."""

from __future__ import annotations

import pytest

from pybroker.api.seen_clients import SeenClient, seen
from pybroker.clients.clients import Client, Name

PRODUCE, FETCH, LIST_OFFSETS, METADATA, OFFSET_COMMIT, API_VERSIONS, INIT_PRODUCER_ID = 0, 1, 2, 3, 8, 18, 22


def client(requests: dict[tuple[int, int], int]) -> SeenClient:
    one = Client(Name("app", "", "", "10.0.0.7"), 0)
    one.requests = requests
    return seen(one)


@pytest.mark.parametrize(
    ("requests", "refused"),
    [
        ({}, ()),
        ({(PRODUCE, 3): 1, (FETCH, 4): 1, (LIST_OFFSETS, 1): 1, (METADATA, 0): 1, (OFFSET_COMMIT, 2): 1}, ()),
        ({(PRODUCE, 2): 9, (PRODUCE, 0): 1, (PRODUCE, 9): 1}, ("Produce v0, v2 (Kafka 4 begins with v3)",)),
        ({(FETCH, 3): 1, (LIST_OFFSETS, 0): 1}, ("Fetch v3 (Kafka 4 begins with v4)", "ListOffsets v0 (Kafka 4 begins with v1)")),
        ({(API_VERSIONS, 0): 1, (INIT_PRODUCER_ID, 6): 1}, ()),  # a newer client than 4.3 chooses a lower version
    ],
)
def test_versions_that_kafka_4_dropped_are_refused(requests: dict[tuple[int, int], int], refused: tuple[str, ...]) -> None:
    assert client(requests).refused_by_kafka_4 == refused


def test_apis_have_their_names_and_their_order() -> None:
    one = client({(METADATA, 12): 1, (PRODUCE, 9): 2, (PRODUCE, 1): 3, (30_000, 1): 1})
    assert one.requests == {"Produce": {1: 3, 9: 2}, "Metadata": {12: 1}, "30000": {1: 1}}
    assert one.up_converted_requests == 3
    assert one.as_data()["refused_by_kafka_4"] == ["Produce v1 (Kafka 4 begins with v3)"]
