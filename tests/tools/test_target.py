"""Which brokers a command talks to."""

from __future__ import annotations

from pathlib import Path

import pytest

from pybroker.tools.connection import servers
from pybroker.tools.errors import NOT_SUPPORTED, CommandError
from pybroker.tools.options import parse
from pybroker.tools.target import OPTIONS, Target, target_of


@pytest.fixture(autouse=True)
def _nothing_around(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("PYBROKER_BOOTSTRAP", raising=False)
    monkeypatch.setenv("PYBROKER_READY_FILE", str(tmp_path / "ready"))


def target(*words: str) -> Target:
    return target_of("kafka-toy", parse("kafka-toy", OPTIONS, list(words)))


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("localhost:9092", [("localhost", 9092)]),
        ("a:1, b:2", [("a", 1), ("b", 2)]),
        ("PLAINTEXT://a:1", [("a", 1)]),
        ("[::1]:9092", [("::1", 9092)]),
    ],
)
def test_bootstrap_lists(text: str, found: list[tuple[str, int]]) -> None:
    assert servers(text) == found


@pytest.mark.parametrize("text", ["localhost", "localhost:", ":9092", "localhost:port", "localhost:0", "localhost:65536"])
def test_bootstrap_lists_without_port(text: str) -> None:
    with pytest.raises(CommandError, match=r"Invalid url in bootstrap.servers: "):
        servers(text)


def test_a_broker_must_be_named() -> None:
    with pytest.raises(CommandError, match="--bootstrap-server must be specified"):
        target()


def test_the_environment_can_name_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYBROKER_BOOTSTRAP", "kafka:9092")
    assert target().bootstrap == "kafka:9092"
    assert target("--bootstrap-server", "other:1").bootstrap == "other:1"


def test_zookeeper_means_the_broker_of_the_container(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "ready").write_text("127.0.0.1 9092")
    assert target("--zookeeper", "zookeeper:2181/kafka").bootstrap == "127.0.0.1:9092"
    (line,) = capsys.readouterr().err.splitlines()
    assert (
        line == "WARN kafka-toy: there is no ZooKeeper; --zookeeper is ignored and the command uses the broker at 127.0.0.1:9092"
    )
    (tmp_path / "ready").write_text("::1 9092\n")
    assert target("--zookeeper", "zookeeper:2181").servers == [("::1", 9092)]


def test_zookeeper_without_a_broker_is_one_line() -> None:
    with pytest.raises(CommandError) as raised:
        target("--zookeeper", "zookeeper:2181")
    assert raised.value.code == NOT_SUPPORTED
    assert str(raised.value) == (
        "kafka-toy: --zookeeper is not supported, because there is no ZooKeeper: "
        "use --bootstrap-server HOST:PORT, or set PYBROKER_BOOTSTRAP=HOST:PORT"
    )


def test_properties_of_a_client(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text("request.timeout.ms=5000\nsecurity.protocol=PLAINTEXT\n")
    found = target("--bootstrap-server", "a:1", "--command-config", str(file))
    assert found.properties == {"request.timeout.ms": "5000", "security.protocol": "PLAINTEXT"}


@pytest.mark.parametrize(
    ("line", "error"),
    [
        ("security.protocol=TLS", r"security\.protocol=TLS: must be one of PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL"),
        ("security.protocol=SASL_PLAINTEXT", r"sasl\.mechanism=GSSAPI: must be one of PLAIN, SCRAM-SHA-256, SCRAM-SHA-512"),
    ],
)
def test_security_that_a_client_cannot_have_is_refused(line: str, error: str, tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text(line)
    with pytest.raises(CommandError, match=error):
        target("--bootstrap-server", "a:1", "--command-config", str(file))


def test_a_file_that_is_not_there() -> None:
    with pytest.raises(CommandError, match=r"/nowhere/x: No such file or directory"):
        target("--bootstrap-server", "a:1", "--command-config", "/nowhere/x")
