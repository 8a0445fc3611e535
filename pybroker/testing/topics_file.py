"""Topics in a file of JSON or YAML:

    orders:
      partitions: 3
      settings: {cleanup.policy: compact}
    payments:

A topic has one partition and the settings of the broker, unless the file gives it others.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from pybroker.faults.documents import document_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pybroker.admin.topics import Setting

FIELDS = {"partitions", "settings"}


class WantedTopic(NamedTuple):
    """A topic of the file."""

    name: str
    partitions: int
    settings: Mapping[str, Setting]


def topics_of_file(path: Path | str) -> list[WantedTopic]:
    """Return the topics of a file. Raises OSError, and ValueError, which names the file and what is wrong in it."""
    path = Path(path)
    content = document_of(path)
    if not isinstance(content, dict):
        raise ValueError(f"{path}: it must have topics by their names")  # noqa: TRY004  the file's fault, not a type's
    return [_topic(path, str(name), described or {}) for name, described in content.items()]


def _topic(path: Path, name: str, described: Any) -> WantedTopic:
    if not isinstance(described, dict) or (unknown := described.keys() - FIELDS):
        wrong = "" if not isinstance(described, dict) else f", not {', '.join(sorted(map(str, unknown)))}"
        raise ValueError(f"{path}: {name} must have only partitions and settings{wrong}")
    partitions, settings = described.get("partitions", 1), described.get("settings") or {}
    if type(partitions) is not int or partitions < 1 or not isinstance(settings, dict):
        raise ValueError(f"{path}: of {name}, partitions must be a number from 1 on, and settings must have values by names")
    return WantedTopic(name, partitions, settings)
