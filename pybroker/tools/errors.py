"""The exceptions that end a command early."""

from __future__ import annotations

FAILED = 1
NOT_SUPPORTED = 2


class CommandError(Exception):
    """One line for stderr, and the exit code: 1 as in Kafka's tools, 2 for requests that these commands do not support."""

    def __init__(self, message: str, code: int = FAILED) -> None:
        super().__init__(message)
        self.code = code


def not_supported(what: str, why: str = "") -> CommandError:
    """Return a CommandError for something that Kafka's tools do and these commands do not."""
    return CommandError(f"{what} is not supported{f': {why}' if why else ''}", NOT_SUPPORTED)
