"""Lists the log directories that a broker has used, and gives one up, for an administrator."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING

from pybroker.log.checkpoints import checkpoint
from pybroker.log.directories import strays
from pybroker.metadata.directories import read_directories, write_directories

if TYPE_CHECKING:
    from pybroker.config.broker import BrokerConfig
    from pybroker.log.directories.claims import KnownDirectory
    from pybroker.log.files.filesystem import Filesystem
    from pybroker.metadata.store.base import Store


class ForgetError(Exception):
    """The directory cannot be given up; the text gives the reason, for a person."""


async def described(store: Store, config: BrokerConfig, filesystem: Filesystem) -> list[tuple[str, str, str, str]]:
    """Return id, path, state and number of logs of each directory. Raises StoreError.

    present: the directory is at a path in log.dirs. missing: its path is in log.dirs and does not hold it. away: its path is not
    in log.dirs. forgotten: given up. new: in log.dirs, and not used yet.
    """
    present = _present(config, filesystem)
    rows = []
    known = await read_directories(store, config.node_id)
    for one in known:
        path = present.get(one.directory_id)
        if path is not None:
            rows.append((one.directory_id, path, "present", _log_count(filesystem, path)))
        elif one.is_forgotten:
            rows.append((one.directory_id, one.path, "forgotten", "-"))
        else:
            rows.append((one.directory_id, one.path, "missing" if one.path in _paths(config) else "away", "-"))
    shown = {path for _, path, *_ in rows}
    by_path = {path: directory_id for directory_id, path in present.items()}
    rows += [(by_path.get(path, "-"), path, "new", _log_count(filesystem, path)) for path in _paths(config) if path not in shown]
    return rows


async def forget(store: Store, config: BrokerConfig, filesystem: Filesystem, directory_id: str) -> KnownDirectory:
    """Give a directory up: its partitions are made again, empty, at the next start. Raises ForgetError, StoreError."""
    known = {one.directory_id: one for one in await read_directories(store, config.node_id)}
    path = _present(config, filesystem).get(directory_id)
    if path is not None:
        raise ForgetError(f"{directory_id} is not lost: it is {path}. To give it up nevertheless, remove it from log.dirs first")
    if directory_id not in known:
        names = ", ".join(f"{one.directory_id} ({one.path})" for one in known.values()) or "none"
        raise ForgetError(f"Directory {directory_id} is not known; the known directories are: {names}")
    known[directory_id] = dataclasses.replace(known[directory_id], is_forgotten=True, is_away=True)
    await write_directories(store, config.node_id, known.values())
    return known[directory_id]


def _paths(config: BrokerConfig) -> list[str]:
    return [str(Path(path.rstrip("/") or "/").absolute()) for path in config.log_dirs]


def _present(config: BrokerConfig, filesystem: Filesystem) -> dict[str, str]:
    """Return the ids of the directories that exist, with their paths."""
    found = {}
    for path in _paths(config):
        try:
            properties = checkpoint.read_meta_properties(filesystem, path)
        except (OSError, checkpoint.CorruptCheckpointError):
            continue  # a broken disk counts as missing
        if properties is not None:
            found[properties.directory_id] = path
    return found


def _log_count(filesystem: Filesystem, path: str) -> str:
    try:
        return str(sum(1 for entry in filesystem.list(path) if entry.is_dir() and strays.partition_of(entry.name) is not None))
    except OSError:
        return "-"
