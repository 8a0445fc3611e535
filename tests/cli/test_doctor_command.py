from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from pybroker.cli.doctor_command import command
from pybroker.testing import Broker
from tests.cli.cluster import invoke, objects


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("kafka", "is not HOST:PORT"),
        (":9092", "is not HOST:PORT"),
        ("kafka:", "is not HOST:PORT"),
        ("kafka:0", "is not HOST:PORT"),
        ("kafka:65536", "is not HOST:PORT"),
        ("kafka:x", "is not HOST:PORT"),
        ("::1:9092", "an IPv6 address needs brackets"),
        ("PLAINTEXT://kafka:9092", "is not HOST:PORT"),
        ("a:1,b:2", "is not HOST:PORT"),
        ("a,b:2", "is not HOST:PORT"),
    ],
)
def test_an_address_that_cannot_be_is_a_usage_error(text: str, reason: str) -> None:
    result = CliRunner().invoke(command, [text])
    assert result.exit_code == 2
    assert f"{text!r}" in result.output
    assert reason in result.output


def test_json_has_a_line_for_each_address_with_what_is_wrong_there() -> None:
    with Broker.in_thread() as broker:
        at = broker.bootstrap
        first, advertised = objects(at, "doctor")
    host, _, _ = at.rpartition(":")
    facts = {"address": at, "connections": {host: None}, "software": "pybroker", "responds_as": 1, "problem": None}
    assert {name: first[name] for name in facts} == facts
    assert (first["broker"], advertised["broker"], advertised["cluster"]) == (None, 1, first["cluster"])
    gone = invoke(at, "doctor", "--json")
    assert gone.exit_code == 1
    (row,) = map(json.loads, gone.stdout.splitlines())
    assert row["connections"] == {host: "refuses the connection"}
    assert row["problem"].startswith(f"{at} refuses the connection. Nothing listens at that port")
