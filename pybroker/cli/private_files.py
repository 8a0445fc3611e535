"""The modes of the files of a broker: what is made is its user's only, and files with secrets that others can read are named."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pybroker.config.load import Loaded

_OTHERS: Final = 0o077


def keep_private() -> None:
    """Let this process, and those that it starts, make files of mode 0600 and directories of 0700, or less by the umask.

    Apache Kafka follows the umask. A default ACL of a directory gives others rights here, too: it replaces the umask.
    """
    os.umask(os.umask(_OTHERS) | _OTHERS)


def warning(loaded: Loaded) -> str | None:
    """Return a line about the files with secrets that every user of the machine can read; None if there is none."""
    from pybroker.broker.old_data import sqlite_path

    config = loaded.config
    paths = [*loaded.secret_origins, *_key_stores(loaded), sqlite_path(config)]
    exposed = [path for path in dict.fromkeys(paths) if path and _is_for_everyone(Path(path).absolute())]
    if not exposed:
        return None
    names = " ".join(exposed)
    return f"every user of this machine can read the secrets in {names}; to keep the others out: chmod o= {names}"


def _key_stores(loaded: Loaded) -> Iterable[str | None]:
    yield loaded.config.ssl_keystore_location
    for name, text in loaded.config.unread.items():
        if name.endswith(".ssl.keystore.location"):
            yield text


def _is_for_everyone(path: Path) -> bool:
    try:
        return bool(path.stat().st_mode & stat.S_IROTH) and all(one.stat().st_mode & stat.S_IXOTH for one in path.parents)
    except (OSError, ValueError):
        return False
