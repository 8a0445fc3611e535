"""Refuses data directories that hold data while the metadata store is new, and says what to do about it.

A new store beside logs of an older one is most often a disk or a volume that is not mounted. If it started nevertheless, the
broker would have no topics, put every log aside, and assign offsets again that it has assigned before. So it does not start
before its administrator decides which it is: the store comes back, or `pybroker directories adopt` makes a new one out of what
the directories hold, or `pybroker directories set-aside` puts the logs aside.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from pybroker.log import checkpoint, strays
from pybroker.metadata.entries import CLUSTER_ID_KEY, LEFT_PREFIX

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pybroker.config.broker import BrokerConfig
    from pybroker.log.filesystem import Filesystem
    from pybroker.metadata.store.base import Store

SQLITE: Final = "sqlite:"
METADATA_FILE: Final = "metadata.sqlite"


class OldData(NamedTuple):
    """The content of one log directory. `cluster_id` is that of its meta.properties, or None."""

    path: str
    cluster_id: str | None
    logs: int


def old_data(log_dirs: Sequence[str], filesystem: Filesystem) -> list[OldData]:
    """Return the directories that have a meta.properties or logs. An unreadable directory is left out."""
    found = []
    for path in log_dirs:
        try:
            if not filesystem.exists(path):
                continue
            entries = filesystem.list(path)
            logs = sum(1 for entry in entries if entry.is_dir() and strays.partition_of(entry.name) is not None)
            has_owner = any(entry.name == checkpoint.META_PROPERTIES_FILE for entry in entries)
            properties = checkpoint.read_meta_properties(filesystem, path) if has_owner else None
        except OSError:
            continue
        except checkpoint.CorruptCheckpointError:
            properties = None
        if logs or has_owner:
            found.append(OldData(path, None if properties is None else properties.cluster_id, logs))
    return found


async def why_not_start(store: Store, config: BrokerConfig, filesystem: Filesystem) -> str | None:
    """Return why a broker with this store must not start, in one line for a person; None when it may."""
    if await store.get(CLUSTER_ID_KEY) is not None:
        return None
    if await was_given_back(store):
        return (
            f"'pybroker leave' gave {', '.join(config.log_dirs)} to a Kafka: run 'pybroker adopt' with them to have them "
            "back, and stop Kafka first"
        )
    found = old_data(config.log_dirs, filesystem)
    path = sqlite_path(config)
    if path is not None:
        return refusal(path, found) if found else None
    with_logs = [] if config.metadata_memory_set_logs_aside else [one for one in found if one.logs]
    return memory_refusal(with_logs) if with_logs else None


async def was_given_back(store: Store) -> bool:
    """Return whether a Kafka has the directories of this store, which had a cluster before."""
    return await store.get(CLUSTER_ID_KEY) is None and await store.get(LEFT_PREFIX + CLUSTER_ID_KEY) is not None


def sqlite_path(config: BrokerConfig) -> str | None:
    """Return where the metadata store lies; None for one in memory."""
    url = config.metadata_store
    if not url.startswith(SQLITE):
        return None
    return url.removeprefix(SQLITE) or f"{config.log_dirs[0]}/{METADATA_FILE}"


def refusal(store: str, found: Sequence[OldData], environment: Mapping[str, str] = os.environ) -> str:
    """Return why the broker does not start with the new `store`, and what to do, in one line for a person."""
    named = ", ".join(
        f"{one.path} has {_count(one.logs)}{f' of cluster {one.cluster_id}' if one.cluster_id is not None else ''}"
        for one in found
    )
    if is_in_container(environment):
        remedy = (
            f"Mount the volume that had it (this container expects it at {Path(store).parent}); if it is lost for good, run "
            "'pybroker directories adopt' once with the same volumes and variables, which makes the topics again out of the "
            "logs, or 'pybroker directories set-aside', which puts the logs aside"
        )
    else:
        remedy = (
            "Is a disk not mounted? If the store is lost for good, run 'pybroker directories adopt' with the same options, which "
            "makes the topics again out of the logs, or 'pybroker directories set-aside', which puts the logs aside"
        )
    return f"The metadata store {store} is new, but {named}. {remedy}."


def memory_refusal(found: Sequence[OldData]) -> str:
    """Return why the broker does not start with metadata.store=memory: beside logs."""
    named = ", ".join(f"{one.path} has {_count(one.logs)}" for one in found)
    return (
        f"metadata.store=memory: has no topics at the start, but {named}. Set metadata.memory.set.logs.aside=true "
        "(KAFKA_METADATA_MEMORY_SET_LOGS_ASIDE=true for a container) to have them put aside at each start, or remove them."
    )


def is_in_container(environment: Mapping[str, str]) -> bool:
    """Return whether this process seems to run in a container."""
    return (
        Path("/.dockerenv").exists()
        or Path("/run/.containerenv").exists()
        or any(name.startswith("KAFKA_") for name in environment)
    )


def _count(logs: int) -> str:
    return "1 log" if logs == 1 else f"{logs} logs"
