"""Finds the properties file of a container: one that is mounted, or the one that its command names.

Commands of compose files often name the properties file that another image of Kafka ships. Here such a file exists only when a
user mounts it; without it the defaults and the variables apply, as they would in that image.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from pybroker.config.load import ConfigFileError

HOME: Final = "/opt/kafka"
"""Kafka's folder, against which commands with a relative path are written."""

FILES: Final = (
    "/mnt/shared/config/server.properties",  # apache/kafka
    "/opt/kafka/config/server.properties",
    "/opt/kafka/config/kraft/server.properties",
    "/etc/kafka/server.properties",  # confluentinc
    "/etc/kafka/kafka.properties",
    "/bitnami/kafka/config/server.properties",
    "/opt/bitnami/kafka/config/server.properties",
)
"""Where other images look for a file that is mounted; only the first that exists is read."""

SHIPPED: Final = frozenset(
    {
        *FILES[1:],
        "/opt/kafka/config/kraft/reconfig-server.properties",
        "/etc/kafka/docker/server.properties",
        "/etc/kafka/kraft/server.properties",
        "/opt/bitnami/kafka/config/kraft/server.properties",
    }
)
"""The files for one broker that images of Kafka ship themselves."""


def find_file(named: Path | None, root: str = "/") -> tuple[Path | None, list[str]]:
    """Return the properties file to read, if any, and remarks for the user. `named` is the file in the container's command.

    `root` is where other images' files would lie. Raises ConfigFileError for a named file that does not exist, unless an image of
    Kafka ships it.
    """
    remarks = []
    if named is not None:
        found = next((path for path in _places(named, root) if path.exists()), None)
        if found is not None:
            return found, []
        if not any(os.path.normpath(f"/{path.relative_to(root)}") in SHIPPED for path in _places(named, root)):
            raise ConfigFileError(
                f"cannot read {named}: no such file in this container; mount it there, "
                "or leave the file out of the command and set its properties with variables"
            )
        remarks.append(f"{named} is a file of Kafka's images that is not here; the defaults and the variables apply")
    found = next((path for path in (_below(root, name) for name in FILES) if path.is_file()), None)
    if found is not None:
        remarks.append(f"Properties are read from {found}")
    return found, remarks


def _places(named: Path, root: str) -> list[Path]:
    """Return where a file may be that a command names: Kafka's images work in Kafka's folder."""
    if named.is_absolute():
        return [_below(root, str(named))]
    return [_below(root, str(folder / named)) for folder in (Path.cwd(), Path(HOME))]


def _below(root: str, path: str) -> Path:
    return Path(root, os.path.normpath(path).lstrip("/"))
