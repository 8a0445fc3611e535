"""The files of a broker are its user's only, whatever the umask of its start is."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path

from integration.security.sasl import login, sasl_listener, write_by_confluent
from testing.process.broker import BrokerProcess


def test_files_are_0600_and_directories_0700_under_any_umask(start_broker: Callable[..., BrokerProcess]) -> None:
    before = os.umask(0)
    try:
        scram = {"pybroker.scram.users": "SCRAM-SHA-256=[name=admin,password=admin-secret]"}
        broker = start_broker({**sasl_listener("PLAIN,SCRAM-SHA-256"), **scram})
    finally:
        os.umask(before)
    write_by_confluent(broker.bootstrap, "records", login())
    modes = modes_of(broker.data_dir)
    broker.stop()
    modes |= modes_of(broker.data_dir)
    assert {"metadata.sqlite", "metadata.sqlite-wal", "records-0", "00000000000000000000.log"} <= {path.name for path in modes}
    assert {
        path: oct(mode) for path, mode in modes.items() if stat.S_IMODE(mode) != (0o700 if stat.S_ISDIR(mode) else 0o600)
    } == {}


def modes_of(folder: Path) -> dict[Path, int]:
    return {path: path.lstat().st_mode for path in (folder, *folder.rglob("*"))}
