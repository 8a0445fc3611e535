"""Files that were written for other images call the commands: by name from a script, from init containers and health checks."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from testing.places import ROOT
from testing.process.broker import BrokerProcess
from testing.process.our_commands import ENTRY, run_command
from testing.waiting import line_of

WAIT_S = 120

INIT = """
set -e
cub kafka-ready -b $KAFKA 1 40
# blocks until kafka is reachable
kafka-topics --bootstrap-server $KAFKA --list
echo -e 'Creating kafka topics'
kafka-topics --bootstrap-server $KAFKA --create --if-not-exists --topic my-topic-1 --replication-factor 1 --partitions 1
kafka-topics --bootstrap-server $KAFKA --create --if-not-exists --topic my-topic-1 --replication-factor 1 --partitions 1
kafka-topics.sh --create --topic my-topic-2 --bootstrap-server $KAFKA --partitions=2 --config cleanup.policy=compact
ALTER="--alter --add-config retention.ms=7000"
kafka-configs --bootstrap-server $KAFKA --entity-type topics --entity-name my-topic-2 $ALTER
kafka-topics --bootstrap-server $KAFKA --alter --topic my-topic-2 --partitions 4
echo -e 'Successfully created the following topics:'
kafka-topics --bootstrap-server $KAFKA --list
kafka-topics --bootstrap-server $KAFKA --describe --topic my-topic-2 | grep -q 'PartitionCount: 4'
seq 3 | kafka-console-producer --broker-list $KAFKA --topic my-topic-1 --request-required-acks 1
kafka-console-consumer --bootstrap-server $KAFKA --topic my-topic-1 --from-beginning --max-messages 3 --timeout-ms 60000
kafka-run-class kafka.tools.GetOffsetShell --broker-list $KAFKA --topic my-topic-1 --time -1
"""

CREATED = """
Creating kafka topics
Created topic my-topic-1.
Created topic my-topic-2.
Completed updating config for topic my-topic-2.
Successfully created the following topics:
my-topic-1
my-topic-2
1
2
3
my-topic-1:0:3
"""

HEALTH_CHECKS = [
    "kafka-broker-api-versions --bootstrap-server $KAFKA",
    "kafka-broker-api-versions.sh --bootstrap-server $KAFKA > /dev/null 2>&1 || exit 1",
    "kafka-topics --bootstrap-server $KAFKA --list",
    "kafka-topics.sh --list --bootstrap-server=$KAFKA",
    "kafka-cluster cluster-id --bootstrap-server $KAFKA",
    "cub kafka-ready -b $KAFKA 1 20",
    "cub kafka-ready 1 5 -b $KAFKA || exit 1",
    "kafka-consumer-groups --bootstrap-server $KAFKA --list",
    "kafka-topics --describe --bootstrap-server $KAFKA --unavailable-partitions | grep -q . && exit 1 || exit 0",
]


@pytest.fixture(scope="module")
def scripts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bin")
    ran = subprocess.run(
        [sys.executable, "-m", "pybroker", "tool", "install", folder], capture_output=True, text=True, timeout=WAIT_S, check=True
    )
    assert re.fullmatch(r"\d+ scripts in .*\n", ran.stdout)
    return folder


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    broker = BrokerProcess(tmp_path_factory.mktemp("broker"), {"group.initial.rebalance.delay.ms": "0"})
    broker.start()
    yield broker
    broker.close()


def shell(script: str, scripts: Path, bootstrap: str, **environment: str) -> subprocess.CompletedProcess[str]:
    around = {**os.environ, "PATH": f"{scripts}:{os.environ['PATH']}", "KAFKA": bootstrap, **environment}
    command = ["bash", "-c", script]
    return subprocess.run(command, capture_output=True, text=True, timeout=WAIT_S, check=False, env=around)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def test_an_init_container_waits_and_makes_topics(scripts: Path, tmp_path: Path) -> None:
    """Start the command before the broker."""
    broker = BrokerProcess(tmp_path, {"group.initial.rebalance.delay.ms": "0"})
    broker.port = free_port()
    environment = {**os.environ, "PATH": f"{scripts}:{os.environ['PATH']}", "KAFKA": broker.bootstrap}
    process = subprocess.Popen(
        ["bash", "-c", INIT], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment, process_group=0
    )
    try:
        assert process.stderr is not None
        assert line_of(process.stderr, "the warning that no broker is there").startswith("WARN no broker is available yet (")
        broker.start()
        out, err = process.communicate(timeout=WAIT_S)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(WAIT_S)
        broker.close()
    assert (process.returncode, out, err) == (0, CREATED, "Processed a total of 3 messages\n")


def test_the_commands_of_the_documentation_run(scripts: Path, broker: BrokerProcess) -> None:
    page = (ROOT / "docs" / "containers.md").read_text()
    (section,) = re.findall(r"^## Kafka's commands\n(.*?)(?=^## |\Z)", page, re.MULTILINE | re.DOTALL)
    (block,) = re.findall(r"^```sh\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)
    assert "localhost:9092" in block
    ran = shell("set -e\n" + block.replace("localhost:9092", "$KAFKA"), scripts, broker.bootstrap)
    assert ran.returncode == 0, ran.stderr
    assert "Created topic orders.\n" in ran.stdout
    assert "\none\n" in ran.stdout


@pytest.mark.parametrize("check", HEALTH_CHECKS)
def test_a_health_check_passes_while_the_broker_runs(check: str, scripts: Path, broker: BrokerProcess) -> None:
    ran = shell(check, scripts, broker.bootstrap)
    assert (ran.returncode, ran.stderr) == (0, "")


@pytest.mark.parametrize("check", ["kafka-broker-api-versions --bootstrap-server $KAFKA", "cub kafka-ready -b $KAFKA 1 0"])
def test_a_health_check_fails_at_once_without_a_broker(check: str, scripts: Path) -> None:
    ran = shell(check, scripts, f"127.0.0.1:{free_port()}")
    assert ran.returncode == 1
    assert "Connection refused" in ran.stderr


def test_a_command_waits_at_a_port_without_a_broker_behind_it(tmp_path: Path) -> None:
    """Wait for a broker behind a port that takes connections.

    A port does that which an engine publishes while the broker behind it starts.
    """
    broker = BrokerProcess(tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as door:
        broker.port = int(door.getsockname()[1])
        command = [sys.executable, "-I", "-S", str(ENTRY), "kafka-topics", "--list", "--bootstrap-server", broker.bootstrap]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(2):
            door.accept()[0].close()
    try:
        broker.start()
        out, err = process.communicate(timeout=WAIT_S)
    finally:
        process.kill()
        broker.close()
    assert (process.returncode, out) == (0, "\n")
    assert err.startswith("WARN no broker is available yet (")


def test_a_server_that_is_no_broker_is_one_line() -> None:
    with socket.create_server(("127.0.0.1", 0)) as door:
        port = door.getsockname()[1]
        command = [sys.executable, "-I", "-S", str(ENTRY), "kafka-broker-api-versions", "--bootstrap-server", f"127.0.0.1:{port}"]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        peer = door.accept()[0]
        for _ in range(2):
            peer.recv(1024)
            peer.sendall(b"\0\0\0\6nonsen")
        out, err = process.communicate(timeout=WAIT_S)
        peer.close()
    assert (process.returncode, out, len(err.splitlines())) == (1, "", 1)
    assert "the response cannot be read" in err


def test_a_command_gives_up_when_its_time_is_over(tmp_path: Path) -> None:
    (tmp_path / "short.properties").write_text("default.api.timeout.ms=200\n")
    at = ("--bootstrap-server", f"127.0.0.1:{free_port()}", "--command-config", "short.properties")
    ran = run_command("kafka-topics", "--list", *at, folder=tmp_path)
    assert ran.code == 1
    assert ran.out == "Error while executing topic command : Timed out waiting for a node assignment. Call: listTopics\n"


def test_groups_without_a_broker_are_an_error_with_exit_code_0() -> None:
    """Do what Kafka's tools do: 3.9 and 4.x print the same, and end with the same exit code."""
    ran = run_command("kafka-consumer-groups", "--list", "--timeout", "200", "--bootstrap-server", f"127.0.0.1:{free_port()}")
    assert ran.code == 0
    assert ran.out == (
        "\nError: Executing consumer group command failed due to java.util.concurrent.ExecutionException: "
        "org.apache.kafka.common.KafkaException: Failed to find brokers to send ListGroups\n"
    )


