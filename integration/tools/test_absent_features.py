"""Stock clients and Kafka's tools learn that access control and tokens are off, and see the quorum of one.

Apache Kafka 3.9.2 without security gives them the same.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import confluent_kafka.admin as confluent
import kafka.admin as python
import pytest
from confluent_kafka import KafkaException
from kafka.admin import KafkaAdminClient
from kafka.errors import SecurityDisabledError

from pybroker.model import ZERO_TOPIC_ID, topic_id_text
from testing.clients.stock import create_topic, unique, wait
from testing.process.tool_runner import ToolRunner

with_java = pytest.mark.skipif(
    shutil.which("javac") is None or shutil.which("mvn") is None, reason="needs a Java compiler, and Maven for the jars"
)
VERSION = "inter.broker.protocol.version"


@pytest.fixture
def admin(bootstrap: str) -> Iterator[KafkaAdminClient]:
    client = KafkaAdminClient(bootstrap_servers=bootstrap)
    yield client
    client.close()


@pytest.fixture(scope="module")
def tools(release: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ToolRunner]:
    runner = ToolRunner(release, tmp_path_factory.mktemp("tools"))
    yield runner
    runner.close()


def test_kafka_python_learns_that_there_is_no_access_control(admin: KafkaAdminClient) -> None:
    everything = python.ACLFilter(
        principal=None,
        host="*",
        operation=python.ACLOperation.ANY,
        permission_type=python.ACLPermissionType.ANY,
        resource_pattern=python.ResourcePatternFilter(python.ResourceType.ANY, None, python.ACLResourcePatternType.ANY),
    )
    rule = python.ACL(
        principal="User:x",
        host="*",
        operation=python.ACLOperation.READ,
        permission_type=python.ACLPermissionType.ALLOW,
        resource_pattern=python.ResourcePattern(python.ResourceType.TOPIC, "t"),
    )
    with pytest.raises(SecurityDisabledError):
        admin.describe_acls(everything)
    assert admin.create_acls([rule]) == {"succeeded": [], "failed": [SecurityDisabledError]}
    ((_, matching, error),) = admin.delete_acls([everything])
    assert (matching, error) == ([], SecurityDisabledError)


def test_kafka_python_describes_the_quorum(admin: KafkaAdminClient, bootstrap: str) -> None:
    def described() -> tuple[int, int]:
        found = admin.describe_metadata_quorum()
        ((partition,),) = [topic["partitions"] for topic in found["topics"]]
        (voter,) = partition["current_voters"]
        ((listener,),) = [node["listeners"] for node in found["nodes"]]
        assert (partition["leader_id"], voter["replica_id"]) == (1, 1)
        assert f"{listener['host']}:{listener['port']}" == bootstrap
        return voter["log_end_offset"], partition["high_watermark"]

    before, high_watermark = described()
    assert 0 < before == high_watermark
    create_topic(bootstrap, unique("commit"))
    after, high_watermark = described()
    assert before < after == high_watermark


def test_clients_set_and_remove_the_credentials_of_users(admin: KafkaAdminClient, bootstrap: str) -> None:
    assert admin.describe_user_scram_credentials() == {}
    assert "does not exist" in admin.describe_user_scram_credentials(["bob"])["bob"]["error"]
    client = confluent.AdminClient({"bootstrap.servers": bootstrap})
    assert wait(client.describe_user_scram_credentials()) == {}
    with pytest.raises(KafkaException, match="RESOURCE_NOT_FOUND"):
        wait(client.describe_user_scram_credentials(["bob"])["bob"])
    info = confluent.ScramCredentialInfo(confluent.ScramMechanism.SCRAM_SHA_256, 10_000)
    change = confluent.UserScramCredentialUpsertion("bob", info, b"password", b"salt")
    wait(client.alter_user_scram_credentials([change])["bob"])
    ((mechanism, iterations),) = [(one.mechanism, one.iterations) for one in described(client, "bob")]
    assert (mechanism, iterations) == (confluent.ScramMechanism.SCRAM_SHA_256, 10_000)
    wait(client.alter_user_scram_credentials([confluent.UserScramCredentialDeletion("bob", mechanism)])["bob"])
    assert admin.describe_user_scram_credentials() == {}


def described(client: confluent.AdminClient, user: str) -> list[Any]:
    return list(wait(client.describe_user_scram_credentials([user])[user]).scram_credential_infos)


def test_librdkafka_learns_that_there_is_no_access_control_and_finds_the_version(bootstrap: str) -> None:
    client = confluent.AdminClient({"bootstrap.servers": bootstrap})
    rule = confluent.AclBinding(
        confluent.ResourceType.TOPIC, "t", confluent.ResourcePatternType.LITERAL, "User:x", "*",
        confluent.AclOperation.READ, confluent.AclPermissionType.ALLOW,
    )  # fmt: skip
    everything = confluent.AclBindingFilter(
        confluent.ResourceType.ANY, None, confluent.ResourcePatternType.ANY, None, None,
        confluent.AclOperation.ANY, confluent.AclPermissionType.ANY,
    )  # fmt: skip
    for futures in (client.create_acls([rule]), client.delete_acls([everything])):
        with pytest.raises(KafkaException, match=r"SECURITY_DISABLED.*No Authorizer is configured"):
            wait(*futures.values())
    (future,) = client.describe_configs([confluent.ConfigResource(confluent.ResourceType.BROKER, "1")]).values()
    entry = wait(future)[VERSION]
    assert (entry.value, entry.is_read_only, entry.is_sensitive) == ("3.9-IV0", True, False)


@with_java
def test_kafkas_tools_report_that_it_is_off(tools: ToolRunner, bootstrap: str, tmp_path: Path) -> None:
    at = ("--bootstrap-server", bootstrap)
    plain = tmp_path / "plain.properties"
    plain.write_text("security.protocol=PLAINTEXT\n")

    def refused(name: str, *arguments: str) -> str:
        ran = tools.run(name, *at, *arguments)
        assert ran.code == 1
        return ran.out + ran.err

    disabled = "SecurityDisabledException: No Authorizer is configured"
    assert f"{disabled} on the broker" in refused("acls", "--list")
    assert disabled in refused("acls", "--add", "--allow-principal", "User:bob", "--operation", "Read", "--topic", "t")
    assert disabled in refused("acls", "--remove", "--force", "--topic", "t")
    tokens = refused("delegation-tokens", "--describe", "--command-config", str(plain))
    assert "UnsupportedByAuthenticationException: Delegation Token requests are not allowed on PLAINTEXT" in tokens


@with_java
def test_kafkas_tool_describes_the_quorum(tools: ToolRunner, bootstrap: str) -> None:
    at = ("--bootstrap-server", bootstrap)
    status = dict(re.findall(r"^(\w+): +(.*?) *$", tools.succeed("metadata-quorum", *at, "describe", "--status"), re.MULTILINE))
    with_voters = {name: status[name] for name in ("LeaderId", "LeaderEpoch", "MaxFollowerLag", "CurrentObservers")}
    assert with_voters == {"LeaderId": "1", "LeaderEpoch": "0", "MaxFollowerLag": "0", "CurrentObservers": "[]"}
    assert f'"endpoints": ["PLAINTEXT://{bootstrap}"]' in status["CurrentVoters"]
    assert int(status["HighWatermark"]) > 0
    lines = tools.succeed("metadata-quorum", *at, "describe", "--replication").splitlines()
    heads, row = (re.split(r"\s*\t", line) for line in lines if line)
    found = dict(zip(heads, row, strict=True))
    assert (found["NodeId"], found["Lag"], found["Status"]) == ("1", "0", "Leader")
    assert found["DirectoryId"] == topic_id_text(ZERO_TOPIC_ID)
    assert found["LogEndOffset"] == status["HighWatermark"]


@with_java
def test_kafkas_tool_shows_the_properties_that_are_accepted_unread(tools: ToolRunner, bootstrap: str) -> None:
    of_broker = ("--entity-type", "brokers", "--entity-name", "1", "--describe", "--all")
    lines = tools.succeed("configs", "--bootstrap-server", bootstrap, *of_broker).splitlines()
    synonyms = f"{{DEFAULT_CONFIG:{VERSION}=3.9-IV0}}"
    assert f"  {VERSION}=3.9-IV0 sensitive=false synonyms={synonyms}" in lines
    assert "  ssl.keystore.password=null sensitive=true synonyms={}" in lines
