"""kafka-broker-api-versions: prints what each broker of a cluster serves, in the words of Kafka 3.9.

Most of its runs are health checks, so it sends the smallest requests that suffice: Metadata v2, and ApiVersions v0 to each broker
at the address that clients get.

Source: kafka.admin.BrokerApiVersionsCommand, NodeApiVersions.
"""

from __future__ import annotations

from pybroker.client.errors import ClientError
from pybroker.client.frames import DAMAGE, Frames, Reader
from pybroker.tools.connection import API_VERSIONS, connect
from pybroker.tools.errors import CommandError
from pybroker.tools.kafka_apis import BETWEEN_BROKERS, FOR_CLIENTS
from pybroker.tools.metadata import Broker, metadata
from pybroker.tools.options import parse
from pybroker.tools.target import OPTIONS, Target, target_of

RESPONSE_S = 5.0
"""The limit of Kafka's tool, which tries once."""

HELP = """This tool helps to retrieve broker version information.
--bootstrap-server HOST:PORT  the brokers to connect to
--command-config FILE         a properties file with settings of the client
"""


def main(tool: str, arguments: list[str]) -> None:
    """Run the command. Raises CommandError."""
    options = parse(tool, OPTIONS, arguments)
    target = target_of(tool, options, is_required=False)
    try:
        first = target.connect(wait_s=0, response_s=RESPONSE_S)
        brokers = metadata(first).brokers
    except ClientError as error:
        tried = ", ".join(f"{host}:{port} (id: {-1 - index} rack: null)" for index, (host, port) in enumerate(target.servers))
        raise CommandError(f"Request METADATA failed on brokers List({tried}): {error}") from error
    with first:
        for broker in brokers:
            print(f"{broker} -> {_versions_of(broker, first, target)}")


def _versions_of(broker: Broker, first: Frames, target: Target) -> str:
    """Return what a broker serves, over the first connection if that leads to the same broker."""
    address = (broker.host, broker.port)
    try:
        if target.servers == [address]:
            return described(api_versions(first))
        with connect([address], wait_s=0, response_s=RESPONSE_S, security=target.security) as connection:
            return described(api_versions(connection))
    except (CommandError, ClientError) as error:
        return f"ERROR: {error}"


def api_versions(connection: Frames) -> dict[int, tuple[int, int]]:
    """Return the lowest and highest version by key. Raises ClientError, and CommandError for an error of the broker."""
    reader = Reader(connection.ask(API_VERSIONS, version=0))
    try:
        code = reader.int16()
        if code:
            raise CommandError(f"the broker responds to ApiVersions with the error {code}")
        return {reader.int16(): (reader.int16(), reader.int16()) for _ in range(reader.int32())}
    except DAMAGE as error:
        raise ClientError(f"the response cannot be read: {error}") from error


def described(served: dict[int, tuple[int, int]]) -> str:
    """Return a line for each API."""
    lines = {key: f"{name}({key}): UNSUPPORTED" for key, (name, _) in FOR_CLIENTS.items()}
    for key, (lowest, highest) in served.items():
        name, latest = FOR_CLIENTS.get(key) or BETWEEN_BROKERS.get(key) or ("UNKNOWN", None)
        text = f"{name}({key}): {lowest}" + (f" to {highest}" if lowest != highest else "")
        if latest is not None:
            text += " [unusable: node too new]" if latest < lowest else f" [usable: {min(latest, highest)}]"
        lines[key] = text
    return "(\n\t" + ",\n\t".join(lines[key] for key in sorted(lines)) + "\n)"
