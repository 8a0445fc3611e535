"""What ends a command early."""

from __future__ import annotations

FAILED = 1
NOT_SUPPORTED = 2


class CommandError(Exception):
    """One line for stderr, and the exit code: 1 as Kafka's tools have it, 2 for what these commands do not do."""

    def __init__(self, message: str, code: int = FAILED) -> None:
        super().__init__(message)
        self.code = code


class UnreachableError(Exception):
    """No broker is reached, or it does not answer in time."""


def not_supported(what: str, why: str = "") -> CommandError:
    """A CommandError for something that Kafka's tools do and these do not."""
    return CommandError(f"{what} is not supported{f': {why}' if why else ''}", NOT_SUPPORTED)
