"""Decides where a container's data lie, and explains in one line why they cannot lie there.

A volume belongs to the user that made it. A broker that runs as another user could only report "permission denied"; here the line
names both users and the path, and what to do.
"""

from __future__ import annotations

import errno
import os
import re
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

DATA_DIRECTORY: Final = "/var/lib/kafka/data"

_OTHER_IMAGES: Final = (  # where they keep data when nothing is configured, by where a volume is mounted
    ("/bitnami/kafka", "/bitnami/kafka/data"),
    ("/bitnami/kafka/data", "/bitnami/kafka/data"),
    ("/bitnami", "/bitnami/kafka/data"),
    ("/tmp/kraft-combined-logs", "/tmp/kraft-combined-logs"),  # noqa: S108  as apache/kafka has it
    ("/tmp/kafka-logs", "/tmp/kafka-logs"),  # noqa: S108
    ("/kafka", "/kafka/kafka-logs"),
)
_OPENED: Final = re.compile(
    r".+-\d+(\.[0-9a-f]{32}-.+)?|.+-checkpoint.*|meta\.properties.*|metadata\..*|\.lock|\.kafka_cleanshutdown.*|\.pybroker_boot.*"
)
"""Names of what a broker opens in a log directory; other files there, such as `.gitkeep`, do not concern it."""


def default_directory(is_mount: Callable[[str], bool] = os.path.ismount) -> str:
    """Return where the data lie when nothing is configured: the volume that a file for another image mounts, else the image's
    own.
    """
    return next((directory for mount, directory in _OTHER_IMAGES if is_mount(mount)), DATA_DIRECTORY)


def make_usable(directories: Iterable[str], is_mount: Callable[[str], bool] = os.path.ismount) -> str | None:
    """Make missing directories. Returns why a directory cannot be used, None when all can."""
    for directory in directories:
        path = Path(directory)
        try:
            path.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=path):
                pass
            for entry in sorted(path.iterdir()):
                if _OPENED.fullmatch(entry.name) and not os.access(entry, os.R_OK | os.W_OK):
                    return _explanation(directory, entry, PermissionError(errno.EACCES, os.strerror(errno.EACCES)), is_mount)
        except OSError as error:
            return _explanation(directory, path, error, is_mount)
    return None


def _explanation(directory: str, path: Path, error: OSError, is_mount: Callable[[str], bool]) -> str:
    """Return one line about `path`, a part of the log directory, or above it when that does not exist."""
    uid = os.getuid()
    line = f"log.dirs={directory}: uid {uid} cannot write to {path}: {error.strerror or error}"
    if error.errno == errno.EROFS:
        return f"{line}; mount a volume there"
    if error.errno not in (errno.EACCES, errno.EPERM):
        return line
    while not os.path.lexists(path):
        path = path.parent
    if not _is_in_volume(path, is_mount):
        return (
            f"{line}; {path} belongs to the image: use a directory in {DATA_DIRECTORY}, which is a volume, "
            f"or mount a volume at {directory} that uid {uid} can write to"
        )
    owner = path.stat()
    return (
        f"{line}; {path} belongs to uid {owner.st_uid} (mode {owner.st_mode & 0o7777:03o}):"
        f' give it to the container\'s user (chown -R {uid}), or run the container with user: "{owner.st_uid}"'
    )


def _is_in_volume(path: Path, is_mount: Callable[[str], bool]) -> bool:
    """Return whether the path is outside of the image's own files, whose owners must not be changed."""
    return any(is_mount(str(part)) for part in (path, *path.parents) if part != part.parent)
