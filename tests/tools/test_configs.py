"""kafka-configs without a broker: its command lines, and the changes of quotas and credentials."""

from __future__ import annotations

import pytest

from pybroker.tools import configs
from pybroker.tools.configs_admin import added_configs
from pybroker.tools.errors import CommandError

AT = ["--bootstrap-server", "localhost:1"]
ONLY = "Only quota and SCRAM credential configs can be %s for 'users' using --bootstrap-server. Unexpected config names: "


def test_added_settings() -> None:
    assert added_configs(None) == {}
    assert added_configs("a=1,b=[2,3], c = 4 ,d=") == {"a": "1", "b": "2,3", "c": "4", "d": ""}
    with pytest.raises(CommandError, match="all configs to be added must be in the format"):
        added_configs("a=1,b")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--entity-type topics", "Command must include exactly one action: --describe, --alter"),
        ("--describe", "At least one entity type must be specified"),
        ("--describe --entity-type users --client c",
         "--entity-{type,name,default} should not be used in conjunction with specific entity flags"),
        ("--describe --user bob --user-defaults", "Duplicate entity type(s) specified: users"),
        ("--describe --user bob --topic t", "Only 'users' and 'clients' entity types may be specified together"),
        ("--describe --entity-type users --entity-name a --entity-name b", "More entity names specified than entity types"),
        ("--alter --entity-type topics --add-config a=1", "an entity name must be specified with --alter of topics"),
        ("--alter --entity-type users --add-config a=1",
         "an entity-name or default entity must be specified with --alter of users, clients, brokers or ips"),
        ("--alter --entity-type users --entity-type clients --entity-name a --add-config request_percentage=1",
         "An entity name must be specified for every entity type"),
        ("--alter --topic t",
         "At least one of --add-config, --add-config-file, or --delete-config must be specified with --alter"),
        ("--describe --broker x", "The entity name for brokers must be a valid integer broker id, but it is: x"),
        ("--describe --ip 300.0.0.1.", "The entity name for ips must be a valid IP or resolvable host, but it is: 300.0.0.1."),
        ("--alter --user a --add-config a=1,b=2", f"{ONLY % 'added'}Set(a, b)"),
        ("--alter --user a --delete-config a", f"{ONLY % 'deleted'}ArrayBuffer(a)"),
        ("--alter --user a --add-config producer_byte_rate=fast",
         "Cannot parse quota configuration value for producer_byte_rate: fast"),
        ("--alter --user a --add-config SCRAM-SHA-256=x", "Invalid credential property SCRAM_SHA_256=x"),
        ("--alter --user a --add-config SCRAM-SHA-256=[iterations=1000,password=x]",
         "Iterations 1000 is less than the minimum 4096 required for SCRAM-SHA-256"),
        ("--alter --user a --add-config SCRAM-SHA-256=[password=x],producer_byte_rate=1",
         "Cannot alter both quota and SCRAM credential configs simultaneously for 'users' using --bootstrap-server."),
        ("--alter --user-defaults --add-config SCRAM-SHA-256=[password=x]",
         "The use of --entity-default or --user-defaults is not allowed with User SCRAM Credentials using --bootstrap-server."),
    ],
)  # fmt: skip
def test_wrong_command_lines(words: str, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pybroker.tools.configs_users.Admin", NoBroker)
    with pytest.raises(CommandError) as raised:
        configs.main("kafka-configs", [*AT, *words.split()])
    assert (str(raised.value), raised.value.code) == (message, 1)


class NoBroker:
    """A client that is never asked."""

    def __init__(self, _target: object) -> None:
        pass

    def __enter__(self) -> NoBroker:
        return self

    def __exit__(self, *_: object) -> None:
        pass
