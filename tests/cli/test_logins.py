"""A command logs in by its profile: to administer, to write, to read as a member of a group, and to copy."""

from __future__ import annotations

from pathlib import Path

from click.testing import CliRunner, Result

from pybroker.cli.main import cli
from pybroker.testing import Broker

MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule required"
SETTINGS = {
    "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
    "security.inter.broker.protocol": "SASL_PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN",
    "sasl.mechanism.inter.broker.protocol": "PLAIN",
    "listener.name.sasl_plaintext.plain.sasl.jaas.config": (
        f'{MODULE} username="b" password="b-word" user_b="b-word" user_a="word";'
    ),
}
PROFILES = """
[secure]
bootstrap.servers = "{at}"
security.protocol = "SASL_PLAINTEXT"
sasl.mechanism = "PLAIN"
sasl.jaas.config = '{module} username="a" password="{password}";'
"""


def test_a_profile_has_a_login(tmp_path: Path) -> None:
    profiles = tmp_path / "profiles.toml"

    def run(*words: str) -> Result:
        environment = {"PYBROKER_PROFILES": str(profiles)}
        return CliRunner(env=environment).invoke(cli, words, prog_name="pybroker", catch_exceptions=False)

    with Broker.in_thread(SETTINGS) as broker:
        profiles.write_text(PROFILES.format(at=broker.bootstrap, module=MODULE, password="word"))
        profile = ("--profile", "secure")
        assert run("topics", "create", "a", *profile).stdout.startswith("Created topic a")
        assert run("produce", "a", "1", *profile).stdout.startswith("Wrote 1 record")
        assert run("consume", "a", "-g", "readers", *profile).stdout == "1\n"
        state = ("--state", str(tmp_path / "state"))
        assert run("copy", "a", "--from", "secure", "--to", "secure", "--prefix", "c.", *state).stdout.startswith(
            "Copied 1 record"
        )
        profiles.write_text(PROFILES.format(at=broker.bootstrap, module=MODULE, password="wrong"))
        refused = run("topics", "list", *profile)
        assert refused.exit_code == 1
        assert refused.stderr.count("\n") == 1
        assert "uthentication" in refused.stderr
        assert "wrong" not in refused.stderr, "no password is in an error"
