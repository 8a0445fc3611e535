"""The files that an image's health check reads.

The ready file exists while the broker is ready, and holds `HOST PORT` of a listener, or `HOST PORT TLS` of one with TLS. While it
does not exist, a second file beside it shows in one line why the broker is not ready.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

logger = logging.getLogger(__name__)

VARIABLE: Final = "PYBROKER_READY_FILE"
REASON_SUFFIX: Final = ".reason"
"""The end of the second file's name, which the ready file's does not have."""


class ReadyFile:
    """The ready file at a path. A failure to write it is a warning: the broker works, and only the health check does not know."""

    def __init__(self, path: Path) -> None:
        """Name the file. Nothing is read or written yet."""
        self._path = path
        self._reason = path.with_name(path.name + REASON_SUFFIX)

    def write(self, host: str, port: int, *, has_tls: bool = False, asks_certificate: bool = False) -> None:
        """Write the file: the broker is ready. The port is 0 where a health check, which has no certificate, could not ask."""
        if asks_certificate:
            port, has_tls = 0, False
        fresh = self._path.with_name(f"{self._path.name}.new")
        try:
            fresh.write_text(f"{host} {port}{' TLS' if has_tls else ''}\n")
            fresh.replace(self._path)
            self._reason.unlink(missing_ok=True)
        except OSError as error:
            self._complain("written", error)

    def forget(self, reason: str) -> None:
        """Remove the file, also one of an earlier run, which a restarted container still has, and show why in the second file."""
        try:
            self._path.unlink(missing_ok=True)
        except OSError as error:
            self._complain("removed", error)
        try:
            self._reason.write_text(f"{reason}\n")
        except OSError as error:  # the ready file has a warning of its own as soon as it cannot be written either
            logger.debug("%s cannot be written (%s)", self._reason, error.strerror)

    def _complain(self, what: str, error: OSError) -> None:
        logger.warning(
            "%s=%s cannot be %s (%s); the health check does not know whether the broker is ready",
            VARIABLE,
            self._path,
            what,
            error.strerror,
        )
