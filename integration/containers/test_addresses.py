"""Clients of real containers get addresses that they can use."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Sequence

import pytest

from testing.containers.containers import Container, network, running
from testing.containers.engine import Engine
from testing.containers.rootless import rootless
from testing.places import ROOT
from testing.process.kafka_peer import free_port


def doctor(address: str, within: Sequence[str] = (sys.executable, "-m", "pybroker")) -> list[str]:
    """Run the doctor, assert that it finds nothing wrong, and return its lines."""
    done = subprocess.run([*within, "doctor", address], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.splitlines()


def doctor_in(container: Container, address: str) -> list[str]:
    return container.execute("pybroker", "doctor", address).splitlines()


def stock_client(bootstrap: str) -> str:
    """Send a record with a stock client of this machine, read it back, and return the address that the broker advertised."""
    command = [sys.executable, "-m", "testing.clients.advertised", bootstrap, "orders"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.strip()


@pytest.fixture
def net(engine: Engine) -> Iterator[str]:
    with network(engine) as name:
        yield name


def test_the_host_and_a_neighbour_use_a_broker_without_settings(engine: Engine, image: str, net: str) -> None:
    port = free_port()
    listen = ("--env", f"KAFKA_LISTENERS=PLAINTEXT://:{port}")
    publish = ("--publish", f"127.0.0.1:{port}:{port}")
    with running(engine, image, "--network", net, "--hostname", "broker", *listen, *publish) as broker:
        broker.wait_healthy()
        assert stock_client(f"localhost:{port}") == f"localhost:{port}"
        assert f"Broker 1 is advertised as localhost:{port}" in doctor(f"127.0.0.1:{port}")
        assert f"Broker 1 is advertised as localhost:{port}" in doctor_in(broker, f"localhost:{port}")
        with running(engine, image, "--network", net, command=["sleep", "600"]) as neighbour:
            own = broker.engine.inspect("container", broker.name)["NetworkSettings"]["Networks"][net]["IPAddress"]
            assert f"Broker 1 is advertised as {own}:{port}" in doctor_in(neighbour, f"{broker.name}:{port}")
        assert f"clients that come through a published port get localhost:{port}" in broker.log


def test_one_variable_publishes_another_port_of_the_host(engine: Engine, image: str, net: str) -> None:
    port = free_port()
    publish = ("--publish", f"127.0.0.1:{port}:9092", "--env", f"PYBROKER_ADVERTISED=localhost:{port}")
    with running(engine, image, "--network", net, *publish) as broker:
        broker.wait_healthy()
        assert stock_client(f"localhost:{port}") == f"localhost:{port}"
        assert "Broker 1 is advertised as localhost:9092" in doctor_in(broker, "localhost:9092")
        with running(engine, image, "--network", net, command=["sleep", "600"]) as neighbour:
            lines = doctor_in(neighbour, f"{broker.name}:9092")
            assert lines[-1] == f"A client on this machine works with {broker.name}:9092."


def test_a_broker_serves_a_network_that_is_connected_while_it_runs(engine: Engine, image: str, net: str) -> None:
    port = free_port()
    publish = ("--publish", f"127.0.0.1:{port}:9092", "--env", f"PYBROKER_ADVERTISED=localhost:{port}")
    with network(engine) as second, running(engine, image, "--network", net, *publish) as broker:
        broker.wait_healthy()
        engine.run("network", "connect", second, broker.name)
        for name in (net, second):
            with running(engine, image, "--network", name, command=["sleep", "600"]) as neighbour:
                own = engine.inspect("container", broker.name)["NetworkSettings"]["Networks"][name]["IPAddress"]
                assert f"Broker 1 is advertised as {own}:9092" in doctor_in(neighbour, f"{own}:9092")
        assert stock_client(f"localhost:{port}") == f"localhost:{port}"


def test_a_broker_on_the_default_network_is_used_from_the_host(engine: Engine, image: str) -> None:
    port = free_port()
    publish = ("--publish", f"127.0.0.1:{port}:9092", "--env", f"PYBROKER_ADVERTISED=127.0.0.1:{port}")
    with running(engine, image, *publish) as broker:
        broker.wait_healthy()
        assert stock_client(f"127.0.0.1:{port}") == f"127.0.0.1:{port}"
        assert "Broker 1 is advertised as localhost:9092" in doctor_in(broker, "localhost:9092")


def test_a_broker_on_the_network_of_the_host_advertises_the_address_of_the_connection(engine: Engine, image: str) -> None:
    port = free_port()
    listen = ("--env", f"KAFKA_LISTENERS=PLAINTEXT://127.0.0.1:{port}")
    with running(engine, image, "--network", "host", *listen) as broker:
        broker.wait_healthy()
        assert stock_client(f"127.0.0.1:{port}") == f"127.0.0.1:{port}"
        assert "all clients get the address that they connected to" in broker.log


@pytest.mark.parametrize("text", ["http://localhost:19092", "localhost:0", "0.0.0.0:9092", "a,b"])
def test_an_impossible_address_keeps_the_broker_from_starting(engine: Engine, image: str, text: str) -> None:
    done = engine.call("run", "--rm", "--env", f"PYBROKER_ADVERTISED={text}", image)
    assert done.returncode != 0
    assert f"{text}: " in done.stderr
    assert "PYBROKER_ADVERTISED" in done.stderr


@pytest.fixture(scope="module")
def user_engine(engine: Engine, image: str) -> Iterator[Engine]:
    with rootless(engine, image) as found:
        yield found


OWN_HANDLER = ("--network", "slirp4netns:port_handler=slirp4netns")


@pytest.mark.parametrize("options", [(), OWN_HANDLER], ids=["rootlesskit", "slirp4netns"])
def test_the_host_uses_a_rootless_container_without_a_network_of_its_own(
    user_engine: Engine, image: str, options: tuple[str, ...]
) -> None:
    port = free_port()
    listen = ("--env", f"KAFKA_LISTENERS=PLAINTEXT://:{port}")
    with running(user_engine, image, *options, *listen, "--publish", f"127.0.0.1:{port}:{port}") as broker:
        broker.wait_healthy()
        assert stock_client(f"localhost:{port}") == f"localhost:{port}"
        assert f"Broker 1 is advertised as localhost:{port}" in doctor_in(broker, f"localhost:{port}")
        assert "clients on the container's networks" not in broker.log


def test_host_and_neighbour_use_a_rootless_container_on_a_network(user_engine: Engine, image: str) -> None:
    port = free_port()
    publish = ("--publish", f"127.0.0.1:{port}:9092", "--env", f"PYBROKER_ADVERTISED=localhost:{port}")
    with network(user_engine) as net, running(user_engine, image, "--network", net, *publish) as broker:
        broker.wait_healthy()
        assert stock_client(f"localhost:{port}") == f"localhost:{port}"
        assert "Broker 1 is advertised as localhost:9092" in doctor_in(broker, "localhost:9092")
        with running(user_engine, image, "--network", net, command=["sleep", "600"]) as neighbour:
            own = user_engine.inspect("container", broker.name)["NetworkSettings"]["Networks"][net]["IPAddress"]
            assert f"Broker 1 is advertised as {own}:9092" in doctor_in(neighbour, f"{broker.name}:9092")
