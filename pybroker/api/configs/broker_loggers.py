"""The broker's loggers as resources of settings: their levels can be read and changed while it runs, and are lost at its stop.

Kafka's names of levels are used. Python has no TRACE, which is DEBUG here; FATAL is CRITICAL.

Source: RuntimeLoggerManager, Log4jController; KIP-412.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Final

from pybroker.metadata.config_changes import Edit, Operation
from pybroker.protocol.error_codes import ErrorCode, KafkaError

ROOT: Final = "root"
_LEVELS: Final = {
    "TRACE": logging.DEBUG,
    "DEBUG": logging.DEBUG,
    "INFO": logging.INFO,
    "WARN": logging.WARNING,
    "ERROR": logging.ERROR,
    "FATAL": logging.CRITICAL,
}
_NAMES: Final = {level: name for name, level in _LEVELS.items()}


def levels() -> dict[str, str]:
    """Return the effective level of each logger, by its name."""
    names = [ROOT, *(name for name, one in logging.root.manager.loggerDict.items() if isinstance(one, logging.Logger))]
    return {name: _named(_logger(name).getEffectiveLevel()) for name in sorted(names)}


def change_levels(edits: Sequence[Edit], *, validate_only: bool) -> None:
    """Set levels, or let loggers inherit theirs again. All or nothing.

    Raises KafkaError: INVALID_CONFIG for an unknown logger or level, INVALID_REQUEST for an operation that levels do not support.
    """
    known = levels()
    for name, operation, text in edits:
        if operation not in (Operation.SET, Operation.DELETE):
            raise KafkaError(
                ErrorCode.INVALID_REQUEST, f"{operation.name} operation is not allowed for the BROKER_LOGGER resource"
            )
        if name not in known:
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"Logger {name} does not exist!")
        if operation is Operation.DELETE and name == ROOT:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "Removing the log level of the root logger is not allowed")
        if operation is Operation.SET and text not in _LEVELS:
            raise KafkaError(
                ErrorCode.INVALID_CONFIG,
                f"Cannot set the log level of {name} to {text} as it is not a supported log level. "
                f"Valid log levels are {', '.join(sorted(_LEVELS))}",
            )
    if not validate_only:
        for name, operation, text in edits:
            _logger(name).setLevel(_LEVELS[text] if operation is Operation.SET else logging.NOTSET)


def _logger(name: str) -> logging.Logger:
    return logging.getLogger(None if name == ROOT else name)


def _named(level: int) -> str:
    """Return the name of the nearest level that is not more verbose."""
    return next((_NAMES[known] for known in sorted(_NAMES) if known >= level), "FATAL")
