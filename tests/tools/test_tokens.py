"""kafka-delegation-tokens without a broker: its command lines."""

from __future__ import annotations

import pytest

from pybroker.tools import tokens
from pybroker.tools.errors import CommandError

AT = ["--bootstrap-server", "localhost:1"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("", "Command must include exactly one action: --create, --renew, --expire or --describe"),
        ("--create --renew", "Command must include exactly one action: --create, --renew, --expire or --describe"),
        ("--describe", 'Missing required argument "[command-config]"'),
        ("--create --command-config c", 'Missing required argument "[max-life-time-period]"'),
        ("--renew --command-config c --hmac AAAA", 'Missing required argument "[renew-time-period]"'),
        ("--expire --command-config c --expiry-time-period 1", 'Missing required argument "[hmac]"'),
        ("--describe --command-config c --hmac AAAA", 'Option "[describe]" can\'t be used with option "[hmac]"'),
    ],
)
def test_wrong_command_lines(words: str, message: str) -> None:
    with pytest.raises(CommandError) as raised:
        tokens.main("kafka-delegation-tokens", [*AT, *words.split()])
    assert (str(raised.value), raised.value.code) == (message, 1)
