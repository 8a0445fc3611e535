"""The folder of an export: a manifest, and a file for each partition under the name that Kafka's own directories have.

    export.json                                   what there is; written last, so that an export without it is not complete
    orders-0/00000000000000000007.jsonl           a record on each line, or
    orders-0/00000000000000000007.log             batches as they lie in a log, which `pybroker log dump` reads

The name of a file is the offset at which it begins.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Final

from pybroker.terminal.session import FailedError

if TYPE_CHECKING:
    from pathlib import Path

    from pybroker.tools.groups_admin import Partition

MANIFEST: Final = "export.json"
FORMATS: Final = {"jsonl": ".jsonl", "batches": ".log"}


@dataclass(slots=True)
class Manifest:
    """The content of an export. `configs` are the topic's own settings; `groups` are committed offsets."""

    form: str
    cluster: str
    topics: dict[str, dict[str, Any]] = field(default_factory=dict)
    groups: list[dict[str, Any]] = field(default_factory=list)
    records: int = 0
    version: int = 1

    def write(self, folder: Path) -> None:
        """Write the manifest, whole or not at all."""
        new = folder / f".{MANIFEST}.new"
        new.write_text(json.dumps(asdict(self), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        new.replace(folder / MANIFEST)

    @classmethod
    def read(cls, folder: Path) -> Manifest:
        """Read the manifest of a folder. Raises FailedError."""
        try:
            return cls(**json.loads((folder / MANIFEST).read_text(encoding="utf-8")))
        except OSError as error:
            raise FailedError(f"{folder} is not the folder of a complete export: {MANIFEST}: {error.strerror}") from error
        except (ValueError, TypeError) as error:
            raise FailedError(f"{folder / MANIFEST}: {error}") from error


def file_of(folder: Path, partition: Partition, begin: int, form: str) -> Path:
    """Return the file of a partition."""
    return folder / f"{partition.topic}-{partition.number}" / f"{begin:020d}{FORMATS[form]}"


def files_of(folder: Path, partition: Partition, form: str) -> list[Path]:
    """Return the files of a partition that are there, in the order of offsets."""
    return sorted((folder / f"{partition.topic}-{partition.number}").glob(f"*{FORMATS[form]}"))
