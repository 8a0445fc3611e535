"""The clients of a broker as people and programs see them: by the names of APIs, and with what Kafka 4 would refuse them.

Kafka 4 dropped the versions of most APIs from before Kafka 2.1 (KIP-896). A client that used one may be able to use newer ones:
it chooses by what the broker announces. So the verdict is about what it did, and a client without old requests is safe.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from pybroker.api.releases import NEWEST, declared
from pybroker.protocol.api_keys import ApiKey
from pybroker.protocol.messages import api_name

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pybroker.clients.clients import Client

_OLD_PRODUCE: Final = range(3)


class SeenClient(NamedTuple):
    """A client that is connected, or was, by its own account and by its requests.

    Attributes:
        software_name, software_version: as "apache-kafka-java" and "3.9.2"; empty for clients from before KIP-511.
        connections: those that are open; of a file, those that were when it was written.
        connections_made: those of which requests were counted.
        first_seen_ms, last_seen_ms: ms since the epoch, up to an interval of the counts late.
        requests: their numbers by the name of the API, as "Fetch", and the version.
        up_converted_requests: its Produce requests with records of magic 0 or 1, which the broker rewrote.
        down_converted_records: the records that the broker rewrote in an older format for its Fetch requests.
        refused_by_kafka_4: a text for each API of which it used versions that Kafka 4 refuses, as
            "Produce v2 (Kafka 4 begins with v3)".
    """

    client_id: str
    software_name: str
    software_version: str
    host: str
    connections: int
    connections_made: int
    first_seen_ms: int
    last_seen_ms: int
    bytes_in: int
    bytes_out: int
    requests: dict[str, dict[int, int]]
    up_converted_requests: int
    down_converted_records: int
    refused_by_kafka_4: tuple[str, ...]

    def as_data(self) -> dict[str, Any]:
        """Return the client as it is written in JSON."""
        return {**self._asdict(), "refused_by_kafka_4": list(self.refused_by_kafka_4)}

    @staticmethod
    def of_data(data: dict[str, Any]) -> SeenClient:
        """Return the client that was written in JSON."""
        requests = {
            name: {int(version): count for version, count in versions.items()} for name, versions in data["requests"].items()
        }
        return SeenClient(**{**data, "requests": requests, "refused_by_kafka_4": tuple(data["refused_by_kafka_4"])})


def seen(client: Client) -> SeenClient:
    """Return a client as people see it."""
    requests = client.by_api()
    return SeenClient(
        *client.name,
        client.connections,
        client.connections_made,
        client.first_seen_ms,
        client.last_seen_ms,
        client.bytes_in,
        client.bytes_out,
        {name_of(key): versions for key, versions in requests.items()},
        sum(requests.get(ApiKey.PRODUCE, {}).get(version, 0) for version in _OLD_PRODUCE),
        client.down_converted,
        tuple(_refusals(requests)),
    )


def name_of(key: int) -> str:
    """Return the name of an API, or its key for one that this pybroker does not know."""
    try:
        return api_name(ApiKey(key))
    except ValueError:
        return str(key)


def _refusals(requests: dict[int, dict[int, int]]) -> Iterable[str]:
    accepted = declared(NEWEST)["accepted"]
    for key, versions in requests.items():
        lowest, _ = accepted.get(key, (0, 0))
        refused = [f"v{version}" for version in versions if version < lowest]
        if refused and key != ApiKey.API_VERSIONS:
            yield f"{name_of(key)} {', '.join(refused)} (Kafka 4 begins with v{lowest})"
