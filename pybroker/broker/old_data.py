"""Refuses data directories that hold data while the metadata store is new, and shows what to do about it.

A new store beside logs of an older one is most often a disk or a volume that is not mounted. If it started nevertheless, the
broker would have no topics, put every log aside, and assign offsets again that it has assigned before. So it does not start
before its administrator decides which it is: the store comes back, or `pybroker directories adopt` makes a new one out of what
the directories hold, or `pybroker directories set-aside` puts the logs aside.

The directories of an Apache Kafka are another matter: `directories adopt` would give its topics default settings, and retention
would then delete what Kafka kept. So for them the refusal names `pybroker adopt`, and `directories adopt` refuses them too.
"""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from pybroker.broker import ready_file
from pybroker.log.checkpoints import checkpoint
from pybroker.log.checkpoints.offset_checkpoint import COMPANION_SUFFIX
from pybroker.log.directories import strays
from pybroker.log.files.room import RESERVE_FILE
from pybroker.log.recovery import old_formats
from pybroker.metadata.entries import CLUSTER_ID_KEY, LEFT_PREFIX
from pybroker.model import FIRST_OFFSET

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pybroker.config.broker import BrokerConfig
    from pybroker.log.files.filesystem import Filesystem
    from pybroker.metadata.store.base import Store

SQLITE: Final = "sqlite:"
MEMORY: Final = "memory:"
METADATA_FILE: Final = "metadata.sqlite"
BROKER_PREFIX: Final = "broker_"
"""The name of the data directory of one of several brokers, without its number. A hyphen would make it a partition of a topic."""
CONTAINER_MARKS: Final = ("/.dockerenv", "/run/.containerenv")


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
        return refusal_of(path, found, filesystem) if found else None
    if config.metadata_store != MEMORY:
        return remote_refusal(config.metadata_store, found) if found else None
    with_logs = [] if config.metadata_memory_set_logs_aside else [one for one in found if one.logs]
    return memory_refusal(with_logs) if with_logs else None


async def was_given_back(store: Store) -> bool:
    """Return whether a Kafka has the directories of this store, which had a cluster before."""
    return await store.get(CLUSTER_ID_KEY) is None and await store.get(LEFT_PREFIX + CLUSTER_ID_KEY) is not None


async def why_not_by_names(store: Store, config: BrokerConfig, filesystem: Filesystem) -> str | None:
    """Return why the names in the directories must not become topics with default settings; None when they may."""
    if await store.get(CLUSTER_ID_KEY) is not None:
        return None  # and the commit refuses, because the store is not new
    if await was_given_back(store):
        return "Kafka's metadata has the topics, because 'pybroker leave' wrote it: use 'pybroker adopt'"
    sign = sign_of_kafka(config.log_dirs, filesystem)
    return None if sign is None else use_adopt(config.log_dirs, sign)


def sign_of_kafka(log_dirs: Sequence[str], filesystem: Filesystem) -> str | None:
    """Return by what the directories are an Apache Kafka's that this broker has not taken over; None if they are not.

    Of each data file the first batch is read, and only if nothing else decides. An unreadable directory is left out.
    """
    from pybroker.metadata.kraft.reading import METADATA_DIRECTORY, has_metadata  # noqa: PLC0415  no usual start needs it

    is_used_here = False
    for path in log_dirs:
        try:
            if has_metadata(filesystem, path):
                return f"Kafka's metadata lies in {path}/{METADATA_DIRECTORY}"
            names = [entry.name for entry in filesystem.list(path)]
        except OSError:
            continue
        is_used_here |= any(name == RESERVE_FILE or name.endswith(COMPANION_SUFFIX) for name in names)
    if not is_used_here:
        return "no file there is one that only pybroker writes"
    return next((reason for path in log_dirs if (reason := _old_format(path, filesystem)) is not None), None)


