"""Sets up the logs: one line per event on stderr, as key=value or JSON, with a level per module.

    time=2026-01-31T12:00:00.123Z level=info module=pybroker.network.server msg="Listening" port=9092

`logger.info("Listening", extra={"port": port})` writes the line above: each attribute of a record that is not one of logging's
own becomes a field. stdout is left to the line that shows that the broker is ready.

A file can set what the options set: `format=text|json`, `level=LEVEL`, and `MODULE=LEVEL` for a module and all below it.
"""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Iterable, Mapping
from typing import Final

from pybroker.config.setting import ConfigError

FORMATS: Final = ("text", "json")
LEVELS: Final = {
    "TRACE": logging.DEBUG,  # Kafka's names
    "DEBUG": logging.DEBUG,
    "INFO": logging.INFO,
    "WARN": logging.WARNING,
    "WARNING": logging.WARNING,
    "ERROR": logging.ERROR,
    "FATAL": logging.CRITICAL,
    "CRITICAL": logging.CRITICAL,
    "OFF": logging.CRITICAL + 1,
}
_OWN: Final = frozenset({*vars(logging.makeLogRecord({})), "message", "asctime", "taskName"})


def parse_levels(options: Iterable[str]) -> dict[str, int]:
    """Parse `LEVEL` or `MODULE=LEVEL` into levels by logger name, "" for all. Raises ConfigError for an unknown level."""
    levels: dict[str, int] = {}
    for option in options:
        module, separator, name = option.rpartition("=")
        level = LEVELS.get(name.strip().upper())
        if level is None or (separator and not module.strip()):
            raise ConfigError("log-level", option, f"must be LEVEL or MODULE=LEVEL with one of {', '.join(LEVELS)}")
        levels[module.strip()] = level
    return levels


def set_up_logging(settings: Mapping[str, str], level_options: Iterable[str], format_option: str | None) -> None:
    """Send the logs of the process to stderr. `settings` are a file's; the options win. Raises ConfigError."""
    named = {name: text for name, text in settings.items() if name not in ("format", "level")}
    levels = parse_levels([settings.get("level", "INFO"), *(f"{name}={text}" for name, text in named.items()), *level_options])
    style = format_option or settings.get("format", "text")
    if style not in FORMATS:
        raise ConfigError("format", style, f"must be one of {', '.join(FORMATS)}")
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if style == "json" else TextFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    for name, level in levels.items():
        logging.getLogger(name).setLevel(level)


class _FieldsFormatter(logging.Formatter):
    """Turns a record into named fields."""

    def fields(self, record: logging.LogRecord) -> dict[str, object]:
        """Return the fields in the order of the line; time in UTC."""
        seconds = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        named: dict[str, object] = {
            "time": f"{seconds}.{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "module": record.name,
            "msg": record.getMessage(),
        }
        named.update((name, value) for name, value in vars(record).items() if name not in _OWN)
        return named


class TextFormatter(_FieldsFormatter):
    """key=value, quoted where a value has blanks or quotes or is empty; a traceback follows on lines of its own."""

    def format(self, record: logging.LogRecord) -> str:
        """Return one line, and the traceback of an error."""
        line = " ".join(f"{name}={_quoted(str(value))}" for name, value in self.fields(record).items())
        return line if record.exc_info is None else f"{line}\n{self.formatException(record.exc_info)}"


class JsonFormatter(_FieldsFormatter):
    """One JSON object per line; a traceback is its field "error"."""

    def format(self, record: logging.LogRecord) -> str:
        """Return one line."""
        import json

        fields = self.fields(record)
        if record.exc_info is not None:
            fields["error"] = self.formatException(record.exc_info)
        return json.dumps(fields, default=str)


def _quoted(text: str) -> str:
    if text and text.isprintable() and not any(c in ' "=' for c in text):
        return text
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\r", "\\r")
    return f'"{escaped}"'
