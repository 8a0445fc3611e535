"""Records as lines: values, keys with values, or objects of JSON, in both directions.

A field that is not UTF-8 has `_base64` behind its name:

    {"topic": "orders", "partition": 0, "offset": 7, "timestamp_ms": 1795248000000, "key": "a", "value_base64": "/w==",
     "headers": [{"name": "source", "value": "shop"}]}
"""

from __future__ import annotations

import base64
import binascii
import json
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from pybroker.listed import did_you_mean
from pybroker.terminal.numbers import TIME_MS_MAX, moment_ms
from pybroker.terminal.session import FailedError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pybroker.records.batch import Record
    from pybroker.tools.groups_admin import Partition

NO_TIMESTAMP: Final = -1
"""The timestamp of messages of magic 0, which have none."""
BASE64: Final = "_base64"
FIELDS: Final = (
    "topic", "partition", "offset", "timestamp_ms", "timestamp", "key", "key_base64", "value", "value_base64", "headers",
    "size_bytes",
)  # fmt: skip
"""The fields of a record in JSON: those that `as_json` writes; `timestamp`, which may be a text such as 10m (ago); `size_bytes`,
which the page writes, and which has no effect.
"""
HEADER_FIELDS: Final = ("name", "value", "value_base64")
Headers = tuple[tuple[str, bytes | None], ...]


class Given(NamedTuple):
    """A record to write. Without a partition, its key decides; without a timestamp, it gets the time at which it is written."""

    key: bytes | None
    value: bytes | None
    headers: Headers = ()
    partition: int | None = None
    timestamp_ms: int | None = None


def as_json(partition: Partition, record: Record) -> str:
    """Return a record as an object in one line."""
    fields: dict[str, Any] = {
        "topic": partition.topic,
        "partition": partition.number,
        "offset": record.offset,
        "timestamp_ms": record.timestamp,
        **_field("key", record.key),
        **_field("value", record.value),
    }
    if record.headers:
        fields["headers"] = [{"name": name, **_field("value", value)} for name, value in record.headers]
    return json.dumps(fields, ensure_ascii=False)


def as_line(record: Record, *, key_separator: bytes | None, null: bytes) -> bytes:
    """Return the value of a record, behind its key and a separator if there is one."""
    value = null if record.value is None else record.value
    if key_separator is None:
        return value
    return b"%b%b%b" % (null if record.key is None else record.key, key_separator, value)


def harmless(line: bytes) -> str:
    """Return a line for a terminal, without the bytes that it would take for commands."""
    text = line.decode(errors="backslashreplace")
    return text if text.isprintable() else "".join(one if one.isprintable() or one in "\t\n" else repr(one)[1:-1] for one in text)


def of_json(line: bytes, where: str) -> Given:
    """Parse an object as `as_json` makes it, or with bytes as `{"base64": "/w=="}`. Another value that is no text is written as
    JSON; keys and headers must be texts. Raises FailedError, also for a field that records do not have.
    """
    return of_json_with_offset(line, where)[0]


def of_json_with_offset(line: bytes, where: str) -> tuple[Given, int]:
    """Parse an object, and return the offset that it had, too; -1 where it has none. Raises FailedError."""
    try:
        fields = json.loads(line)
        if not isinstance(fields, dict):
            raise TypeError("it is no object")
        _check_fields(fields, FIELDS, f"{where}: a record")
        return Given(
            _bytes(fields, "key"),
            _bytes(fields, "value", may_be_json=True),
            tuple(_header(one, where) for one in fields.get("headers") or ()),
            None if fields.get("partition") is None else int(fields["partition"]),
            _timestamp_ms(fields),
        ), int(fields.get("offset", -1))
    except KeyError as error:
        raise FailedError(f"{where}: a header has no {error.args[0]}") from error
    except (ValueError, TypeError, AttributeError, binascii.Error) as error:
        raise FailedError(f"{where}: not a record in JSON: {error}") from error


def of_line(line: bytes, where: str, *, key_separator: bytes | None, null: bytes | None) -> Given:
    """Parse a line that is a value, or a key and a value. Raises FailedError for a line without the separator."""
    key: bytes | None = None
    value: bytes | None = line
    if key_separator is not None:
        key, separator, value = line.partition(key_separator)
        if not separator:
            raise FailedError(f"{where} has no {key_separator.decode(errors='replace')!r} between a key and a value")
    return Given(None if key == null else key, None if value == null else value)


def _field(name: str, value: bytes | None) -> dict[str, str | None]:
    if value is None:
        return {name: None}
    try:
        return {name: value.decode()}
    except UnicodeDecodeError:
        return {name + BASE64: base64.b64encode(value).decode()}


def _check_fields(fields: Mapping[str, Any], known: Sequence[str], what: str) -> None:
    """Raise FailedError for a field that is not known: its data would be lost without a word."""
    for name in fields:
        if name not in known:
            meant = did_you_mean(name, known) or f"; its fields are {', '.join(known)}"
            raise FailedError(f"{what} has no field {name!r}{meant}")


def _header(one: Any, where: str) -> tuple[str, bytes | None]:
    if not isinstance(one, dict) or not isinstance(one.get("name", ""), str):
        raise TypeError('a header must be an object as {"name": "source", "value": "shop"}')
    _check_fields(one, HEADER_FIELDS, f"{where}: a header")
    return one["name"], _bytes(one, "value", f"the value of header {one['name']!r}")


def _bytes(fields: Mapping[str, Any], name: str, what: str = "", *, may_be_json: bool = False) -> bytes | None:
    if name + BASE64 in fields:
        return base64.b64decode(fields[name + BASE64], validate=True)
    value = fields.get(name)
    if value is None or isinstance(value, str):
        return None if value is None else value.encode()
    if isinstance(value, dict) and value.keys() == {"base64"}:  # as the page writes bytes
        return base64.b64decode(value["base64"], validate=True)
    if not may_be_json:
        raise TypeError(f'{what or name} must be a text, null, or {{"base64": "/w=="}}')
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def _timestamp_ms(fields: Mapping[str, Any]) -> int | None:
    if fields.get("timestamp_ms") is not None:
        at_ms = int(fields["timestamp_ms"])
        if not NO_TIMESTAMP <= at_ms <= TIME_MS_MAX:
            raise ValueError(f"timestamp_ms {at_ms} is no time")
        return at_ms
    if fields.get("timestamp") is None:
        return None
    found = moment_ms(str(fields["timestamp"]))
    if found is None:
        raise ValueError(f"{fields['timestamp']!r} is no time")
    return found