def _old_format(log_dir: str, filesystem: Filesystem) -> str | None:
    try:
        for entry in filesystem.list(log_dir):
            if entry.is_dir() and strays.partition_of(entry.name) is not None:
                old_formats.refuse_first(filesystem, entry.path, FIRST_OFFSET)
    except OSError:
        return None
    except old_formats.OldFormatError as error:
        return str(error).partition(", as Kafka")[0]
    return None


def use_adopt(log_dirs: Sequence[str], sign: str) -> str:
    """Return the line that sends an administrator to `pybroker adopt`, because of the `sign` of an Apache Kafka."""
    return (
        f"These are the directories of an Apache Kafka: {sign}. Stop Kafka and run 'pybroker adopt {shlex.join(log_dirs)}' (name "
        "the directory of Kafka's metadata too, if it is elsewhere): it takes over topics with their settings, and converts old "
        "formats; with --dry-run it changes nothing"
    )


def sqlite_path(config: BrokerConfig) -> str | None:
    """Return the file of the metadata store; None if it is in none."""
    url = config.metadata_store
    if not url.startswith(SQLITE):
        return None
    return url.removeprefix(SQLITE) or f"{config.log_dirs[0]}/{METADATA_FILE}"


def refusal_of(store: str, found: Sequence[OldData], filesystem: Filesystem) -> str:
    """Return why the broker does not start with the new `store` beside what was found, which may be an Apache Kafka's."""
    log_dirs = [one.path for one in found]
    if (of_several := _several_of(log_dirs[0])) is not None:
        return (
            f"{log_dirs[0]} is the data directory of one of several brokers, whose metadata is in {of_several}: start all "
            f"with 'pybroker start --brokers N --data-dir {of_several.parent}'"
        )
    sign = sign_of_kafka(log_dirs, filesystem)
    if sign is None:
        return refusal(store, found)
    return f"The metadata store {store} is new, but {_named(found)}. {use_adopt(log_dirs, sign)}"


def _several_of(log_dir: str) -> Path | None:
    """Return the metadata of the brokers of one machine, if a directory is that of one of them."""
    path = Path(log_dir)
    store = path.parent / METADATA_FILE
    is_one = path.name.startswith(BROKER_PREFIX) and path.name.removeprefix(BROKER_PREFIX).isdecimal()
    return store if is_one and store.exists() else None


def refusal(store: str, found: Sequence[OldData], environment: Mapping[str, str] = os.environ) -> str:
    """Return why the broker does not start with the new `store`, and what to do, in one line for a person."""
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
    return f"The metadata store {store} is new, but {_named(found)}. {remedy}."


def remote_refusal(store: str, found: Sequence[OldData]) -> str:
    """Return why the broker does not start with the new `store`, which other machines keep."""
    return (
        f"The metadata store {store} is new, but {_named(found)}. Set metadata.store to the store that has their topics, or "
        "log.dirs to empty directories."
    )


def memory_refusal(found: Sequence[OldData]) -> str:
    """Return why the broker does not start with metadata.store=memory: beside logs."""
    named = ", ".join(f"{one.path} has {_count(one.logs)}" for one in found)
    return (
        f"metadata.store=memory: has no topics at the start, but {named}. Set metadata.memory.set.logs.aside=true "
        "(KAFKA_METADATA_MEMORY_SET_LOGS_ASIDE=true for a container) to have them put aside at each start, or remove them."
    )


def is_in_container(environment: Mapping[str, str]) -> bool:
    """Return whether this process seems to run in a container. A variable KAFKA_... may also be set on a host that ran Kafka."""
    return (
        any(Path(mark).exists() for mark in CONTAINER_MARKS)
        or ready_file.VARIABLE in environment
        or "KUBERNETES_SERVICE_HOST" in environment
    )


def _named(found: Sequence[OldData]) -> str:
    return ", ".join(
        f"{one.path} has {_count(one.logs)}{f' of cluster {one.cluster_id}' if one.cluster_id is not None else ''}"
        for one in found
    )


def _count(logs: int) -> str:
    return "1 log" if logs == 1 else f"{logs} logs"