def test_a_command_waits_for_a_name_to_resolve_no_longer_than_its_limit(tmp_path: Path) -> None:
    (tmp_path / "short.properties").write_text("default.api.timeout.ms=1000\n")
    at = ("--bootstrap-server", "no-such-host.invalid:9092", "--command-config", "short.properties")
    ran = run_command("kafka-topics", "--list", *at, folder=tmp_path)
    assert ran.code == 1
    waiting, error = ran.err.splitlines()
    assert waiting.startswith("WARN no broker is available yet (no-such-host.invalid:9092: ")
    assert waiting.endswith("; trying for 1 s")
    assert error.startswith("No resolvable bootstrap urls given in bootstrap.servers: no-such-host.invalid:9092: ")


@pytest.mark.parametrize(
    "words",
    [
        "kafka-topics --create --topic t --partitions 3000000000",
        "kafka-topics --create --topic t --replica-assignment 3000000000",
        "kafka-topics --describe --topic-id nonsense",
        "kafka-topics --create --topic $'bad\\xff'",
        "kafka-configs --alter --topic t --add-config a",
        "kafka-consumer-groups --reset-offsets --group g --topic t:3000000000 --to-earliest --dry-run",
        "kafka-get-offsets --time 99999999999999999999",
        "kafka-get-offsets --topic-partitions t:x",
    ],
)
def test_the_error_of_bad_input_has_no_traceback(words: str, scripts: Path, broker: BrokerProcess) -> None:
    ran = shell(f"{words} --bootstrap-server $KAFKA", scripts, broker.bootstrap)
    assert ran.returncode == 1
    assert "Traceback" not in ran.stderr
    assert len((ran.stdout + ran.stderr).splitlines()) == 1, ran.stdout + ran.stderr


