"""The metrics page of a broker through its life: what probes see, and which series of topics it has."""

from __future__ import annotations

import asyncio
import os
import socket
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from pybroker.broker.broker_server import BrokerServer
from pybroker.broker.lifecycle import NO_ROOM, STARTING, STOPPING, Lifecycle
from pybroker.config.load import load
from pybroker.metadata.controller import Controller
from pybroker.metadata.new_topic import NewTopic
from pybroker.model import BrokerId
from testing.process.kafka_peer import free_port


def get(port: int, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=60) as response:
            return response.status, response.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


async def ask(port: int, path: str) -> tuple[int, str]:
    return await asyncio.to_thread(get, port, path)


def made(folder: Path, port: int, lifecycle: Lifecycle | None = None, more: Mapping[str, str] | None = None) -> BrokerServer:
    overrides = {
        "log.dirs": str(folder / "data"),
        "metrics.listener": f"127.0.0.1:{port}",
        "listeners": "PLAINTEXT://127.0.0.1:0",
    }
    overrides |= more or {}
    return BrokerServer(load(overrides=overrides).config, lifecycle=lifecycle)


class Probed(Lifecycle):
    """A lifecycle that probes the broker before its sockets open."""

    def __init__(self, port: int) -> None:
        super().__init__()
        self._port = port
        self.seen: list[tuple[int, str]] = []

    async def before_sockets(self, controller: Controller) -> str | None:
        self.seen = [await ask(self._port, path) for path in ("/livez", "/readyz", "/metrics")]
        return None


async def loaded() -> None:
    """Return at once, because there are no groups."""


async def test_probes_see_the_start_a_full_disk_and_the_stop(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    port = free_port()
    lifecycle = Probed(port)
    broker = made(tmp_path, port, lifecycle)
    bound = await broker.start()
    assert lifecycle.seen[:2] == [(200, "ok\n"), (503, f"{STARTING}\n")]
    assert lifecycle.seen[2][0] == 200
    await lifecycle.announce(BrokerId(1), bound, loaded)
    assert capsys.readouterr().out.startswith("READY ")
    assert await ask(port, "/readyz") == (200, "ok\n")
    lifecycle.room_changed(has_room=False)
    assert await ask(port, "/readyz") == (503, f"{NO_ROOM}\n")
    lifecycle.room_changed(has_room=True)
    assert await ask(port, "/readyz") == (200, "ok\n")
    lifecycle.stopping()
    assert await ask(port, "/readyz") == (503, f"{STOPPING}\n")
    assert await ask(port, "/livez") == (200, "ok\n")
    await broker.stop()
    with pytest.raises(urllib.error.URLError, match="refused"):
        await ask(port, "/livez")


async def test_a_taken_port_refuses_the_start_before_anything_is_opened(tmp_path: Path) -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as taken,
        pytest.raises(OSError, match=r"metrics\.listener=.*: cannot listen"),
    ):
        await made(tmp_path, taken.getsockname()[1]).start()
    assert os.listdir(tmp_path) == []  # noqa: PTH208


async def test_a_start_that_fails_closes_the_page(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = free_port()
        with pytest.raises(OSError, match="in use"):
            await made(tmp_path, port, more={"listeners": f"PLAINTEXT://127.0.0.1:{taken.getsockname()[1]}"}).start()
    with pytest.raises(urllib.error.URLError, match="refused"):
        await ask(port, "/livez")


@asynccontextmanager
async def page(folder: Path, **more: str) -> AsyncIterator[set[str]]:
    """Yield the series of topics, with their values, of a broker with a topic of two partitions and an internal one."""
    port = free_port()
    broker = made(folder, port, more={f"pybroker.metrics.{name}": value for name, value in more.items()})
    await broker.start()
    try:
        internal = NewTopic(name="__consumer_offsets", partition_count=1, configs={})
        await broker.controller.create_topics([NewTopic(name="a", partition_count=2, configs={}), internal])
        for name in ("a", "__consumer_offsets"):
            broker.metrics.topic(name).messages_in = 3
        status, text = await ask(port, "/metrics")
        assert status == 200
        lines = [line for line in text.splitlines() if line.startswith(("kafka_log_log_num", "kafka_log_log_logend"))]
        lines += [line for line in text.splitlines() if line.startswith("kafka_server_brokertopicmetrics_messagesin")]
        yield {line.replace("kafka_log_log_", "").replace("kafka_server_brokertopicmetrics_", "") for line in lines}
    finally:
        await broker.stop()


COUNTERS = {"messagesin_total 6.0", 'messagesin_total{topic="a"} 3.0'}


async def test_each_topic_and_partition_has_series(tmp_path: Path) -> None:
    async with page(tmp_path) as series:
        assert series == COUNTERS | {
            'messagesin_total{topic="__consumer_offsets"} 3.0',
            *(
                f'{name}{{partition="{partition}",topic="{topic}"}} {value}'
                for topic, partition in (("a", 0), ("a", 1), ("__consumer_offsets", 0))
                for name, value in (("numlogsegments", 1.0), ("logendoffset", 0.0))
            ),
        }


async def test_the_partitions_of_a_topic_may_be_summed(tmp_path: Path) -> None:
    async with page(tmp_path, **{"topics": "sum", "internal.topics": "false"}) as series:
        assert series == COUNTERS | {'numlogsegments{topic="a"} 2.0'}, "a sum of offsets means nothing"


async def test_topics_may_be_left_out(tmp_path: Path) -> None:
    async with page(tmp_path, topics="none") as series:
        assert series == {"messagesin_total 6.0", "numlogsegments 3.0"}


async def test_internal_topics_may_be_left_out(tmp_path: Path) -> None:
    async with page(tmp_path, **{"internal.topics": "false"}) as series:
        assert not [line for line in series if "__consumer_offsets" in line]
        assert series >= COUNTERS
