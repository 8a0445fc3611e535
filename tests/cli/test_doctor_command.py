from __future__ import annotations

import pytest
from click.testing import CliRunner

from pybroker.cli.doctor_command import command


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