def test_the_zookeeper_option_means_the_only_broker(scripts: Path, broker: BrokerProcess, tmp_path: Path) -> None:
    host, _, port = broker.bootstrap.rpartition(":")
    (tmp_path / "ready").write_text(f"{host} {port}\n")
    old = "kafka-topics --create --zookeeper zookeeper:2181 --topic old --replication-factor 1 --partitions 1"
    ran = shell(old, scripts, "", PYBROKER_READY_FILE=str(tmp_path / "ready"))
    assert (ran.returncode, ran.stdout) == (0, "Created topic old.\n")
    assert "there is no ZooKeeper; --zookeeper is ignored" in ran.stderr
    ran = shell("kafka-topics --list --zookeeper zookeeper:2181", scripts, "", PYBROKER_BOOTSTRAP=broker.bootstrap)
    assert "old" in ran.stdout.splitlines()
    ran = shell("kafka-topics --list --zookeeper zookeeper:2181", scripts, "", PYBROKER_READY_FILE=str(tmp_path / "none"))
    assert (ran.returncode, ran.stdout, len(ran.stderr.splitlines())) == (2, "", 1)


@pytest.mark.parametrize(
    "command",
    [
        "kafka-log-dirs.sh --describe --bootstrap-server $KAFKA",
        "kafka-topics --bootstrap-server $KAFKA --frobnicate",
        "kafka-configs --bootstrap-server $KAFKA --entity-type users --describe --frobnicate",
        "kafka-console-consumer --bootstrap-server $KAFKA --topic t --formatter io.confluent.AvroMessageFormatter",
        "kafka-console-consumer --bootstrap-server $KAFKA --topic t --consumer-property security.protocol=SASL_SSL",
        "kafka-console-producer --bootstrap-server $KAFKA --topic t --producer-property nonsense=1 < /dev/null",
        "kafka-run-class kafka.tools.DumpLogSegments --files x",
        "kafka-storage info -c server.properties",
        "cub sr-ready registry 8081 20",
    ],
)
def test_an_unsupported_command_is_one_line_and_exit_code_2(command: str, scripts: Path, broker: BrokerProcess) -> None:
    ran = shell(command, scripts, broker.bootstrap)
    assert (ran.returncode, ran.stdout, len(ran.stderr.splitlines())) == (2, "", 1), ran.stderr


