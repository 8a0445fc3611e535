"""A broker of a test is ready when it is entered, has the settings of the test, and leaves nothing."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from pybroker.broker.joining import StartError
from pybroker.config.setting import ConfigError
from pybroker.testing import Broker, directory
from pybroker.testing.settings import DEFAULTS, config_of, texts_of


def files(base: Path) -> list[Path]:
    return [*base.iterdir()]


@pytest.fixture(autouse=True)
def base(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(directory, "_base", lambda: tmp_path)
    return tmp_path


async def test_a_broker_listens_while_its_block_lasts(base: Path) -> None:
    async with Broker() as broker:
        assert broker.bootstrap == f"127.0.0.1:{broker.port}"
        socket.create_connection((broker.host, broker.port), 10).close()
        assert len(files(base)) == 1
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((broker.host, broker.port), 10)
    assert files(base) == []


def test_a_broker_in_a_thread_listens_while_its_block_lasts(base: Path) -> None:
    with Broker.in_thread() as broker:
        socket.create_connection((broker.host, broker.port), 10).close()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((broker.host, broker.port), 10)
    assert files(base) == []


def test_settings_have_the_types_of_python(tmp_path: Path) -> None:
    texts = texts_of({"num.partitions": 3, "auto.create.topics.enable": False, "compression.type": "lz4"})
    config = config_of(texts, tmp_path)
    assert (config.num_partitions, config.auto_create_topics_enable, config.compression_type) == (3, False, "lz4")
    assert config.log_dirs == (str(tmp_path / "data"),)


def test_settings_of_the_test_win_over_those_for_tests(tmp_path: Path) -> None:
    name = "group.initial.rebalance.delay.ms"
    assert config_of({}, tmp_path).group_initial_rebalance_delay_ms == int(DEFAULTS[name])
    assert config_of({name: "3000"}, tmp_path).group_initial_rebalance_delay_ms == 3000


def test_settings_for_tests_are_settings() -> None:
    assert texts_of(DEFAULTS) == DEFAULTS


def test_the_environment_sets_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAFKA_NUM_PARTITIONS", "7")
    assert config_of({}, tmp_path).num_partitions == 1


@pytest.mark.parametrize("make", [Broker, Broker.in_thread, Broker.subprocess])
def test_a_name_that_no_setting_has_is_refused(make: Callable[..., object]) -> None:
    with pytest.raises(ConfigError, match=r"num\.partition=3"):
        make({"num.partition": 3})


def test_a_bad_value_is_refused_by_its_name_before_a_process_starts(base: Path) -> None:
    with pytest.raises(ConfigError, match=r"num\.partitions=many"):
        Broker.subprocess({"num.partitions": "many"}).start()
    assert files(base) == []


def with_taken(port: int) -> dict[str, str]:
    return {
        "listeners": f"PLAINTEXT://127.0.0.1:0,OTHER://127.0.0.1:{port}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,OTHER:PLAINTEXT",
    }


async def test_a_broker_that_cannot_start_leaves_nothing(base: Path) -> None:
    async with Broker() as taken:
        before = files(base)
        with pytest.raises(OSError, match=str(taken.port)):
            await Broker(with_taken(taken.port)).start()
        assert files(base) == before


def test_a_broker_in_a_thread_that_cannot_start_raises_in_the_thread_of_the_test(base: Path) -> None:
    with Broker.in_thread() as taken:
        before, threads = files(base), threading.enumerate()
        with pytest.raises(OSError, match=str(taken.port)):
            Broker.in_thread(with_taken(taken.port)).start()
        assert files(base) == before
        assert threading.enumerate() == threads


async def test_a_broker_listens_at_the_address_of_the_settings() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    async with Broker({"listeners": f"PLAINTEXT://127.0.0.1:{port}"}) as broker:
        assert broker.port == port


async def test_rules_of_a_file_are_in_force_from_the_start(tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("faults") / "faults.json"
    path.write_text('[{"api": "ApiVersions", "close": true}]')
    async with Broker({"pybroker.faults.file": str(path)}) as broker:
        reader, writer = await asyncio.open_connection(broker.host, broker.port)
        writer.write(bytes.fromhex("0000000a00120000000000070000"))
        assert await reader.read() == b""
        writer.close()


@pytest.mark.parametrize("text", ["[", "{}", '[{"api": "ApiVersions"}]', None])
async def test_a_file_of_faults_that_cannot_be_read_refuses_the_start(text: str | None, base: Path) -> None:
    path = base / "faults.json"
    if text is not None:
        path.write_text(text)
    with pytest.raises(StartError, match=r"pybroker\.faults\.file="):
        await Broker({"pybroker.faults.file": str(path)}).start()
