"""`pybroker doctor` beside pybroker, Apache Kafka, and other things that may listen at a port."""

from __future__ import annotations

import contextlib
import select
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from pybroker.doctor.look import look
from testing.process.broker import BrokerProcess
from testing.process.kafka_peer import classpath
from testing.process.kafka_tools import java
from testing.process.our_commands import run_command
from testing.process.several import SeveralBrokers
from testing.waiting import LONG_WAIT_S, WAIT_S, joined, line_of, until

SILENCE_S = "0.5"


def doctor(address: str, *, timeout_s: str = SILENCE_S) -> tuple[int, list[str]]:
    """Return the exit code and the lines of a run."""
    command = [sys.executable, "-m", "pybroker", "doctor", address, "--timeout", timeout_s]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert not done.stderr, done.stderr
    return done.returncode, done.stdout.splitlines()


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return int(taken.getsockname()[1])


def cluster_line(lines: list[str]) -> str:
    return next(line for line in lines if " responds: cluster " in line)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    one = BrokerProcess(tmp_path_factory.mktemp("broker"))
    one.start()
    try:
        yield one
    finally:
        one.close()


def test_the_doctor_passes_a_broker_that_works(broker: BrokerProcess) -> None:
    code, lines = doctor(f"localhost:{broker.port}")
    assert (code, lines[-1]) == (0, f"A client on this machine works with localhost:{broker.port}.")
    assert "pybroker responds" in cluster_line(lines)
    assert ", broker 1," in cluster_line(lines)


def test_the_doctor_finds_an_advertised_name_that_only_a_containers_network_knows(tmp_path: Path) -> None:
    one = BrokerProcess(tmp_path, {"advertised.listeners": "PLAINTEXT://kafka.invalid:9092"})
    one.start()
    try:
        code, lines = doctor(one.bootstrap)
    finally:
        one.close()
    assert code == 1
    assert "Broker 1 is advertised as kafka.invalid:9092" in lines
    assert lines[-1].startswith(
        "The broker advertises kafka.invalid:9092, and the name kafka.invalid does not resolve on this machine."
    )
    assert f"Set {one.bootstrap}, which works from here, in the broker's advertised.listeners;" in lines[-1]


def test_the_doctor_finds_an_advertised_address_of_another_cluster(tmp_path: Path, broker: BrokerProcess) -> None:
    one = BrokerProcess(tmp_path, {"advertised.listeners": f"PLAINTEXT://127.0.0.1:{broker.port}"})
    one.start()
    try:
        code, lines = doctor(one.bootstrap)
    finally:
        one.close()
    assert code == 1
    assert "but another cluster responds there" in lines[-1]


def test_the_doctor_names_what_a_cluster_lacks_while_a_broker_is_away(tmp_path: Path) -> None:
    replicas = {"orders": "1:2:3", "strict": "1:2:3", "alone": "2"}
    session = {"broker.session.timeout.ms": "3000", "broker.heartbeat.interval.ms": "500"}
    with SeveralBrokers(tmp_path, 3, session) as brokers:
        first = brokers.bootstrap.split(",")[0]
        for topic, assignment in replicas.items():
            setting = ("--config", "min.insync.replicas=3") if topic == "strict" else ()
            words = ("--create", "--topic", topic, "--replica-assignment", assignment, *setting)
            assert run_command("kafka-topics", "--bootstrap-server", first, *words).code == 0
        until(lambda: doctor(first, timeout_s="5")[0] == 0, "all replicas are in sync")
        assert doctor(first, timeout_s="5")[1][-1] == f"A client on this machine works with {first} and all 3 live brokers."
        brokers.hold(2)
        until(lambda: doctor(first, timeout_s="5")[1][-1].startswith("2 of"), "replicas of broker 2 leave the ISRs")
        code, lines = doctor(first, timeout_s="5")
        brokers.go_on(2)
    assert code == 1
    assert lines[lines.index("") + 1 :] == [
        f"A client on this machine works with {first} and all 2 live brokers.",
        "Broker 2 is not live, and partitions have replicas there: start what has stopped.",
        "1 of 3 partitions has no leader: no client can write or read there (alone-0).",
        "1 of 3 partitions has fewer replicas in sync than min.insync.replicas: the broker refuses acks=all there (strict-0).",
        "2 of 3 partitions have replicas that are not in sync (orders-0, strict-0).",
    ]


