"""The parent of several brokers: the store that they get, how it shows that they are ready, and its exit code."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from pybroker.broker.ready_file import ReadyFile
from pybroker.broker.several import parent
from pybroker.config.load import load
from pybroker.metadata.store import open_store

BROKER = """
import asyncio, os, signal, sys
from pathlib import Path
from types import MappingProxyType
from pybroker.metadata.store import open_store

async def main(number, store, code):
    store, stop = open_store(store), asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    await store.commit(puts={f"brokers/{number}": b""})
    print(f"READY 127.0.0.1:{9091 + int(number)}", flush=True)
    if code == "stops the parent":
        while len((await store.list("brokers/")).entries) < 2:
            await asyncio.sleep(0.01)
        while not Path(sys.argv[4]).exists():
            await asyncio.sleep(0.01)
        Path(sys.argv[4] + ".seen").write_text(Path(sys.argv[4]).read_text())
        os.kill(os.getppid(), signal.SIGUSR1)
    await stop.wait()
    await store.close()
    return 0 if code == "stops the parent" else int(code)

sys.exit(asyncio.run(main(*sys.argv[1:4])))
"""


class Run:
    """A run of two brokers in a data directory, of which the first one stops the parent when both have registered."""

    def __init__(self, data_dir: Path, folder: Path, *, code: int = 0, settings: Mapping[str, str] | None = None) -> None:
        self.stores: set[str] = set()
        self.ready = folder / "ready"
        config = load(overrides={"log.dirs": str(data_dir), **(settings or {})}).config

        def command_of(number: int, store: str, _: int | None) -> Sequence[str]:
            self.stores.add(store)
            return [
                sys.executable,
                "-c",
                BROKER,
                str(number),
                store,
                "stops the parent" if number == 1 else str(code),
                str(self.ready),
            ]

        self.code = parent.run(config, 2, command_of, ReadyFile(self.ready), stop_signals=[signal.SIGUSR1])


def test_brokers_share_the_parents_store_and_are_announced_by_one_line(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    run = Run(tmp_path / "data", tmp_path)
    assert run.code == 0
    assert run.stores == {f"unix:{tmp_path / 'data' / 'metadata.socket'}"}
    assert capfd.readouterr().out == "READY 127.0.0.1:9092,127.0.0.1:9093\n"
    assert (tmp_path / "ready.reason").read_text() == "stopping\n"
    assert [one.name for one in (tmp_path / "data").iterdir() if "reserve" not in one.name] == ["metadata.sqlite"]


TLS = {"listeners": "SSL://127.0.0.1:9092", "security.inter.broker.protocol": "SSL"}


@pytest.mark.parametrize(
    ("settings", "seen"),
    [
        ({}, "127.0.0.1 9092\n"),
        (TLS, "127.0.0.1 9092 TLS\n"),
        (TLS | {"listener.name.ssl.ssl.client.auth": "required"}, "127.0.0.1 0\n"),
    ],
)
def test_the_ready_file_has_what_a_health_check_needs(tmp_path: Path, settings: dict[str, str], seen: str) -> None:
    run = Run(tmp_path / "data", tmp_path, settings=settings)
    assert (tmp_path / "ready.seen").read_text() == seen
    assert run.code == 0


def test_a_data_directory_with_a_long_name_has_its_socket_elsewhere(tmp_path: Path) -> None:
    run = Run(tmp_path / ("long" * 30), tmp_path)
    assert run.code == 0
    (store,) = run.stores
    assert len(os.fsencode(store)) <= parent.PATH_BYTES_MAX
    assert not Path(store.removeprefix("unix:")).parent.exists()


def test_a_broker_that_stops_with_an_error_is_seen_in_the_exit_code(tmp_path: Path) -> None:
    assert Run(tmp_path / "data", tmp_path, code=3).code == 1


def test_a_store_that_is_in_use_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pybroker.metadata.store.sqlite.LOCK_WAIT_S", 0.0)
    store = open_store(f"sqlite:{tmp_path / 'metadata.sqlite'}")
    with pytest.raises(parent.ParentError, match="in use by another process"):
        Run(tmp_path, tmp_path)
    asyncio.run(store.close())
