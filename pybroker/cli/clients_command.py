"""`pybroker clients`: shows the clients of a broker, and what Kafka 4 would refuse them, from the file in its data directory."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from pybroker.cli.main import ConfigurationError, RunError
from pybroker.cli.start import env_option, load_configuration, override_option, properties_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pybroker.api.seen_clients import SeenClient
    from pybroker.clients.clients import Client, Name
    from pybroker.config.broker import BrokerConfig

RESPONSE_S: Final = 30.0
OF_SEVERAL: Final = "broker_*"
TITLES: Final = ("CLIENT ID", "SOFTWARE", "HOST", "OPEN", "LAST SEEN", "IN", "OUT", "CONVERTED", "APIS")
UNITS: Final = ("B", "kB", "MB", "GB", "TB")


@click.command("clients", short_help="Show the clients of a broker, and which of their requests Kafka 4 would refuse.")
@click.argument("config", required=False, type=click.Path(path_type=Path))
@click.option("--data-dir", metavar="DIR", type=click.Path(path_type=Path), help="Read the file in this data directory.")
@click.option(
    "--admin", "url", metavar="URL", help="Ask a running broker at its pybroker.admin.listener, such as http://127.0.0.1:8080."
)
@click.option("--json", "is_json", is_flag=True, help="Print JSON for scripts: an object for each client.")
@override_option
@env_option
def command(
    *, config: Path | None, data_dir: Path | None, url: str | None, is_json: bool, overrides: tuple[str, ...], env: bool
) -> None:
    """Show the clients of a pybroker broker, connected or gone, and which of their requests Kafka 4 would refuse.

    A broker writes what its clients do to a file in its data directory, every five seconds and when it stops. The command reads
    that file. The directory is DIR, or that of CONFIG, the properties file of the broker.

    With --admin, the command asks a running broker instead, by HTTP. If the broker wants a token, CONFIG has it as
    pybroker.admin.token; for https://, the command trusts the certificates of ssl.truststore.* in CONFIG.
    """
    settings = load_configuration(config, properties_of(overrides, "--override"), env=env).config
    if url is not None:
        clients = _asked(url, settings)
    else:
        clients = _seen(_read(Path(settings.log_dirs[0]) if data_dir is None else data_dir))
    if is_json:
        for client in clients:
            click.echo(json.dumps(client.as_data()))
        return
    for line in _lines(clients):
        click.echo(line)


def _asked(url: str, settings: BrokerConfig) -> list[SeenClient]:
    """Return the clients of a running broker. Raises RunError."""
    from http.client import HTTPException

    from pybroker.admin.client import ApiError, access_of, is_secure, request
    from pybroker.api.seen_clients import SeenClient
    from pybroker.config.setting import ConfigError

    try:
        access = access_of(settings, is_tls=is_secure(url))
        clients = request(url, "GET", "/v1/clients", access=access, response_s=RESPONSE_S)["clients"]
    except ConfigError as error:
        raise ConfigurationError(str(error)) from error
    except ApiError as error:
        raise RunError(f"{url}: {error}") from error
    except (OSError, ValueError, LookupError, TypeError, HTTPException) as error:
        raise RunError(f"{url}: it is not the API of a broker: {error}") from error
    return [SeenClient.of_data(one) for one in reversed(clients)]


def _read(directory: Path) -> list[Client]:
    """Return the clients of the broker of a directory, or of several brokers. Raises RunError."""
    from pybroker.clients.file import DamagedFileError, read
    from pybroker.log.checkpoints.checkpoint import CLIENTS_FILE

    paths = [one / CLIENTS_FILE for one in (directory, *sorted(directory.glob(OF_SEVERAL)))]
    clients: dict[Name, Client] = {}
    found = [path for path in paths if path.exists()]
    if not found:
        raise RunError(
            f"{directory} has no file {CLIENTS_FILE}: no client has sent a request to a broker with this directory; "
            "--data-dir names another, and --admin URL asks a running broker"
        )
    for path in found:
        try:
            for client in read(path.read_bytes())[1]:
                earlier = clients.setdefault(client.name, client)
                if earlier is not client:
                    earlier.add(client)
                    earlier.connections += client.connections
        except (DamagedFileError, OSError) as error:
            raise RunError(f"{path}: {error}") from error
    return sorted(clients.values(), key=lambda client: client.last_seen_ms, reverse=True)


def _seen(clients: Iterable[Client]) -> list[SeenClient]:
    from pybroker.api.seen_clients import seen

    return [seen(client) for client in clients]


def _lines(clients: Sequence[SeenClient]) -> Iterable[str]:
    """Return a table, and below it what Kafka 4 would refuse."""
    rows = [TITLES, *(_row(client) for client in clients)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(TITLES) - 1)]
    for row in rows:
        yield "  ".join([*(text.ljust(width) for text, width in zip(row, widths, strict=False)), row[-1]])
    refused = [client for client in clients if client.refused_by_kafka_4]
    yield ""
    yield f"Kafka 4 would refuse requests of {len(refused)} of {len(clients)} clients{':' if refused else ''}"
    for client in refused:
        yield f"  {_printable(client.client_id)} at {client.host}: {'; '.join(client.refused_by_kafka_4)}"


def _row(client: SeenClient) -> tuple[str, ...]:
    software = _printable(f"{client.software_name} {client.software_version}".strip())
    converted = f"{client.down_converted_records} read, {client.up_converted_requests} sent"
    return (
        _printable(client.client_id),
        software,
        client.host,
        str(client.connections),
        time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(client.last_seen_ms / 1000)),
        _size(client.bytes_in),
        _size(client.bytes_out),
        converted if client.down_converted_records or client.up_converted_requests else "-",
        " ".join(f"{name} {_range(versions)}" for name, versions in client.requests.items()),
    )


def _range(versions: dict[int, int]) -> str:
    low, high = min(versions), max(versions)
    return f"v{low}" if low == high else f"v{low}-{high}"


def _printable(text: str) -> str:
    """Return a text of a client as one word or more of a line."""
    return (text if text.isprintable() else repr(text)[1:-1]) or "-"


def _size(count: int) -> str:
    size, unit = float(count), 0
    while size >= 1000 and unit < len(UNITS) - 1:
        size, unit = size / 1000, unit + 1
    return f"{size:.0f} {UNITS[unit]}" if unit == 0 or size >= 10 else f"{size:.1f} {UNITS[unit]}"
