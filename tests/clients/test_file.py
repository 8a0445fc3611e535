"""The file of clients gives back what was written, and any damage is found."""

from __future__ import annotations

import json

import pytest

from pybroker.clients import clients
from pybroker.clients.clients import Client, Name
from pybroker.clients.file import COUNTS, DamagedFileError, lines_of, read


def some_client(client_id: str = "app") -> Client:
    client = Client(Name(client_id, "librdkafka", "2.11.1", "10.0.0.7"), 1_000)
    for number, field in enumerate(COUNTS):
        setattr(client, field, number)
    client.requests = {(0, 9): 1_200, (3, 12): 4, (0, 2): 1}
    return client


def content() -> bytes:
    return "".join(lines_of([some_client("a\u2028\n"), some_client("b")], 77)).encode()


def shown(client: Client) -> dict[str, object]:
    return {field: getattr(client, field) for field in (*COUNTS, "name", "requests")}


def test_what_is_written_is_read() -> None:
    time_ms, found = read(content())
    assert time_ms == 77
    assert [shown(one) for one in found] == [shown(some_client("a\u2028\n")), shown(some_client("b"))]


@pytest.mark.parametrize(
    "damaged",
    [
        b"",
        b"\xff\xfe",
        b"[]\n",
        b"{}\n",
        content().replace(b'"version": 1', b'"version": 2'),
        content()[:-20],
        content().replace(b'"requests"', b'"others"'),
        content().replace(b'"bytes_in": 4', b'"bytes_in": "x"'),
        content() + b"0\n",
        content() + b"[" * 100_000 + b"\n",
    ],
)
def test_damage_is_found(damaged: bytes) -> None:
    with pytest.raises(DamagedFileError, match=r"^line \d"):
        read(damaged)


def test_more_clients_than_are_kept_are_no_file_of_ours() -> None:
    line = json.dumps({}) + "\n"
    head = next(lines_of([], 0))
    with pytest.raises(DamagedFileError):
        read((head + line * (clients.CLIENTS_MAX + 1)).encode())
