"""Lists the log directories that a broker has used, and gives one up, for an administrator."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING

from pybroker.listed import listed
from pybroker.log.checkpoints import checkpoint
from pybroker.log.directories import strays
from pybroker.metadata.directories import read_directories, write_directories
from pybroker.metadata.entries import apply_changes
from pybroker.metadata.image import empty_image
from pybroker.metadata.store.base import Change

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
    """Give a directory up: its partitions are made again at the next start, empty, or copied from other brokers.

    A broker that is live, and one that alone has been in sync for a partition of which others have replicas, gives up none. It
    would come back with an empty log, lead, and have the others drop what they have. Raises ForgetError, StoreError.
    """
    known = {one.directory_id: one for one in await read_directories(store, config.node_id)}
    path = _present(config, filesystem).get(directory_id)
    if path is not None:
        raise ForgetError(f"{directory_id} is not lost: it is {path}. To give it up nevertheless, remove it from log.dirs first")
    if directory_id not in known:
        names = ", ".join(f"{one.directory_id} ({one.path})" for one in known.values()) or "none"
        raise ForgetError(f"Directory {directory_id} is not known; the known directories are: {names}")
    await _refuse_harm(store, config, filesystem)
    known[directory_id] = dataclasses.replace(known[directory_id], is_forgotten=True, is_away=True)
    await write_directories(store, config.node_id, known.values())
    return known[directory_id]


async def _refuse_harm(store: Store, config: BrokerConfig, filesystem: Filesystem) -> None:
    """Raise ForgetError if the broker is live, or if its lost logs would lead although others have more."""
    entries, revision = await store.list()
    image, _ = apply_changes(empty_image(config.node_id), [Change(*entry) for entry in entries], revision)
    if config.node_id in image.members.sessions:
        raise ForgetError(f"Broker {config.node_id} is live: stop it first, or wait until its session has ended")
    here = {name for path in _paths(config) for name in _log_names(filesystem, path)}
    alone = [
        f"{topic.name}-{number}"
        for topic in image.topics.values()
        for number, partition in enumerate(topic.partitions)
        if len(partition.replicas) > 1
        and {*partition.isr, *partition.elr} == {config.node_id}
        and f"{topic.name}-{number}" not in here
    ]
    if alone:
        raise ForgetError(
            f"Broker {config.node_id} has the only replica in sync of {len(alone)} partitions ({listed(alone)}), and others have "
            "older ones. To keep what these have, let one of them lead first, by an unclean election: set "
            "unclean.leader.election.enable=true for the topic until it has a leader, or use kafka-leader-election"
        )


def _log_names(filesystem: Filesystem, path: str) -> list[str]:
    try:
        return [entry.name for entry in filesystem.list(path) if entry.is_dir()]
    except OSError:
        return []


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