@pytest.mark.parametrize("name", ["kafka-topics", "kafka-configs", "kafka-consumer-groups", "kafka-console-consumer.sh"])
def test_commands_print_help_and_version(name: str, scripts: Path) -> None:
    ran = shell(f"{name} --help", scripts, "")
    assert (ran.returncode, ran.stdout) == (1, "")  # as Kafka's tools print it
    assert ran.stderr.startswith("This tool helps to ")
    assert shell(name, scripts, "").stderr == ran.stderr
    assert re.fullmatch(r"3\.9\.2 \(pybroker [\d.]+\)\n", shell(f"{name} --version", scripts, "").stdout)


def test_the_consumer_ends_when_the_reader_of_its_output_does(scripts: Path, broker: BrokerProcess) -> None:
    many = "seq 20000 | kafka-console-producer --bootstrap-server $KAFKA --topic many"
    assert shell(many, scripts, broker.bootstrap).returncode == 0
    ran = shell(
        "kafka-console-consumer --bootstrap-server $KAFKA --topic many --from-beginning | head -1", scripts, broker.bootstrap
    )
    assert ran.stdout == "1\n"
    assert "Traceback" not in ran.stderr
    ran = shell("kafka-broker-api-versions --bootstrap-server $KAFKA | head -1", scripts, broker.bootstrap)
    assert "Traceback" not in ran.stderr


def test_a_signal_ends_the_consumer_and_its_offsets_are_committed(scripts: Path, broker: BrokerProcess) -> None:
    at = ("--bootstrap-server", broker.bootstrap, "--topic", "ended")
    assert run_command("kafka-console-producer", *at, given="one\ntwo\n").code == 0
    command: list[str | Path] = [scripts / "kafka-console-consumer", *at, "--from-beginning", "--group", "ended"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert [line_of(process.stdout, "a record") for _ in range(2)] == ["one\n", "two\n"]
    process.terminate()  # the command has replaced the script
    _, err = process.communicate(timeout=WAIT_S)
    assert (process.returncode, err) == (128 + signal.SIGTERM, "Processed a total of 2 messages\n")
    described = run_command("kafka-consumer-groups", "--bootstrap-server", broker.bootstrap, "--describe", "--group", "ended").out
    assert re.search(r"^ended +ended +0 +2 +2 +0 ", described, re.MULTILINE)


def test_the_producer_reports_records_that_are_not_delivered() -> None:
    at = ("--bootstrap-server", f"127.0.0.1:{free_port()}", "--topic", "lost", "--max-block-ms", "500")
    ran = run_command("kafka-console-producer", *at, given="one\n")
    assert ran.code == 1
    assert "ERROR Error when sending message to topic lost with key: null, value: 3 bytes with error: " in ran.err


def test_a_script_of_another_origin_is_kept(tmp_path: Path) -> None:
    (tmp_path / "kafka-topics").write_text("#!/bin/sh\necho mine\n")
    command = [sys.executable, "-m", "pybroker", "tool", "install", str(tmp_path)]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=WAIT_S, check=False)
    assert ran.returncode == 1
    assert ran.stderr == f"Error: {tmp_path}/kafka-topics: exists already and is not one of pybroker's scripts\n"
    assert [path.name for path in tmp_path.iterdir()] == ["kafka-topics"]


def test_a_health_check_imports_little(broker: BrokerProcess) -> None:
    """Check what the CPU time depends on, because a loaded machine is slow; `python -m benchmarks.commands` measures CPU time."""
    command = [sys.executable, "-I", "-S", "-X", "importtime", str(ENTRY), "kafka-topics", "--list"]
    ran = subprocess.run(
        [*command, "--bootstrap-server", broker.bootstrap], capture_output=True, text=True, timeout=WAIT_S, check=True
    )
    imported = {line.rpartition("|")[2].strip() for line in ran.stderr.splitlines()}
    ours = ("connection", "errors", "kafka_apis", "metadata", "options", "run", "target", "topics")
    clients = ("pybroker.client", *(f"pybroker.client.{name}" for name in ("address", "errors", "frames")))
    expected = {"pybroker", "pybroker.tools", *clients, *(f"pybroker.tools.{name}" for name in ours)}
    assert {name for name in imported if name.startswith("pybroker")} == expected
    assert "socket" in imported
    assert not imported & {
        "argparse",
        "click",
        "dataclasses",
        "inspect",
        "logging",
        "pathlib",
        "re",
        "site",
        "stringprep",
        "typing",
    }
