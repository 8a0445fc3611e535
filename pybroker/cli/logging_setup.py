"""Sets up the logs: one line per event on stderr, as key=value or JSON, with a level per module.

    time=2026-01-31T12:00:00.123Z level=info module=pybroker.network.server msg="Listening" port=9092

`logger.info("Listening", extra={"port": port})` writes the line above: each attribute of a record that is not one of logging's
own becomes a field. stdout is left to the line that shows that the broker is ready.

Clients choose many of the texts in a line: ids, names, reasons. All texts enter the log through `escaped`, which replaces what is
not printable by escapes (control characters, line ends, marks of direction), and cuts what is too long.

A file can set what the options set: `format=text|json`, `level=LEVEL`, and `MODULE=LEVEL` for a module and all below it.
"""

from __future__ import annotations

import codecs
import logging
import sys
import time
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final

from pybroker.broker.standard_streams import StandardError
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
NO_FIELDS: Final[Mapping[str, str]] = MappingProxyType({})
TEXT_MAX: Final = 200
"""The characters of a client's text in a line that would be too long otherwise."""

FIELD_MAX: Final = 3_800
"""The characters of a field, such as the message: with the other fields, a line has about 4 kB."""

codecs.lookup("utf-16-be")  # imports it now: later, in `escaped`, there may be no descriptor left to open the module's file
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


def set_up_logging(
    settings: Mapping[str, str], level_options: Iterable[str], format_option: str | None, fields: Mapping[str, str] = NO_FIELDS
) -> None:
    """Send the logs of the process to stderr. `settings` are a file's; the options win. Each line has `fields` behind its level.

    Raises ConfigError.
    """
    named = {name: text for name, text in settings.items() if name not in ("format", "level")}
    levels = parse_levels([settings.get("level", "INFO"), *(f"{name}={text}" for name, text in named.items()), *level_options])
    style = format_option or settings.get("format", "text")
    if style not in FORMATS:
        raise ConfigError("format", style, f"must be one of {', '.join(FORMATS)}")
    handler = _handler()
    handler.setFormatter((JsonFormatter if style == "json" else TextFormatter)(fields))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    for name, level in levels.items():
        logging.getLogger(name).setLevel(level)


def _handler() -> logging.Handler:
    try:
        return StandardError(sys.stderr.fileno())
    except AttributeError:  # the caller closed it
        return logging.NullHandler()
    except OSError:  # a replacement in a test
        return logging.StreamHandler(sys.stderr)


class _FieldsFormatter(logging.Formatter):
    """Turns a record into named fields, of which `constant` are the same in each line."""

    def __init__(self, constant: Mapping[str, str] = NO_FIELDS) -> None:
        super().__init__()
        self._constant = constant

    def fields(self, record: logging.LogRecord) -> dict[str, object]:
        """Return the fields in the order of the line; time in UTC."""
        seconds = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        named: dict[str, object] = {
            "time": f"{seconds}.{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            **self._constant,
            "module": record.name,
            "msg": _message(record),
        }
        named.update((name, value) for name, value in vars(record).items() if name not in _OWN)
        return named

    def traceback(self, record: logging.LogRecord) -> list[str]:
        """Return the lines of the traceback of an error, if there is one."""
        return self.formatException(record.exc_info).split("\n") if record.exc_info else []


class TextFormatter(_FieldsFormatter):
    """key=value, quoted where a value has blanks or quotes or is empty; a traceback follows, indented, on lines of its own."""

    def format(self, record: logging.LogRecord) -> str:
        """Return one line, and the traceback of an error."""
        line = " ".join(f"{name}={_bare_or_quoted(str(value))}" for name, value in self.fields(record).items())
        return "\n  ".join((line, *(escaped(text, is_quoted=False) for text in self.traceback(record))))


class JsonFormatter(_FieldsFormatter):
    """One JSON object per line; a traceback is its field "error"."""

    def format(self, record: logging.LogRecord) -> str:
        """Return one line."""
        values = {name: _json(value) for name, value in self.fields(record).items()}
        if record.exc_info:
            values["error"] = '"' + "\\n".join(map(escaped, self.traceback(record))) + '"'
        return "{" + ", ".join(f'"{name}": {value}' for name, value in values.items()) + "}"


def _message(record: logging.LogRecord) -> str:
    """Return the message. If it is too long, each of its texts is cut first, so that the end of the message is still there."""
    message = record.getMessage()
    if len(message) > FIELD_MAX and isinstance(record.args, tuple) and len(record.args) > 1:
        return str(record.msg) % tuple(arg if isinstance(arg, int | float) else _cut(str(arg)) for arg in record.args)
    return message


def _cut(text: str) -> str:
    return text if len(text) <= TEXT_MAX else f"{text[:TEXT_MAX]}... ({len(text)} characters)"


def escaped(text: str, *, is_quoted: bool = True) -> str:
    """Return the text with JSON's escapes for what is not printable, cut after `FIELD_MAX` characters of the result.

    A text that will be in quotes gets escapes for quotes and backslashes too.
    """
    if text.isprintable() and len(text) <= FIELD_MAX // 2:
        return text.replace("\\", "\\\\").replace('"', '\\"') if is_quoted else text
    shown, room = [], FIELD_MAX
    for character in text:
        if character.isprintable():
            shown.append(f"\\{character}" if is_quoted and character in '"\\' else character)
        else:
            units = character.encode("utf-16-be", "surrogatepass").hex()
            shown.append("\\n" if character == "\n" else "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4)))
        room -= len(shown[-1])
        if room < 0:
            return f"{''.join(shown[:-1])}... ({len(text)} characters)"
    return "".join(shown)


def _bare_or_quoted(text: str) -> str:
    shown = escaped(text)
    return shown if text and text.isprintable() and not any(c in ' "=\\' for c in text) and " " not in shown else f'"{shown}"'


def _json(value: object) -> str:
    return str(value).lower() if isinstance(value, int | float) else f'"{escaped(str(value))}"'
