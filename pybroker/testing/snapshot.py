"""A copy of all files of a broker, as they are at one moment; the broker that starts with it recovers, as after a crash."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path


class Snapshot:
    """A copy within the directory of a broker, which goes with that. Made while the broker does nothing."""

    def __init__(self, directory: Path) -> None:
        self._data = directory / "data"
        self._copy = Path(tempfile.mkdtemp(prefix="snapshot-", dir=directory))
        shutil.copytree(self._data, self._copy, dirs_exist_ok=True)

    def put_back(self) -> None:
        """Put the copy in the place of the files, while the broker does not run. The copy stays, for further times."""
        shutil.rmtree(self._data)
        shutil.copytree(self._copy, self._data)