def test_the_doctor_reports_a_port_where_nothing_listens() -> None:
    port = free_port()
    code, lines = doctor(f"127.0.0.1:{port}")
    assert code == 1
    assert lines[-1].startswith(f"127.0.0.1:{port} refuses the connection. Nothing listens at that port")


class _Page(BaseHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  (its name)
        """Log nothing."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()


def test_the_doctor_recognizes_a_web_server() -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Page) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            code, lines = doctor(f"127.0.0.1:{server.server_port}")
        finally:
            server.shutdown()
            joined(thread, "the server's end")
    assert code == 1
    assert lines[-1].startswith(f"There is a web server at 127.0.0.1:{server.server_port}.")


@contextlib.contextmanager
def accepting(serve: Callable[[socket.socket], None]) -> Iterator[int]:
    """Start a server that calls `serve` with each connection, and yield its port."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def run() -> None:
            while True:
                try:
                    connection, _ = listening.accept()
                except OSError:
                    return
                serve(connection)

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        try:
            yield listening.getsockname()[1]
        finally:
            listening.shutdown(socket.SHUT_RDWR)
            joined(thread, "the server's end")


def test_the_doctor_reports_a_port_that_closes_connections() -> None:
    with accepting(lambda connection: connection.close()) as port:
        code, lines = doctor(f"127.0.0.1:{port}")
    assert code == 1
    assert lines[-1].startswith(f"There is something that closes the connection at once at 127.0.0.1:{port}.")


def test_the_doctor_reports_a_port_that_sends_nothing() -> None:
    kept: list[socket.socket] = []
    with accepting(kept.append) as port:
        code, lines = doctor(f"127.0.0.1:{port}")
    for connection in kept:
        connection.close()
    assert code == 1
    assert lines[1:5] == [
        "  127.0.0.1 connects",
        "  asking which APIs it serves",
        f"  no response in {SILENCE_S} s; asking whether it speaks TLS",
        "  no TLS; asking whether it is a web server",
    ]
    assert lines[-1].startswith(f"There is something that takes the connection and sends nothing at 127.0.0.1:{port}.")


def test_the_doctor_prints_each_step_before_it_waits() -> None:
    kept: list[socket.socket] = []
    with accepting(kept.append) as port:
        command = [sys.executable, "-m", "pybroker", "doctor", f"127.0.0.1:{port}", "--timeout", "600"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            lines = [line_of(process.stdout, "a step of the doctor") for _ in range(3)]
            process.kill()
    for connection in kept:
        connection.close()
    assert lines == [
        f"Bootstrap 127.0.0.1:{port} (each step takes 600 s at most)\n",
        "  127.0.0.1 connects\n",
        "  asking which APIs it serves\n",
    ]


def test_the_doctor_waits_for_a_name_service_only_until_its_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    asked, lines = threading.Event(), list[str]()

    def never(*_: object, **__: object) -> list[object]:
        asked.wait(WAIT_S)
        return []

    monkeypatch.setattr(socket, "getaddrinfo", never)
    try:
        found = look("kafka", 9092, lines.append, timeout_s=0.1)
    finally:
        asked.set()
    assert found.unresolved == "the name service did not respond in 0.1 s"
    assert lines == [f"does not resolve on this machine: {found.unresolved}"]


def _trickle(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):  # the doctor closes the connection
        connection.sendall(b"\0\x10\0\0")
        while True:
            connection.sendall(b"\0")
            if select.select([connection], [], [], 0.1)[0] and not connection.recv(1024):
                break
    connection.close()


def _garbage(connection: socket.socket) -> None:
    connection.sendall(b"220 mail.example ESMTP\r\n")
    connection.recv(1024)
    connection.close()


@pytest.mark.parametrize(
    ("serve", "what"),
    [
        pytest.param(_trickle, "something that takes the connection and sends nothing", id="a response that never ends"),
        pytest.param(_garbage, "a server that does not speak Kafka's protocol", id="another protocol"),
    ],
)
def test_the_doctor_reports_what_is_no_broker(serve: Callable[[socket.socket], None], what: str) -> None:
    with accepting(serve) as port:
        code, lines = doctor(f"127.0.0.1:{port}")
    assert code == 1
    assert lines[-1].startswith(f"There is {what} at 127.0.0.1:{port}.")


class Kafka:
    """Apache Kafka with a listener for each mistake that a listener can have. `ports` is by listener name."""

    NAMES = ("PLAINTEXT", "NAMED", "WRONG", "LOGIN", "SECRET")

    def __init__(self, folder: Path, wrong_port: int) -> None:
        self.ports = dict(zip(self.NAMES, _free_ports(len(self.NAMES)), strict=True))
        keystore = folder / "keystore.jks"
        keytool = [str(Path(java()).resolve().with_name("keytool")), "-genkeypair", "-keyalg", "RSA", "-alias", "kafka"]
        identity = ["-dname", "CN=localhost", "-storepass", "changeit", "-keypass", "changeit", "-keystore", str(keystore)]
        subprocess.run([*keytool, *identity], check=True, capture_output=True, timeout=WAIT_S)
        advertised = {**{name: f"127.0.0.1:{port}" for name, port in self.ports.items()}}
        advertised |= {"NAMED": "kafka.invalid:9092", "WRONG": f"127.0.0.1:{wrong_port}"}
        controller = _free_ports(1)[0]
        listeners = [f"{name}://127.0.0.1:{port}" for name, port in self.ports.items()]
        login = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_a="b";'
        overrides = {
            "listeners": ",".join([*listeners, f"CONTROLLER://127.0.0.1:{controller}"]),
            "advertised.listeners": ",".join(f"{name}://{address}" for name, address in advertised.items()),
            "controller.quorum.voters": f"1@127.0.0.1:{controller}",
            "listener.security.protocol.map": (
                "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,NAMED:PLAINTEXT,WRONG:PLAINTEXT,LOGIN:SASL_PLAINTEXT,SECRET:SSL"
            ),
            "sasl.enabled.mechanisms": "PLAIN",
            "listener.name.login.plain.sasl.jaas.config": login,
            "ssl.keystore.location": str(keystore),
            "ssl.keystore.password": "changeit",
        }
        self.command = [sys.executable, "-m", "testing.process.kafka_peer", "start", "--data-dir", str(folder / "data")]
        self.command += ["--port", str(self.ports["PLAINTEXT"])]
        for name, value in overrides.items():
            self.command += ["--override", f"{name}={value}"]


def _free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        taken = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [int(one.getsockname()[1]) for one in taken]


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory, broker: BrokerProcess) -> Iterator[Kafka]:
    java()
    if shutil.which("mvn") is None:
        pytest.skip("Apache Kafka is brought by Maven (mvn), which is not installed")
    classpath()
    one = Kafka(tmp_path_factory.mktemp("kafka"), broker.port)
    process = subprocess.Popen(one.command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        assert line_of(process.stdout, "Kafka's READY", LONG_WAIT_S).startswith("READY ")
        yield one
    finally:
        process.terminate()
        process.communicate(timeout=WAIT_S)


@pytest.mark.parametrize(
    ("listener", "code", "verdict"),
    [
        ("PLAINTEXT", 0, "A client on this machine works with 127.0.0.1:{port}."),
        (
            "NAMED",
            1,
            (
                "The broker advertises kafka.invalid:9092, and the name kafka.invalid does not resolve on this machine."
                " Set 127.0.0.1:{port}, which works from here, in the broker's advertised.listeners;"
            ),
        ),
        ("WRONG", 1, "The broker advertises 127.0.0.1:{wrong}, but another cluster responds there ("),
        ("LOGIN", 1, "There is a broker that wants a login (SASL) at 127.0.0.1:{port}."),
        ("SECRET", 1, "There is a server that speaks TLS at 127.0.0.1:{port}."),
    ],
)
def test_the_doctor_understands_each_listener_of_apache_kafka(
    kafka: Kafka, broker: BrokerProcess, listener: str, code: int, verdict: str
) -> None:
    port = kafka.ports[listener]
    found, lines = doctor(f"127.0.0.1:{port}", timeout_s="20")  # a Java program beside others takes its time
    assert found == code
    assert lines[-1].startswith(verdict.format(port=port, wrong=broker.port))
    if listener == "PLAINTEXT":
        assert "Apache Kafka responds" in cluster_line(lines)
        assert ", broker 1," in cluster_line(lines)
